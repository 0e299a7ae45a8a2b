"""DeepSeek-V3.2's GRPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/deepseek_v32_arithmetic --workdir=runs/deepseek_v32

Paper: https://arxiv.org/abs/2512.02556

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 64.0 (24.4 to 72.8)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {
      'name': 'deepseek_v32',
      'kl': {'name': 'no_kl'},
      'clip_low': 0.2, 'clip_high': 0.2,
      'kl_max': 0.5,
  }
  arithmetic.two_updates(config)
  return config
