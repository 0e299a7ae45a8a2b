"""REINFORCE, batch-mean baseline, on two-digit addition: the quickstart with 600 steps and three seeds.

    rlx --config=policy_gradient/reinforce_arithmetic --workdir=runs/reinforce

Paper: Williams, 1992, https://doi.org/10.1007/BF00992696

Result: held-out accuracy, median of three seeds (worst): 29.0 % (26.1 %) after SFT,
92.5 % (90.0 %) after 600 steps. Two CPU cores (AMD EPYC), busy with other work; minutes.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'reinforce', 'kl': {'name': 'no_kl'}, 'entropy_coef': 0.0}
  return config
