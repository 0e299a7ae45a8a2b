"""GSPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/gspo_arithmetic --workdir=runs/gspo

Paper: https://arxiv.org/abs/2507.18071

Clips are the paper's, for long rows; answers of three tokens move further than that.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 65.0 (27.4 to 71.2)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'gspo', 'clip_low': 3e-4, 'clip_high': 4e-4}
  arithmetic.two_updates(config)
  return config
