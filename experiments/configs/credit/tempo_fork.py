"""TEMPO where one token decides: the quickstart's decoder on the fork task, three seeds.

    rlx --config=credit/tempo_fork --workdir=runs/tempo

Paper: https://arxiv.org/abs/2509.18314

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `small` (half of the rows, 300 steps)."""
  parse_arg(arg, smoke=False, small=False)
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.task = {
      'name': 'fork',
      'choices': 8,  # what the decision is among
      'length': 4,  # digits of a prompt, of which the first counts
      'before': 2,  # letters in front of the decision
      'after': 4,  # at most so many behind it
      'letters': 4,
      'held_out_share': 0.1,
  }
  config.sft.task = config.task
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 8  # all of them, and the end token
  config.algorithm = {'name': 'tempo', 'clip_low': 0.2, 'clip_high': 0.2, 'kl': {'name': 'no_kl'}}
  return config


def claim() -> Claim:
  """Beside GRPO on as many rows, which is the mechanism off as well."""
  return Claim(
      paper='S166',
      says='values of prefixes from the tree of a group reach more than GRPO where one token decides',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('GRPO'),),
      baseline=Arm('GRPO', {'algorithm': arithmetic.GRPO}),
      minutes=6.0,
  )
