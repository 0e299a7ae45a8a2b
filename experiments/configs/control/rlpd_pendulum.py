"""RLPD swings a pendulum up: REDQ with layer norm, and half of the rows of a data set.

Paper: Ball et al., 2023, https://arxiv.org/abs/2302.02948

    rlx --config=control/rlpd_pendulum --workdir=runs/rlpd_pendulum

Result: after 1,500 steps of the environment the interquartile mean of ten seeds is -171, the worst
-174 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import redq_pendulum


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = redq_pendulum.get_config(arg)
  if not parse_arg(arg, smoke=False).smoke:
    config.steps = 1500  # of the environment
  config.models.critic.layer_norm = True
  config.data = {'name': 'random', 'num_envs': 10, 'num_steps': 200, 'discount': 0.99, 'seed': 0}
  config.rollout = {'name': 'mixed', 'online': config.rollout.to_dict(), 'share': 0.5}
  return config
