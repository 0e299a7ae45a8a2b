"""Munchausen DQN balances a pole.

Paper: Vieillard et al., 2020, https://arxiv.org/abs/2007.14430

    rlx --config=control/munchausen_dqn_cartpole --workdir=runs/munchausen

Result: after 100,000 steps of the environment the interquartile mean of ten seeds is 500 of 500, the worst
500 (`python -m rlx.experiments.control_table`).

Without layer norm and with a rate that falls to a tenth, not to nothing, these are 490 and 108.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import dqn_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = dqn_cartpole.get_config(arg)
  del config.algorithm.target  # it is soft
  config.algorithm.update(name='munchausen_dqn', alpha=0.9, tau=0.03, lowest=-1.0)  # the authors', for Atari
  config.models.policy.network.layer_norm = True
  config.optimizer.final_fraction = 0.0
  return config
