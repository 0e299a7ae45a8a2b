"""The generalisation gap of behaviour cloning: mazes in pixels, taught on some levels and tried on others.

Paper: Mediratta et al., 2023, https://arxiv.org/abs/2312.05742

    rlx --config=offline/bc_levels --workdir=runs/bc_levels_10
    rlx --config=offline/bc_levels:num_levels=1000 --workdir=runs/bc_levels_1000

Result: it shows. Final eval/levels/held_out_return after 2000 train steps, median of 10 seeds (worst): 0.206
(0.182), 'IQL' 0.199 (0.166), 'two levels' 0.126 (0.11). Claimed, and got (95 % interval over seeds): above
'IQL' by -0.05, got 0.004 (-0.008667 to 0.01667); above 'two levels' by 0.05, got 0.07867 (0.066 to 0.09334).
82 CPU-s on 2 cores of a CPU; `rlx reproduce offline/bc_levels`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import bc_pointmass as parent

MAX_STEPS = 20


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `num_levels` (that data are of)."""
  arg = parse_arg(arg, smoke=False, num_levels=10)
  config = parent.get_config('smoke' if arg.smoke else '')
  maze = {'name': 'levels', 'size': 5, 'max_steps': MAX_STEPS}
  config.env = {**maze, 'first_level': 0, 'num_levels': arg.num_levels}
  config.models.policy = {'name': 'categorical', 'hidden': (64, 64), 'activation': 'relu'}
  config.data = {  # 8000 transitions
      'name': 'level_walks.wandering',
      'random_share': 0.25,
      'num_envs': 100,
      'num_steps': 80,
      'discount': 0.9,
      'seed': 0,
  }
  config.evals = {
      'levels': {
          'name': 'levels.generalisation',
          'every': 500,
          'held_out': {**maze, 'first_level': 1_000_000, 'num_levels': 1000},
          'episodes': 500,  # on training levels, and as many on held-out ones
          'max_steps': MAX_STEPS,
      },
  }
  config.log.headline = 'eval/levels/held_out_return'
  if arg.smoke:
    config.data.update(num_envs=3, num_steps=10)
    config.evals.levels.update(every=2, episodes=4)
  return config


def claim() -> Claim:
  """As many transitions, of fewer levels. (That bound was 0.1 before it was run.)"""
  return Claim(
      paper='S204',
      says='on new levels cloning is at or above offline RL, and more levels beat more data of few',
      reading=final('eval/levels/held_out_return'),
      asserts=(above('IQL', by=-0.05), above('two levels', by=0.05)),
      baseline=Arm('IQL', config='offline/iql_levels'),
      controls=(Arm('two levels', config='offline/bc_levels:num_levels=2'),),
      seeds=10,
      minutes=4.0,
  )
