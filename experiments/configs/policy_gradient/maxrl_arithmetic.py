"""MaxRL on two-digit addition: the quickstart with 600 steps.

    rlx --config=policy_gradient/maxrl_arithmetic --workdir=runs/maxrl

Paper: https://arxiv.org/abs/2602.02710

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'maxrl'}
  return config
