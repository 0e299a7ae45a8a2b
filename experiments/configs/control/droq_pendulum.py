"""DroQ swings a pendulum up: two critics with dropout and layer norm, ten updates a step.

Paper: Hiraoka et al., 2021, https://arxiv.org/abs/2110.02034

    rlx --config=control/droq_pendulum --workdir=runs/droq_pendulum

Result: after 2,000 steps of the environment the interquartile mean of ten seeds is -174, the worst -204; 500
steps before it is -173, the worst -453 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import redq_pendulum


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = redq_pendulum.get_config(arg)
  config.models.critic = {
      'name': 'dropout_critics',
      'num': 2,
      'hidden': (64, 64),
      'activation': 'relu',
      'rate': 0.01,  # the paper
  }
  del config.algorithm.subset
  config.algorithm.name, config.algorithm.num_critics = 'droq', 2
  return config
