"""LUSPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/luspo_arithmetic --workdir=runs/luspo

Paper: https://arxiv.org/abs/2602.05261

Clips as in `gspo_arithmetic`.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 64.6 (30.8 to 74.8)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'luspo', 'clip_low': 3e-4, 'clip_high': 4e-4}
  arithmetic.two_updates(config)
  return config
