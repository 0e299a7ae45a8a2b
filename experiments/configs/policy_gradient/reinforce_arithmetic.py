"""REINFORCE, batch-mean baseline, on two-digit addition: the quickstart with 600 steps and three seeds.

    rlx --config=policy_gradient/reinforce_arithmetic --workdir=runs/reinforce

Paper: Williams, 1992, https://doi.org/10.1007/BF00992696

With all 600 steps, median of three seeds (worst): 29.0 % (26.1 %) of held-out sums after SFT, 92.5 % (90.0 %)
after.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 59.4 (26.8 to 74.8)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'reinforce', 'kl': {'name': 'no_kl'}, 'entropy_coef': 0.0}
  return config
