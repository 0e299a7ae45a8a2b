"""Rows of two players of a game of one move, each a learner of its own."""

import jax
import jax.numpy as jnp

from rlx.envs.control.matrix_game import MatrixGame
from rlx.models.networks import Policy
from rlx.types import Key, Models, Rollout, Rows, World


def two_players(env: MatrixGame, first: Policy, second: Policy, *, batch_size: int) -> Rollout:
  """Games of `models['first']` against, or with, `models['second']`.

  Args:
    env: the game.
    first: chooses.
    second: chooses.
    batch_size: games B.
  Returns:
    A `rollout` that hands rows for the learners `first` and `second`: `observations` [B, 1], `actions` and
    `rewards` [B].
  """

  def draw(models: Models, world: World, key: Key) -> tuple[Rows, World]:
    seen = jnp.ones((batch_size, 1))
    keys = jax.random.split(key)
    one, _ = first.sample(models['first'], seen, keys[0])
    two, _ = second.sample(models['second'], seen, keys[1])
    rewards = env.play(one, two)
    row = lambda actions, reward: {'observations': seen, 'actions': actions, 'rewards': reward}
    return {'first': row(one, rewards[0]), 'second': row(two, rewards[1])}, world

  return draw
