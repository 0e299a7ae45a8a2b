"""DRO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/dro_arithmetic --workdir=runs/dro

Paper: https://arxiv.org/abs/2405.19107

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'dro', 'leash': 0.1}
  config.updates.update(minibatches=2, microbatches=2)  # off policy in the second
  return config
