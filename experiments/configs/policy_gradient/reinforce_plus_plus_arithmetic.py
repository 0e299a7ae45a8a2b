"""REINFORCE++ on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/reinforce_plus_plus_arithmetic --workdir=runs/reinforce_plus_plus

Paper: https://arxiv.org/abs/2501.03262

The paper holds the policy to a reference in the reward; here nothing does, as in the others of the table.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 64.2 (31.2 to 76.2)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {
      'name': 'reinforce_plus_plus',
      'kl': {'name': 'no_kl'},
      'clip_low': 0.2, 'clip_high': 0.2,
  }
  arithmetic.two_updates(config)
  return config
