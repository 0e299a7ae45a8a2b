"""RED on addition: a fifth of the problems have a demonstration, and hardly anything is known before.

    rlx --config=replay/red_arithmetic --workdir=runs/red

Supervised learning ends after 40 steps, at some 4 %, where rewards alone are too rare to learn from quickly.
The weight follows the ratio and wanders between its bounds. At four of five demonstrations samples fail, and
imitation by LUFFY's shaping is then slower than plain imitation, which is what the fixed mixture does.

Behind more supervised learning, until a fifth is right, the two come closer: five trial seeds ended at 0.46
(0.26 to 0.81), and at 0.50 (0.23 to 0.84) by the fixed mixture.

Paper: https://arxiv.org/abs/2508.16677

Result: it does not show. Mean of the last 3 eval/held_out/accuracy after 280 train steps, median of 5 seeds
(worst): 0.1889 (0.06889), 'RL alone' 0.1644 (0.003333), 'fixed mixture' 0.31 (0.1378). Claimed, and got (95 %
interval over seeds): above 'fixed mixture', got -0.07556 (-0.1233 to 0.005553), the run fails it; above 'RL
alone', got 0.09407 (0.02704 to 0.2141), without the mechanism it holds as well: 'fixed mixture'. 180 CPU-s on
1 cores of a CPU; `rlx reproduce replay/red_arithmetic`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic

ROWS = {'batch_size': 128, 'group_size': 8, 'num_slots': 0}
SHOWN = 0.2  # of all problems have a demonstration
FIXED = {
    'algorithm.weight_max': 1.0,
    'algorithm.accuracy_min': 0.0,  # the ratio of the policy at the start of the update: plain imitation
}
SAMPLES_ALONE = {
    'rollout': {'name': 'prompts.completions', **ROWS},
    'algorithm': arithmetic.GRPO,
}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (operands of 1 to 30, 240 steps: five seeds in a
  minute or two)."""
  config = arithmetic.get_config(arg, steps=600)
  arg = parse_arg(arg, smoke=False, small=False)
  config.population.size = 5
  config.rollout = {
      'name': 'demonstrated.demonstrated',
      **ROWS,
      'shown_share': SHOWN,
  }
  config.updates.microbatches = 1
  config.sft.steps = 40
  config.evals.sampled = {**config.evals.held_out, 'name': 'sampled'}
  config.algorithm = {
      'name': 'red',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'weight_min': 1.0,
      'weight_max': 7.0,  # as in the authors' code
      'keep': 0.9,  # of the entropies' means, for a batch has few demonstrations
      'accuracy_min': 0.5,  # of a group's samples, from which on a demonstration is as one of them
      'gamma': 0.1,  # LUFFY's
  }
  if arg.small:
    config.steps = 240
  if arg.smoke:
    config.rollout.batch_size, config.sft.steps = 16, 4
  return config


def claim() -> Claim:
  """Beside the same demonstrations at a fixed weight, and beside samples alone."""
  return Claim(
      paper='S223',
      says='a weight by the ratio of entropies, and imitation where samples fail, end above a fixed mixture '
      'and above RL alone',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=3),
      asserts=(above('fixed mixture'), above('RL alone')),
      baseline=Arm('RL alone', SAMPLES_ALONE),
      controls=(Arm('fixed mixture', FIXED),),
      minutes=6.0,
  )
