"""GMPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/gmpo_arithmetic --workdir=runs/gmpo

Paper: https://arxiv.org/abs/2507.20673

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 67.2 (19.6 to 71.8)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'gmpo', 'log_clip_low': 0.4, 'log_clip_high': 0.4}
  arithmetic.two_updates(config)
  return config
