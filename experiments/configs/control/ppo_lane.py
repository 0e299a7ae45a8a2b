"""PPO on an MLP drives the road of `envs/worlds/lane.py`: what is read is a vector, a word is a choice.

    rlx --config=control/ppo_lane --workdir=runs/ppo_lane

The game of `agents/lane_tig.py`, beside which it stands. It is paid at the end of the road alone, and learns
from its own games.

Result: of 200 games ten seeds win 95.8 % in the median, the worst 89.0 %, after all 200 train steps (204,800
turns), 95.8 and 88.0 % after 120, 91.5 and 81.0 % after 60; two CPU-minutes with `population.size=10`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import ppo_cartpole

GAME = {
    'name': 'lane',
    'lanes': 4,
    'length': 20,  # cells
    'sight': 4,
    'stride': 4,
    'cost': 0.0,
    'held_out_share': 0.2,
}
MAX_TURNS = 13
WORDS = ('l', 'r', 'g', 'G2', 'G3', 'G4')


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = ppo_cartpole.get_config(f'smoke={arg.smoke}')
  config.env = {'name': 'chosen_words', 'game': {**GAME}, 'words': WORDS, 'max_turns': MAX_TURNS}
  config.algorithm.update(discount=0.99, value_clip=1.0)
  every = config.evals.episodes.every
  config.evals = {'games': {'name': 'episodes', 'every': every, 'episodes': 200, 'max_steps': MAX_TURNS}}
  config.log.headline = 'eval/games/wins'
  if arg.smoke:
    config.evals.games.episodes = 4
  return config
