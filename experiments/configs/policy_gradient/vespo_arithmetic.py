"""VESPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/vespo_arithmetic --workdir=runs/vespo

Paper: https://arxiv.org/abs/2602.10693

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 65.8 (22.2 to 68.8)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {
      'name': 'vespo',
      'power_positive': 2.0, 'rate_positive': 3.0,
      'power_negative': 3.0, 'rate_negative': 2.0,
  }
  arithmetic.two_updates(config)
  return config
