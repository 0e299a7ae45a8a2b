"""A dueling network balances a pole.

Paper: Wang et al., 2015, https://arxiv.org/abs/1511.06581

    rlx --config=control/dueling_dqn_cartpole --workdir=runs/dueling_dqn_cartpole

Result: after 100,000 steps of the environment the interquartile mean of ten seeds is 500 of 500, the worst
328 (`python -m rlx.experiments.control_table`).

Without layer norm these are 498 and 144; with it and a rate that falls to nothing, 499 and 145. The worst of
ten trial seeds ended at 489.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import double_dqn_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = double_dqn_cartpole.get_config(arg)
  config.models.policy.network.update(name='dueling', layer_norm=True)
  return config
