"""TQC swings a pendulum up: SAC with truncated quantiles.

Paper: Kuznetsov et al., 2020, https://arxiv.org/abs/2005.04269

    rlx --config=control/tqc_pendulum --workdir=runs/tqc_pendulum

Result: after 4,500 steps of the environment the interquartile mean of ten seeds is -172, the worst -175
(`python -m rlx.experiments.control_table`); SAC's worst, whose other numbers are the same, is -307.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import sac_pendulum


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = sac_pendulum.get_config(arg)
  config.models.critic = {
      'name': 'quantile_critics',
      'num': 2,  # (the authors': 5)
      'hidden': (64, 64),
      'activation': 'relu',
      'num_quantiles': 25,
  }
  config.algorithm.update(name='tqc', dropped=2)  # of 25
  return config
