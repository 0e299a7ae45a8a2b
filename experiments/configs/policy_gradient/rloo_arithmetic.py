"""RLOO on two-digit addition: the quickstart with 600 steps and three seeds.

    rlx --config=policy_gradient/rloo_arithmetic --workdir=runs/rloo

Paper: https://arxiv.org/abs/2402.14740

Result: held-out accuracy, median of three seeds (worst): 29.0 % (26.1 %) after SFT,
92.9 % (89.6 %) after 600 steps. Two CPU cores (AMD EPYC), busy with other work; minutes.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'rloo', 'kl': {'name': 'no_kl'}}
  return config
