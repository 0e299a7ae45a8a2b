"""DeepSeek-V3.2's GRPO on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/deepseek_v32_arithmetic --workdir=runs/deepseek_v32

Paper: https://arxiv.org/abs/2512.02556

Result: not run yet.
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
  config.updates.update(minibatches=2, microbatches=2)  # off policy in the second
  return config
