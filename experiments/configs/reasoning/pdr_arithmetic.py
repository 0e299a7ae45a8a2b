"""PDR on two-digit addition: GRPO on two rounds, of which the second reads the two most frequent drafts.

    rlx --config=reasoning/pdr_arithmetic --workdir=runs/pdr

Paper: https://arxiv.org/abs/2510.01123. What is new is where rows come from, so the algorithm is `grpo`: each
round of a prompt is a group. With `num_rounds = 1` it is training on single passes. `eval/held_out/accuracy`
is of single passes; `reward/mean` is of both rounds.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.envs.arithmetic import ALPHABET
from rlx.envs.text import EOS_ID
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  parse_arg(arg, smoke=False)
  config = arithmetic.get_config(arg)
  config.population.size = 3
  config.rollout = {
      'name': 'refine.rounds',
      'batch_size': config.rollout.batch_size,
      'group_size': 8,  # drafts of a prompt in a round
      'num_slots': 0,
      'num_rounds': 2,
      'distil': {
          'name': 'refine.most_frequent',
          'num': 2,
          'eos_id': EOS_ID,
          'separator': ALPHABET.index('=') + 2,  # its token: behind padding and end
      },
  }
  return config
