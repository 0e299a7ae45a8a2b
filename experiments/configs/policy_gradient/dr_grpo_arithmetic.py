"""Dr. GRPO on two-digit addition: the quickstart with 600 steps and three seeds.

    rlx --config=policy_gradient/dr_grpo_arithmetic --workdir=runs/dr_grpo

Paper: https://arxiv.org/abs/2503.20783

With all 600 steps, median of three seeds (worst): 29.0 % (26.1 %) of held-out sums after SFT, 92.0 % (87.5 %)
after.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 57.2 (26.0 to 65.0)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
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
