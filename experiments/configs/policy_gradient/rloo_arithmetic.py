"""RLOO on two-digit addition: the quickstart with 600 steps and three seeds.

    rlx --config=experiments/configs/policy_gradient/rloo_arithmetic.py --workdir=runs/rloo

Paper: https://arxiv.org/abs/2402.14740

Result: not run yet.
"""

from ml_collections import ConfigDict

from experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'rloo', 'kl_coef': 0.0, 'entropy_coef': 0.0}
  return config
