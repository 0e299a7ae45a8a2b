"""CQL on records of a cautious controller, where actions act late; or in wind, or under a limit.

Paper: Gao et al., 2025, https://arxiv.org/abs/2503.19267; the algorithm: Kumar et al., 2020, https://arxiv.org/abs/2006.04779

    rlx --config=offline/cql_near_real --workdir=runs/cql_late

Result: not run yet. With half of the updates and rows in tests/papers/test_neorl.py, over 5 seeds: median
scores 56.4, 45.6 and 64.1 where the records have 64.8, 53.5 and 65.0 (late, windy, limited).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.offline import bc_near_real as parent
from rlx.experiments.configs.offline import cql_pointmass


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_near_real."""
  config, learner = parent.get_config(arg), cql_pointmass.get_config()
  for section in ('models', 'trained', 'slow', 'algorithm'):
    config[section] = learner[section]
  return config
