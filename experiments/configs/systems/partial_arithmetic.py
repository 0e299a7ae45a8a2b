"""Partial rollouts on arithmetic: a quarter of a batch's groups more is begun, the slowest go on next step.

    rlx --config=systems/partial_arithmetic --workdir=runs/partial

Source: Kimi k1.5, https://arxiv.org/abs/2501.12599, section 2.6.2.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


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
