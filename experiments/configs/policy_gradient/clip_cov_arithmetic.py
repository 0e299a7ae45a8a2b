"""Clip-Cov on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/clip_cov_arithmetic --workdir=runs/clip_cov

Paper: https://arxiv.org/abs/2505.22617

The paper leaves out 0.02 % of the tokens; of the few hundred of a batch here that would be none.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 63.2 (27.8 to 74.0)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {
      'name': 'clip_cov',
      'clip_low': 0.2, 'clip_high': 0.2,
      'fraction': 0.002, 'low': 1.0, 'high': 5.0,
  }
  arithmetic.two_updates(config)
  return config
