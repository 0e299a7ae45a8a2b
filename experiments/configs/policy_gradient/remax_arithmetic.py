"""ReMax on two-digit addition: one sample and one greedy answer a problem, three seeds.

    rlx --config=policy_gradient/remax_arithmetic --workdir=runs/remax

Paper: https://arxiv.org/abs/2310.10505

With 600 steps: median of three seeds (worst) 94.5 % (91.5 %) of held-out sums.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 67.4 (25.8 to 75.6)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.rollout.group_size = 1
  config.algorithm = {'name': 'remax', 'kl': {'name': 'no_kl'}, 'group_size': 1}
  return config
