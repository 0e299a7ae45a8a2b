"""HECRL on a grid with two blocks, from pushes that seldom get their way.

Paper: Haramati et al., 2026, https://arxiv.org/abs/2602.02722

    rlx --config=experiments/configs/offline/hecrl_push.py --workdir=runs/hecrl_push

Result: with these numbers in tests/papers/test_hecrl.py, means over 6 seeds of 256 episodes: 0.57 of the
blocks in place (the flat policy: 0.51), all of them and the agent in 0.36 (0.34).
"""

from ml_collections import ConfigDict

from experiments.configs.offline import gciql_corridor as parent
from rlx.config import parse_arg

SIZE = 5  # cells
WAVELENGTHS = (10.0, 5.0, 2.5)  # cells
DISCOUNT = 0.95
NEAR_STEPS = 8


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of gciql_corridor."""
  config = parent.get_config(arg)
  networks = 'rlx.models.entities.'
  flat = {'features': 2, 'wavelengths': WAVELENGTHS, 'hidden': (64, 64), 'activation': 'relu'}
  # Of places on a grid the last wavelength says how far from one they are.
  denoiser = {**flat, 'wavelengths': (*WAVELENGTHS, 1.0), 'hidden': (64, 64, 64)}
  config.env = {'name': 'push_grid', 'size': SIZE, 'num_blocks': 2, 'max_steps': 60}
  config.models = {
      'policy': {
          'name': 'rlx.algorithms.control.hecrl.hierarchy',
          'low': {'name': networks + 'categorical', **flat},
          'value': {'name': networks + 'state_value', **flat},
          'subgoals': {'name': networks + 'denoiser', **denoiser},
          'num_levels': 10,
          'limit': 2.2,  # coordinates reach 2
      },
      'critic': {'name': networks + 'critics', 'num': 1, **flat},
  }
  config.params = {'policy': 'policy', 'critic': 'critic'}
  config.slow = {'target': 'critic'}
  config.data = {  # 40,000 transitions
      'name': 'rlx.envs.control.push_grid.noisy_pushes',
      'size': SIZE,
      'random_share': 0.6,
      'num_envs': 200,
      'num_steps': 200,
      'discount': DISCOUNT,
      'seed': 0,
  }
  config.steps = 3000
  config.rollout.update(goal_size=6, waypoint_steps=NEAR_STEPS)  # a whole state: x, y of three entities
  config.rollout.policy_goals = {'geometric': 0.2, 'uniform': 0.8}
  config.algorithm.update(name='hecrl', discount=DISCOUNT, expectile=0.9)
  config.optimizer.learning_rate = 2e-3
  config.eval = {
      'name': 'rlx.algorithms.control.hecrl.episodes',
      'every': config.eval.every,
      'num_samples': 16,
      'near': -(1 - DISCOUNT**NEAR_STEPS) / (1 - DISCOUNT),  # what so many steps cost
      'keep_steps': 3,
      'tolerance': 0.5,  # cells
      'episodes': 32,
      'max_subgoals': 30,
      'max_steps': 60,
  }
  if parse_arg(arg, smoke=False).smoke:
    config.steps = 4
    config.data.update(num_envs=3, num_steps=20)
    config.rollout.batch_size = 16
    config.eval.update(episodes=2, num_samples=2, max_subgoals=2, max_steps=4)
  return config
