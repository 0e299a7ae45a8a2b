"""Adversarial Surprise in noisy rooms: what cannot be calmed bores it, and what can is learnt room by room.

Paper: Fickinger et al., 2021, https://arxiv.org/abs/2107.07394

    rlx --config=control/adversarial_surprise_rooms --workdir=runs/adversarial_surprise

Result: with these numbers and gradients that are not clipped, in tests/papers/test_adversarial_surprise.py,
over 6 seeds: comes to 4 of 4 rooms (median), 3 (worst), and to 0 for surprise alone; this file itself was
not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import ppo_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = ppo_cartpole.get_config(arg)
  config.env = {
      'name': 'taking_turns',
      'explore_steps': 10,
      'control_steps': 8,
      'rounds': 1,
      'env': {
          'name': 'noisy_rooms',
          'num_rooms': 4,
          'hall': 2,
          'noise': 24,
          'max_steps': 100,  # more than a game has
      },
  }
  config.models.policy = {
      'name': 'players', 'hidden': (), 'activation': 'tanh',
  }
  config.models.value = {'name': 'state_value', 'hidden': (32,), 'activation': 'tanh'}
  config.rollout.update(num_envs=32, num_steps=18)  # one game each
  config.algorithm.update(name='adversarial_surprise', entropy_coef=0.05, discount=0.99, lambda_=0.95)
  config.optimizer.update(learning_rate=1e-2, decay_steps=0)
  config.steps = 4 if parse_arg(arg, smoke=False).smoke else 300
  # Sampled: where a player is content with either of two actions, its mode says little.
  config.evals.episodes.update(name='sampled_episodes', max_steps=18)
  config.log.headline = 'eval/episodes/room_3'  # the share of games that come to the last room
  if parse_arg(arg, smoke=False).smoke:
    config.rollout.update(num_envs=8)
  return config
