"""MaxRL on two-digit addition: the quickstart with 600 steps.

    rlx --config=policy_gradient/maxrl_arithmetic --workdir=runs/maxrl

Paper: https://arxiv.org/abs/2602.02710

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 68.6 (33.4 to 71.0)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'maxrl'}
  return config
