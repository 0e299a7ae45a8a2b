"""RCSL in a maze: the way from S to G is asked for, from random moves that began in S.

Paper: Brandfonbrener et al., 2022, https://arxiv.org/abs/2206.01079

    rlx --config=offline/rcsl_maze --workdir=runs/rcsl_maze

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.offline import bc_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_pointmass."""
  config = parent.get_config(arg)
  config.env = {
      'name': 'commanded',
      'target': 1.0,  # return
      'env': {
          'name': 'grid_maze',
          'layout': 'u',
          'starts': 'S',
          'goals': 'G',
          'max_steps': 50,
      },
  }
  config.models = {'policy': {'name': 'categorical', 'hidden': (64, 64), 'activation': 'relu'}}
  config.data = {'name': 'random', 'num_envs': 100, 'num_steps': 100, 'discount': 1.0, 'seed': 0}
  config.algorithm = {'name': 'rcsl'}
  return config
