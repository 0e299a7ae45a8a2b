"""EPO on two-digit addition: an entropy bonus, and a band of half to twice what the entropy has been.

    rlx --config=policy_gradient/epo_entropy_arithmetic --workdir=runs/epo

Paper: https://arxiv.org/abs/2509.22576. There agents act for thirty turns before they hear of success; the
penalty outside the band is a constant, here it is the distance from the band.

Result: held-out accuracy, median of three seeds (worst): 93.5 % (89.9 %) in the end.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  parse_arg(arg, smoke=False)
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {
      'name': 'epo_entropy',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'entropy_coef': 0.01,
      'smooth_coef': 4.0,
      'ratio_low': 0.5,  # 0 in the authors' scripts: no floor
      'ratio_high': 2.0,
      'window': 600,  # steps: all of them, as in the authors' code
      'phase': {
          'name': 'controllers.schedules.two_phases',
          'kept': 0.8,
          'slow_rate': 2.0,
          'fast_rate': 3.0,
          'num_steps': 600,
      },
  }
  return config
