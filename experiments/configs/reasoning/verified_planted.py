"""A verifier against cloning: GRPO from clones of experts who plant late, three seeds.

    rlx --config=reasoning/verified_planted --workdir=runs/planted

Paper: https://arxiv.org/abs/2502.12118. `eval/left/reward` counts the tokens that are left behind the
pattern, and SFT ends with the clone. Sweep `verified_planted.py:budget=4`, `8`, `16`, each with
`heterogeneity=0.0` and `1.0`: the gain over the clone should grow with the first, and be none without the
second.

Result: it shows. Rise in the last 10 of eval/left/reward after 400 train steps, median of 5 seeds (worst):
8.32 (7.443), 'experts alike' 0.4933 (-0.4667), 'a quarter of the budget' 0.9567 (0.65). Claimed, and got (95
% interval over seeds): above 'a quarter of the budget' by 1, got 7.356 (6.277 to 7.976); above 'experts
alike' by 1, got 7.67 (6.958 to 8.908). 270 CPU-s on 1 cores of a CPU;
`rlx reproduce reasoning/verified_planted`.

Tried with four letters, five seeds: of sixteen patterns twelve are trained on, which clones learn by heart.
Of held-out ones they never held nine in ten within 400 steps, and GRPO gained nothing there.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, rise
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `small` (128 rows, 200 steps); `budget` (letters) and
  `heterogeneity` (in [0, 1])."""
  arg = parse_arg(arg, smoke=False, small=False, budget=16, heterogeneity=1.0)
  config = arithmetic.get_config(f'smoke={arg.smoke},small={arg.small}', steps=600)
  config.population.size = 3
  config.task = {
      'name': 'planted',
      'letters': 10,
      'length': 2,  # letters of a pattern
      'budget': arg.budget,
      'heterogeneity': arg.heterogeneity,
      'held_out_share': 0.2,
  }
  config.sft.task = config.task
  config.sft.stop.at_least = 0.9  # greedy answers that hold their pattern
  config.decoding.max_tokens = config.sft.decoding.max_tokens = arg.budget + 1  # and the end token
  if arg.small:
    config.steps, config.rollout.batch_size, config.updates.microbatches = 200, 128, 1
    config.sft.steps = 200
  config.reward = {'name': 'toys.tokens_left'}
  config.evals.left = {**config.evals.held_out, 'name': 'paid', 'samples': 1}
  return config


def claim() -> Claim:
  """What is read is the gain over the clone that the stage begins with: the last ten evaluations."""
  planted = lambda of: f'reasoning/verified_planted:small,{of}'
  return Claim(
      paper='S165',
      says='a verifier gains more over cloning the larger the budget is, and only where experts differ',
      argument='small',
      reading=rise('eval/left/reward', last=10),
      asserts=(above('a quarter of the budget', by=1.0), above('experts alike', by=1.0)),  # tokens
      controls=(Arm('experts alike', config=planted('heterogeneity=0.0')),),
      beside=(Arm('a quarter of the budget', config=planted('budget=4')),),
      minutes=6.0,
  )
