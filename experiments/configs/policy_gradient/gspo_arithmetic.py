"""GSPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/gspo_arithmetic --workdir=runs/gspo

Paper: https://arxiv.org/abs/2507.18071

Clips are those of section 5.1, for long rows; answers of three tokens move further than that.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'gspo', 'clip_low': 3e-4, 'clip_high': 4e-4}
  config.updates.update(minibatches=2, microbatches=2)  # off policy in the second
  return config
