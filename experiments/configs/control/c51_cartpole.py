"""C51 balances a pole.

Paper: Bellemare et al., 2017, https://arxiv.org/abs/1707.06887

    rlx --config=control/c51_cartpole --workdir=runs/c51_cartpole

Result: after 100,000 steps of the environment each of ten seeds returns 500 of 500
(`python -m rlx.experiments.control_table`), and each of ten trial seeds.

It has layer norm and learns from returns of three steps. Without either it comes to 500, the worst to 272,
and to 396 and 264 at the rate and with the ε of the authors' Adam (2.5e-4, 0.01 / 32); with layer norm alone
the worst of ten trial seeds ends at 400.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import dqn_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = dqn_cartpole.get_config(arg)
  atoms = {'num_atoms': 51, 'low': 0.0, 'high': 100.0}  # returns of 1 a step at γ = 0.99
  config.models.policy = {
      'name': 'greedy_on_atoms',
      'hidden': (64, 64),
      'activation': 'relu',
      'layer_norm': True,
      'epsilon': 0.1,
      **atoms,
  }
  config.algorithm = {'name': 'c51', 'discount': 0.99, 'target_period': 1, 'target_rate': 0.005, **atoms}
  config.rollout.update(name='n_step_replay', n=3, discount=0.99)
  return config
