"""Dead-end rectification on one-digit addition: a wrong sum is the bad end; half a decoder sees it coming.

    rlx --config=latent/deadend_arithmetic --workdir=runs/deadend

Paper: https://arxiv.org/abs/2302.14003. A policy is taught until 15 to 30 % of its sums are right and then
stays as it is; its rectifier begins with its first block and learns from rows that it caps itself.
`reward/mean` is how many of those end well, of problems that are trained on, and `deadend/nll` how unlikely
the policy finds them, in nats a token; `eval/sampled/accuracy` is of the few that are held out, and
`eval/held_out/accuracy` that of the policy alone, which does not change.

Result: not run yet.

Tried with operands up to 30, two seeds: of held-out sums 22 and 9 % end well, where 16 and 7 % do so without
a rectifier, and of trained ones 24 %. A block that would have to add does not learn to see wrong sums.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (half of the rows, 160 steps)."""
  sizes = parse_arg(arg, smoke=False, small=False)
  config = arithmetic.get_config(arg, steps=400)
  config.population.size = 3
  config.task.update(min_operand=1, max_operand=9)
  if sizes.small:
    config.steps = 160
  config.sft.stop = ConfigDict()  # held-out sums are too few to say when
  config.sft.steps = 4 if sizes.smoke else 40
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
  alone = {'rollout': {'name': 'prompts.completions', 'batch_size': 256, 'group_size': 8, 'num_slots': 0}}
  return Claim(
      paper='S032',
      says='under the bounds of a rectifier rows end badly far less often, and are hardly less likely',
      argument='small',
      reading=mean('reward/mean', last=20),
      asserts=(
          above('the policy alone', by=0.3),
          above('the policy alone', by=-0.3, reading=mean('deadend/nll', last=20, lower=True)),
      ),
      baseline=Arm('the policy alone', alone),
      minutes=5.0,
  )
