"""CISPO on two-digit addition: the quickstart with 600 steps, two updates a batch and three seeds.

    rlx --config=policy_gradient/cispo_arithmetic --workdir=runs/cispo

Paper: https://arxiv.org/abs/2506.13585

With all 600 steps, median of three seeds (worst): 29.0 % (26.1 %) of held-out sums after SFT, 93.2 % (88.1 %)
after.

Result: held-out accuracy, median of 5 seeds (worst to best), after 120 steps at `:small`: 55.8 (20.4 to 69.4)
%, GRPO from the same models 65.0 (29.4 to 71.4) %; `python -m rlx.experiments.studies.presets`.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.algorithm = {'name': 'cispo', 'clip_low': 1.0, 'clip_high': 0.28}
  arithmetic.two_updates(config)
  config.updates.microbatches = 2
  return config
