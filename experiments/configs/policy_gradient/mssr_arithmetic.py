"""MSSR on two-digit addition, one sample of each problem: the quickstart with 600 steps and three seeds.

    rlx --config=policy_gradient/mssr_arithmetic --workdir=runs/mssr

Paper: https://arxiv.org/abs/2512.18215

Result: it shows in part. Mean of the last 10 eval/held_out/accuracy after 380 train steps, median of 10 seeds
(worst): 0.7727 (0.4237), 'GRPO' 0.7162 (0.254), 'no bonus for uncertainty' 0.7613 (0.4797). Claimed, and got
(95 % interval over seeds): above 'GRPO' by -0.03, got 0.0765 (0.04645 to 0.1285); above 'no bonus for
uncertainty', got -0.005947 (-0.02745 to 0.01439), the run fails it. 487 CPU-s on 1 cores of a CPU;
`rlx reproduce policy_gradient/mssr_arithmetic`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  rows = config.rollout.batch_size
  prior = {'prior_rate': 0.3, 'prior_strength': 2.0}  # what SFT leaves, worth two samples
  num_problems = 8 * rows  # each is met about once in eight steps
  config.rollout = {
      'name': 'curriculum',
      'num_problems': num_problems,
      'batch_size': rows,
      'num_prompts': rows,
      'num_slots': 0,
      'scores': {'name': 'controllers.prompts.everywhere'},
      'draw': {'name': 'controllers.prompts.without_replacement'},
      'allocate': {'name': 'controllers.allocation.uniform'},
      'length': {'name': 'controllers.schedules.constant', 'value': config.decoding.max_tokens},
      'keep': 1.0,
      **prior,
  }
  config.algorithm = {
      'name': 'mssr',
      'num_problems': num_problems,
      'clip_low': 0.2,
      'clip_high': 0.2,
      **prior,
      'keep_low': 0.5,
      'keep_high': 0.95,
      'drift': 0.1,  # nats a token
      'entropy_scale': 0.4,  # of "Reasoning with Exploration"
      'kappa': 2.0,  # of the same
  }
  return config


def claim() -> Claim:
  """Beside groups of eight on as many rows; and without what uncertain tokens earn."""
  return Claim(
      paper='S180',
      says='one sample of each problem learns as well as groups, at equal rollouts',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('GRPO', by=-0.03), above('no bonus for uncertainty')),
      baseline=Arm('GRPO', config='quickstart/arithmetic:small'),
      beside=(Arm('no bonus for uncertainty', {'algorithm.entropy_scale': 0.0}),),
      seeds=10,
      minutes=16.0,
  )
