"""SAPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/sapo_arithmetic --workdir=runs/sapo

Paper: https://arxiv.org/abs/2511.20347

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'sapo', 'temperature_positive': 1.0, 'temperature_negative': 1.05}
  config.updates.update(minibatches=2, microbatches=2)  # off policy in the second
  return config
