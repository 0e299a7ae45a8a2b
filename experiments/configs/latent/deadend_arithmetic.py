"""Dead-end rectification on two-digit addition: a wrong sum is the bad end; half a decoder sees it coming.

    rlx --config=latent/deadend_arithmetic --workdir=runs/deadend

Paper: https://arxiv.org/abs/2302.14003. A policy of 30 % is taught first and then stays as it is; its
rectifier begins with its first block and learns from rows that it caps itself. `reward/mean` is how many of
those end well, and `eval/sampled/accuracy` of held-out ones; `eval/held_out/accuracy` is that of the policy
alone, which does not change.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `small`, `digits`, `operators`)."""
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
  config.evals.sampled = {**config.evals.held_out, 'name': 'deadend.rectified'}
  return config


def claim() -> Claim:
  """Beside the same policy without the bounds, whose rectifier learns as much."""
  return Claim(
      paper='S032',
      says='under the bounds of a rectifier sampled rows end badly far less often, and are hardly less likely',
      argument='small',
      reading=final('eval/sampled/accuracy'),
      asserts=(
          above('the policy alone', by=0.2),
          above('the policy alone', by=-0.2, reading=final('eval/sampled/nll', lower=True)),  # nats a token
      ),
      baseline=Arm('the policy alone', {'evals.sampled.name': 'sampled'}),
      minutes=6.0,
  )
