"""SAPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/sapo_arithmetic --workdir=runs/sapo

Paper: https://arxiv.org/abs/2511.20347

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 65.4 (15.0 to 70.0)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'sapo', 'temperature_positive': 1.0, 'temperature_negative': 1.05}
  arithmetic.two_updates(config)
  return config
