"""DAPO on two-digit addition: the quickstart with 600 steps and three seeds.

    rlx --config=policy_gradient/dapo_arithmetic --workdir=runs/dapo

Paper: https://arxiv.org/abs/2503.14476

With all 600 steps, median of three seeds (worst): 29.0 % (26.1 %) of held-out sums after SFT, 91.9 % (88.9 %)
after.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 55.2 (31.8 to 69.4)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {
      'name': 'dapo',
      'clip_low': 0.2,  # section 4.1
      'clip_high': 0.28,  # section 4.1
      'train_rows': config.rollout.batch_size // 2,  # half of what is sampled
      'max_tokens': 2 * config.decoding.max_tokens,  # answers are short: no penalty up to the budget
      'overlong_buffer': config.decoding.max_tokens,
  }
  return config
