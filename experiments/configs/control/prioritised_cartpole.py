"""Double DQN balances a pole with prioritised replay.

Paper: Schaul et al., 2015, https://arxiv.org/abs/1511.05952

    rlx --config=control/prioritised_cartpole --workdir=runs/prioritised_cartpole

Result: after 100,000 steps of the environment the interquartile mean of ten seeds is 500 of 500, the worst
407 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import double_dqn_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = double_dqn_cartpole.get_config(arg)
  config.rollout.update(name='prioritised_replay', alpha=0.6, beta=0.4, n=1, discount=0.99)
  return config
