"""Double DQN balances a pole.

Paper: van Hasselt et al., 2015, https://arxiv.org/abs/1509.06461

    rlx --config=control/double_dqn_cartpole --workdir=runs/double_dqn_cartpole

Result: after 100,000 steps of the environment the interquartile mean of ten seeds is 498 of 500, the worst
448 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import dqn_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = dqn_cartpole.get_config(arg)
  config.algorithm.target.name = 'dqn.double_target'
  return config
