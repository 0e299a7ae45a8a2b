"""Knapsack RL on two-digit addition: 8 samples a problem on average, 2 to 64 by what they may teach.

    rlx --config=curriculum/knapsack_arithmetic --workdir=runs/knapsack

Paper: https://arxiv.org/abs/2509.25849

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.curriculum import mopps_arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = mopps_arithmetic.get_config(arg)
  config.rollout.scores = {'name': 'controllers.prompts.everywhere'}
  config.rollout.allocate = {
      'name': 'controllers.allocation.knapsack',
      'low': 2,
      'high': min(64, config.rollout.batch_size // 2),
  }
  return config
