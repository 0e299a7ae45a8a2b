"""The optimal token baseline on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/optimal_token_baseline_arithmetic --workdir=runs/optimal_token_baseline

Paper: https://arxiv.org/abs/2602.07078

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 65.8 (30.8 to 76.0)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'optimal_token_baseline', 'clip_low': 0.2, 'clip_high': 0.2}
  arithmetic.two_updates(config)
  return config
