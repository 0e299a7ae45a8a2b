"""TD3+BC on records of a cautious controller, where actions act late; or in wind, or under a limit.

Paper: Gao et al., 2025, https://arxiv.org/abs/2503.19267; the algorithm: Fujimoto and Gu, 2021, https://arxiv.org/abs/2106.02860

    rlx --config=offline/td3_bc_near_real --workdir=runs/td3_bc_late

Result: not run yet. With half of the updates and rows in tests/papers/test_neorl.py, over 5 seeds: median
scores -36.5, 1.8 and 0.3 where the records have 64.8, 53.5 and 65.0 (late, windy, limited).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.offline import bc_near_real as parent
from rlx.experiments.configs.offline import td3_bc_pointmass


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_near_real."""
  config, learner = parent.get_config(arg), td3_bc_pointmass.get_config()
  for section in ('models', 'trained', 'slow', 'algorithm'):
    config[section] = learner[section]
  return config
