"""Nemotron-Cascade on arithmetic: one domain after the other, each in a stage with lengths of its own.

    rlx --config=curriculum/cascade_arithmetic --workdir=runs/cascade

Paper: https://arxiv.org/abs/2512.13607. There the domains are alignment, instructions, mathematics, code and
software; here sums and differences of one digit, and sums of two. All are known a little, from one supervised
stage, before the cascade begins. Evaluations are of the last domain.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.quickstart import arithmetic

STAGE = ('stop', 'rollout', 'reward', 'algorithm', 'updates', 'optimizer', 'trained', 'slow')


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config('smoke' if arg.smoke else '', steps=600)
  config.population.size = 3
  steps = config.steps
  sums = _domain(0, 9, '+')
  differences = _domain(0, 9, '-')
  config.sft.task = {
      'name': 'mixture',
      'first': {'name': 'mixture', 'first': sums, 'second': differences, 'shares': (1, 1)},
      'second': config.task,
      'shares': (2, 1),
  }
  for name, domain in (('sums', sums), ('differences', differences)):
    config[name] = {
        **{section: config[section] for section in STAGE},
        'steps': max(steps // 3, config.log.steps_per_dispatch),
        'task': domain,
        'decoding': {**config.decoding, 'max_tokens': 3},  # two characters and the end token
    }
  config.stages = ('sft', 'sums', 'differences', 'main')
  return config


def _domain(low: int, high: int, operators: str) -> dict:
  return {
      'name': 'arithmetic',
      'min_operand': low,
      'max_operand': high,
      'operators': operators,
      'held_out_share': 0.1,  # of all problems, never trained on
  }
