"""COMBO on mixed data: SAC in a model of them, whose critic is pushed down where the model dreams.

Paper: Yu et al., 2021, https://arxiv.org/abs/2102.08363

    rlx --config=offline/combo_pointmass --workdir=runs/combo_pointmass

Result: after 4,000 updates the interquartile mean of ten seeds returns -41.4, the worst -48.5: a score
of 90, where random actions have 0 and a controller 100 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.offline import mopo_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of mopo_pointmass."""
  config = parent.get_config(arg)
  config.rollout = {
      'name': 'real_and_dreamt',
      'horizon': 5,
      'real_rows': 64,  # half of a batch
      'dreams': 13,
  }
  config.algorithm = {
      'name': 'combo',
      'parent': {
          'name': 'sac',
          'discount': 0.97,
          'target_rate': 0.01,
          'target_entropy': -1.5,  # nats for each number of an action
      },
      'conservatism': 1.0,
      'num_actions': 4,
  }
  return config
