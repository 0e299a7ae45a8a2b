"""COMBO on mixed data: SAC in a model of them, whose critic is pushed down where the model dreams.

Paper: Yu et al., 2021, https://arxiv.org/abs/2102.08363

    rlx --config=experiments/configs/offline/combo_pointmass.py --workdir=runs/combo_pointmass

Result: not run yet. With half of the updates and smaller models in tests/control/test_combo.py, over 5 seeds:
score 76 (median), 8 (worst).
"""

from ml_collections import ConfigDict

from experiments.configs.offline import mopo_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of mopo_pointmass."""
  config = parent.get_config(arg)
  config.rollout = {
      'name': 'rlx.algorithms.control.combo.dreams',
      'horizon': 5,
      'real_rows': 64,  # half of a batch
      'dreams': 13,
  }
  config.algorithm = {
      'name': 'combo',
      'discount': 0.97,
      'target_rate': 0.01,
      'target_entropy': -1.5,  # nats for each number of an action
      'conservatism': 1.0,
      'num_actions': 4,
  }
  return config
