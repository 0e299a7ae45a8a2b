"""The two-sided clip of INTELLECT-2 on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/dual_clip_arithmetic --workdir=runs/dual_clip

Paper: https://arxiv.org/abs/2505.07291

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 68.4 (35.4 to 73.4)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'dual_clip', 'clip_low': 0.2, 'clip_high': 0.2, 'ratio_max': 4.0}
  arithmetic.two_updates(config)
  return config
