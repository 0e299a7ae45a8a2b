"""A dueling network balances a pole.

Paper: Wang et al., 2015, https://arxiv.org/abs/1511.06581

    rlx --config=control/dueling_dqn_cartpole --workdir=runs/dueling_dqn_cartpole

Result: after 100,000 steps of the environment the interquartile mean of ten seeds is 500 of 500, the worst
443 (`python -m rlx.experiments.control_table`).

It learns from returns of three steps. From those of one the worst ends at 328, without layer norm at 144, and
with it and a rate that falls to nothing at 145. The worst of ten trial seeds ends at 496, of one step at 489.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import n_step_dqn_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = n_step_dqn_cartpole.get_config(arg)
  config.models.policy.network.name = 'dueling'
  return config
