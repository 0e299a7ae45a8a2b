"""Dead-end rectification on two-digit addition: a wrong sum is the bad end; half a decoder sees it coming.

    rlx --config=latent/deadend_arithmetic --workdir=runs/deadend

Paper: https://arxiv.org/abs/2302.14003. A policy of 30 % is taught first and then stays as it is; its
rectifier begins with its first block and learns from rows that it caps itself. `reward/mean` is how many of
those end well; `eval/held_out/accuracy` is that of the policy alone, which does not change.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=400)
  config.population.size = 3
  config.sft.stop.at_least = 0.3
  config.models.rectifier = {'name': 'drafter', 'num_layers': 1}  # the policy's first block, at the start
  config.trained = ('rectifier',)
  config.slow = {'policy': 'policy'}  # as the stage before hands it on
  config.rollout = {
      'name': 'deadend.completions',
      'batch_size': config.rollout.batch_size,
      'group_size': 8,
  }
  config.algorithm = {'name': 'deadend'}
  return config
