"""Lite PPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/lite_ppo_arithmetic --workdir=runs/lite_ppo

Paper: https://arxiv.org/abs/2508.08221

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 65.4 (19.6 to 68.6)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'lite_ppo', 'clip_low': 0.2, 'clip_high': 0.2}
  arithmetic.two_updates(config)
  return config
