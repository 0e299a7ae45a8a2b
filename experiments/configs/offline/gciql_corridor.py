"""GCIQL in a long corridor, from walks that hardly ever go through it.

Paper: Park et al., 2024, https://arxiv.org/abs/2410.20092

    rlx --config=offline/gciql_corridor --workdir=runs/gciql_corridor

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.offline import iql_pointmass as parent

LENGTH = 45  # cells
WALL = '#' * (LENGTH + 2)
LAYOUT = f'{WALL}\n#S{"." * (LENGTH - 2)}G#\n{WALL}'


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of iql_pointmass."""
  config = parent.get_config(arg)
  config.env = {
      'name': 'grid_maze',
      'layout': LAYOUT,
      'starts': 'SG.',
      'goals': 'SG.',
      'max_steps': 100,
  }
  config.models.policy = {'name': 'categorical', 'hidden': (64, 64), 'activation': 'relu'}
  config.models.value = {'name': 'state_value', 'hidden': (64, 64), 'activation': 'relu'}
  config.models.critic = {'name': 'discrete_critics', 'num': 2, 'hidden': (64, 64), 'activation': 'relu'}
  config.data = {  # 20,000 transitions
      'name': 'walks.tending',
      'layout': LAYOUT,
      'tendency': 0.15,
      'num_envs': 200,
      'num_steps': 100,
      'discount': 0.95,
      'seed': 0,
  }
  config.rollout = {
      'name': 'hindsight',
      'goal_size': 2,
      'value_goals': {'current': 0.2, 'geometric': 0.5, 'random': 0.3},  # the authors'
      'policy_goals': {'uniform': 1.0},  # the authors'
      'discount': 0.95,
      'waypoint_steps': 8,
      'tolerance': 0.1,  # half a cell
      'batch_size': 128,
  }
  config.algorithm = {
      'name': 'gciql',
      'discount': 0.95,
      'target_rate': 0.02,
      'expectile': 0.9,
      'sharpness': 3.0,
      'weight_max': 100.0,
  }
  # Data go anywhere; an evaluation asks for the far end, in twice the moves that it takes.
  config.evals.episodes.env = {**config.env.to_dict(), 'starts': 'S', 'goals': 'G', 'max_steps': 2 * LENGTH}
  return config
