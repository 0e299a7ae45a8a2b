"""Cal-QL on mixed data: CQL whose values do not fall below what the data earned.

Paper: Nakamoto et al., 2023, https://arxiv.org/abs/2303.05479

    rlx --config=offline/cal_ql_pointmass --workdir=runs/cal_ql_pointmass

Result: after 2,000 updates the interquartile mean of ten seeds returns -41.5, the worst -49.0: a score
of 90, where random actions have 0 and a controller 100 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.offline import cql_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of cql_pointmass."""
  config = parent.get_config(arg)
  config.algorithm.name = 'cal_ql'
  return config
