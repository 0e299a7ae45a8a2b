"""CISPO on two-digit addition: the quickstart with 600 steps, two updates a batch and three seeds.

    rlx --config=policy_gradient/cispo_arithmetic --workdir=runs/cispo

Paper: https://arxiv.org/abs/2506.13585

Result: held-out accuracy, median of three seeds (worst): 29.0 % (26.1 %) after SFT,
93.2 % (88.1 %) after 600 steps. Two CPU cores (AMD EPYC), busy with other work; minutes.
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
