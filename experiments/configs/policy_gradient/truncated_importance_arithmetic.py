"""Truncated importance sampling on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/truncated_importance_arithmetic --workdir=runs/truncated_importance

Source: Yao et al., 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training. Here sampler
and trainer differ by rounding alone: it is to cost nothing.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'truncated_importance', 'clip_low': 0.2, 'clip_high': 0.2, 'ratio_max': 2.0}
  config.updates.update(minibatches=2, microbatches=2)  # off policy in the second
  return config
