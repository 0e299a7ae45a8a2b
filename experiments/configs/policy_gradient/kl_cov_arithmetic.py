"""KL-Cov on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/kl_cov_arithmetic --workdir=runs/kl_cov

Paper: https://arxiv.org/abs/2505.22617

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 61.0 (15.0 to 67.2)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'kl_cov', 'fraction': 0.002, 'leash': 1.0}
  arithmetic.two_updates(config)
  return config
