"""DRO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/dro_arithmetic --workdir=runs/dro

Paper: https://arxiv.org/abs/2405.19107

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 59.2 (29.0 to 69.6)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'dro', 'leash': 0.1}
  arithmetic.two_updates(config)
  return config
