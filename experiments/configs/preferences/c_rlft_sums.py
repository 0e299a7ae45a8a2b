"""C-RLFT on sums: a tenth is an expert's, the rest is careless; marks and weights tell them apart.

    rlx --config=preferences/c_rlft_sums --workdir=runs/c_rlft

The expert has answered few of the problems (`rlx/envs/qualities.py`); the careless one, who never carries,
has answered all. Held-out accuracy is of problems that nobody has answered, under the expert's mark.

Paper: https://arxiv.org/abs/2309.11235

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.quickstart import arithmetic

EVEN = {'algorithm.class_weights': (1.0, 1.0)}
UNTOLD = {'task.marks': 'ee'}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  smoke = parse_arg(arg, smoke=False).smoke
  config = arithmetic.get_config('smoke' if smoke else 'small', steps=800)
  config.population.size = 2 if smoke else 5
  config.stages = ('main',)
  config.task = {
      'name': 'careless_sums', 'max_operand': 30, 'expert_share': 0.1, 'expert_problems': 0.1, 'marks': 'ec',
      'held_out_share': 0.1,
  }
  config.rollout = {'name': 'solutions', 'batch_size': 16 if smoke else 64}
  config.algorithm = {'name': 'c_rlft', 'class_weights': (1.0, 0.1)}
  config.steps = 4 if smoke else 800
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=3e-3, decay_steps=780)
  config.evals.held_out.every = 2 if smoke else 40
  for name in ('sft', 'reward'):
    del config[name]
  return config


def claim() -> Claim:
  """Marks without weights are beside it."""
  return Claim(
      paper='S148',
      says='conditioned on its source, data of mixed quality teach more than all of it alike, and more '
      "than the expert's alone",
      reading=final('eval/held_out/accuracy'),
      asserts=(above('plain SFT', by=0.1), above('expert only', by=0.05)),
      baseline=Arm('expert only', {**EVEN, 'task.expert_share': 1.0}),
      controls=(Arm('plain SFT', {**EVEN, **UNTOLD}),),
      beside=(Arm('marks alone', EVEN),),
      minutes=5.0,
  )
