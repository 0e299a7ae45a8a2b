"""GMPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/gmpo_arithmetic --workdir=runs/gmpo

Paper: https://arxiv.org/abs/2507.20673

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'gmpo', 'log_clip_low': 0.4, 'log_clip_high': 0.4}
  config.updates.update(minibatches=2, microbatches=2)  # off policy in the second
  return config
