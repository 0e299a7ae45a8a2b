"""OPO on two-digit addition: the quickstart with 600 steps.

    rlx --config=policy_gradient/opo_arithmetic --workdir=runs/opo

Paper: https://arxiv.org/abs/2505.23585

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 63.2 (25.2 to 70.4)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'opo'}
  return config
