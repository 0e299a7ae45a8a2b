"""The generalisation gap of implicit Q-learning, from the data of `bc_levels`.

Paper: Mediratta et al., 2023, https://arxiv.org/abs/2312.05742

    rlx --config=offline/iql_levels --workdir=runs/iql_levels_10
    rlx --config=offline/iql_levels:num_levels=1000 --workdir=runs/iql_levels_1000

Result: with these numbers in tests/papers/test_generalization_gap.py, over 5 seeds: held-out levels solved
0.200 (median), 0.184 (worst) after 10 levels, 0.740 and 0.724 after 1000; this file itself was not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.offline import bc_levels as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_levels."""
  config = parent.get_config(arg)
  shape = {'hidden': (64, 64), 'activation': 'relu'}
  config.models.value = {'name': 'state_value', **shape}
  config.models.critic = {'name': 'discrete_critics', 'num': 2, **shape}
  config.trained = ('policy', 'value', 'critic')
  config.slow = {'target': 'critic'}
  config.algorithm = {
      'name': 'iql',
      'discount': 0.9,
      'target_rate': 0.01,
      'expectile': 0.8,
      'sharpness': 10.0,  # returns are at most 1
      'weight_max': 100.0,
  }
  return config
