"""DPPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/dppo_tv_arithmetic --workdir=runs/dppo_tv

Paper: https://arxiv.org/abs/2602.04879

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 58.8 (20.4 to 72.2)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'dppo_tv', 'low': 0.2, 'high': 0.2, 'ratio_max': 20.0}
  arithmetic.two_updates(config)
  return config
