"""REDQ swings a pendulum up: ten critics, ten updates a step of the environment.

Paper: Chen et al., 2021, https://arxiv.org/abs/2101.05982

    rlx --config=control/redq_pendulum --workdir=runs/redq_pendulum

Result: after 2,000 steps of the environment the interquartile mean of ten seeds is -172, the worst -179; 500
steps before it is -173, the worst -499 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import sac_pendulum


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = sac_pendulum.get_config(arg)
  config.steps = 2000  # of the environment, after 500 random ones
  config.models.critic.num = 10
  config.rollout.batch_size = 10 * 64
  config.updates.minibatches = 10
  config.algorithm.name, config.algorithm.subset = 'redq', 2
  config.optimizer = {
      'name': 'adam_per_model',
      'learning_rates': {'policy': 3e-3, 'critic': 1e-3, 'temperature': 3e-3},
      'periods': {'policy': 10, 'critic': 1, 'temperature': 10},  # updates
      'b1': 0.9,
      'b2': 0.999,
      'eps': 1e-8,
  }
  if parse_arg(arg, smoke=False).smoke:
    config.steps, config.rollout.batch_size = 4, 20
  return config
