"""Dr. GRPO on two-digit addition: the quickstart with 600 steps and three seeds.

    rlx --config=policy_gradient/dr_grpo_arithmetic --workdir=runs/dr_grpo

Paper: https://arxiv.org/abs/2503.20783

Result: held-out accuracy, median of three seeds (worst): 29.0 % (26.1 %) after SFT,
92.0 % (87.5 %) after 600 steps. Two CPU cores (AMD EPYC), busy with other work; minutes.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {
      'name': 'dr_grpo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},  # section 3.2 trains without
      'length': config.decoding.max_tokens,
  }
  return config
