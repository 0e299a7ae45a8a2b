"""PPO with a critic on two-digit addition: the quickstart with 600 steps and three seeds.

    rlx --config=policy_gradient/ppo_arithmetic --workdir=runs/ppo

Paper: https://arxiv.org/abs/1707.06347

With all 600 steps, median of three seeds (worst): 29.0 % (26.1 %) of held-out sums after SFT, 93.5 % (88.9 %)
after.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 61.0 (26.4 to 71.6)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.models.value = {'name': 'value_head'}
  config.trained = ('policy', 'value')
  config.algorithm = {
      'name': 'ppo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'entropy_coef': 0.0,
      'value_coef': 0.5,
      'value_clip': 0.2,
      'discount': 1.0,
      'lambda_': 0.95,
  }
  return config
