"""RCSL in a maze: the way from S to G is asked for, from random moves that began in S.

Paper: Brandfonbrener et al., 2022, https://arxiv.org/abs/2206.01079

    rlx --config=offline/rcsl_maze --workdir=runs/rcsl_maze

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.offline import bc_pointmass as parent

# Ten moves from S to G, seven to M.
LAYOUT = """
#######
#S....#
#####.#
#G..M.#
#######"""


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_pointmass."""
  config = parent.get_config(arg)
  config.env = {
      'name': 'commanded',
      'target': 1.0,  # return
      'env': {
          'name': 'tabular_maze',
          'layout': LAYOUT,
          'starts': 'S',
          'goals': 'G',
          'max_steps': 50,
      },
  }
  config.models = {'policy': {'name': 'categorical', 'hidden': (64, 64), 'activation': 'relu'}}
  config.data = {'name': 'random', 'num_envs': 200, 'num_steps': 180, 'discount': 1.0, 'seed': 0}
  # Half of the records begin at M, and none is long enough for the whole way.
  config.data.env = config.env.to_dict()
  config.data.env.env.update(starts='SM', max_steps=9)
  config.algorithm = {'name': 'rcsl'}
  return config
