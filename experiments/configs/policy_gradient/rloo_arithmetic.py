"""RLOO on two-digit addition: the quickstart with 600 steps and three seeds.

    rlx --config=policy_gradient/rloo_arithmetic --workdir=runs/rloo

Paper: https://arxiv.org/abs/2402.14740

With all 600 steps, median of three seeds (worst): 29.0 % (26.1 %) of held-out sums after SFT, 92.9 % (89.6 %)
after.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 62.4 (25.8 to 73.4)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'rloo', 'kl': {'name': 'no_kl'}}
  return config
