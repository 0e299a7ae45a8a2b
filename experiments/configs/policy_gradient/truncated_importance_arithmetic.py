"""Truncated importance sampling on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/truncated_importance_arithmetic --workdir=runs/truncated_importance

Source: Yao et al., 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training. Here sampler
and trainer differ by rounding alone: it is to cost nothing.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 66.2 (33.6 to 73.4)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'truncated_importance', 'clip_low': 0.2, 'clip_high': 0.2, 'ratio_max': 2.0}
  arithmetic.two_updates(config)
  return config
