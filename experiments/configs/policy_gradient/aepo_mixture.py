"""AEPO on sums and on the fork task, as many of each in a batch: the quickstart's decoder, three seeds.

    rlx --config=policy_gradient/aepo_mixture --workdir=runs/aepo

Paper: https://arxiv.org/abs/2512.12967

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in the quickstart)."""
  parse_arg(arg, smoke=False, small=False)
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.task = {
      'name': 'mixture',
      'first': {
          'name': 'arithmetic',
          'min_operand': 10,
          'max_operand': 99,
          'operators': '+',
          'held_out_share': 0.1,
      },
      'second': {
          'name': 'fork',
          'choices': 8,
          'length': 4,
          'before': 2,
          'after': 2,
          'letters': 4,
          'held_out_share': 0.1,
      },
      'shares': (1.0, 1.0),
  }
  config.sft.task = config.task
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 6  # the fork task's answers, and the end
  config.algorithm = {
      'name': 'aepo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'entropy_low': 0.3,  # nats a token
      'entropy_high': 0.6,
  }
  config.evals.sampled = {**config.evals.held_out, 'name': 'sampled'}
  return config
