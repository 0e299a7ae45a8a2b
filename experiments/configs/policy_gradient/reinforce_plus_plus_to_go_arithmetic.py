"""REINFORCE++ with penalties to go on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/reinforce_plus_plus_to_go_arithmetic --workdir=runs/mine

Paper: https://arxiv.org/abs/2501.03262

It differs from REINFORCE++ in how the KL in the reward is counted: so there is one, to what SFT left.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 68.4 (35.2 to 73.8)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.slow = {'reference': 'policy'}
  config.algorithm = {
      'name': 'reinforce_plus_plus_to_go',
      'kl': {'name': 'kl_in_reward', 'coef': 0.01},
      'clip_low': 0.2, 'clip_high': 0.2,
      'discount': 1.0,
  }
  arithmetic.two_updates(config)
  return config
