"""Online difficulty filtering on two-digit addition: groups of 8 with 2 to 6 right answers.

    rlx --config=curriculum/balanced_band_arithmetic --workdir=runs/balanced_band

Paper: https://arxiv.org/abs/2504.03380

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  rows = config.rollout.batch_size
  config.rollout = {
      'name': 'rounds.within_band',
      'batch_size': rows,
      'group_size': 8,
      'num_slots': 0,
      'round_groups': rows // 8,
      'num_rounds': 4,  # at most
      'low': 0.25,
      'high': 0.75,
  }
  return config
