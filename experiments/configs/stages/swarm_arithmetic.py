"""A swarm of four that share rows: two-digit addition.

    rlx --config=stages/swarm_arithmetic --workdir=runs/swarm
    rlx --config=stages/swarm_arithmetic:taken_groups=0 --workdir=runs/alone

The members of the population are the swarm: each samples eight groups and takes four of the others' instead
of its own last ones. The figures of `metrics.jsonl` are medians over the four; `--config.seed` makes
another swarm.

Paper: SAPO, https://arxiv.org/abs/2509.08721.

Result: nothing is learnt with 64 rows a step, shared or not. Held-out accuracy after 200 steps, medians of
the four members for five swarms: 1.2, 1.4, 1.8, 3.2, 1.9 %; without exchange 3.6, 2.6, 2.4, 3.5, 2.6 %. SFT
ends at 20 % and more: so few rows lose it.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `taken_groups` of eight."""
  arg = parse_arg(arg, smoke=False, taken_groups=4)
  config = arithmetic.get_config('smoke' if arg.smoke else '', steps=200)
  config.population.size = 4
  completions = {**config.rollout, 'batch_size': 64}
  config.rollout = {
      'name': 'swarm',
      'rollout': completions,
      'taken_groups': arg.taken_groups,
      'group_size': completions['group_size'],
  }
  config.updates.microbatches = 1
  return config
