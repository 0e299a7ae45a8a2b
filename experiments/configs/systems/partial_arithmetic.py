"""Partial rollouts on arithmetic: a quarter of a batch's groups more is begun, the slowest go on next step.

    rlx --config=systems/partial_arithmetic --workdir=runs/partial

Source: Kimi k1.5, https://arxiv.org/abs/2501.12599, section 2.6.2.

Result: it shows. Mean of the last 10 eval/held_out/accuracy after 380 train steps, median of 10 seeds
(worst): 0.7145 (0.2277), 'whole' 0.7162 (0.254). Claimed, and got (95 % interval over seeds): above 'whole'
by -0.03, got 0.00639 (-0.02011 to 0.02879). 464 CPU-s on 1 cores of a CPU;
`rlx reproduce systems/partial_arithmetic`.

Five seeds left it open (-0.10 to 0.02); ten were run then.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic

MARGIN = 0.03  # of held-out accuracy


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `quickstart/arithmetic.py`."""
  config = arithmetic.get_config(arg, steps=600)
  groups = config.rollout.batch_size // config.rollout.group_size
  config.rollout = {
      **config.rollout,
      'name': 'partial_completions',
      'num_slots': config.rollout.batch_size + config.rollout.batch_size // 4,  # all that are begun
      'unfinished_groups': max(groups // 4, 1),
      'max_age': 4,  # train steps
  }
  return config


def claim() -> Claim:
  """Beside the quickstart, which waits for the longest row of each batch: that nothing is lost."""
  return Claim(
      paper='',
      says='rows that took several train steps teach as well as whole ones, at as many rows',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('whole', by=-MARGIN),),
      baseline=Arm('whole', {'rollout': {**arithmetic.get_config('small').rollout.to_dict()}}),
      seeds=10,
      minutes=12.0,
  )
