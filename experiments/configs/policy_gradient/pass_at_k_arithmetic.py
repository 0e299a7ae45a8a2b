"""Pass@k training on two-digit addition: the quickstart with 600 steps of two updates.

    rlx --config=policy_gradient/pass_at_k_arithmetic --workdir=runs/pass_at_k

Paper: https://arxiv.org/abs/2508.10751

Greedy accuracy is not what it trains: pass@8 is in the table.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 59.8 (29.8 to 69.6)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'pass_at_k', 'clip_low': 0.2, 'clip_high': 0.2, 'k': 4}
  arithmetic.two_updates(config)
  return config
