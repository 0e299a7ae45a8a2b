"""Data sets of walks through a maze, for configs: walkers who know the way and seldom take it."""

import jax
import jax.numpy as jnp

from rlx.data import transitions as datasets
from rlx.envs.control import maze
from rlx.envs.control.environment import Environment
from rlx.types import Batch


def tending(
    env: Environment, *, layout: str, tendency: float, num_envs: int, num_steps: int, discount: float,
    seed: int,
) -> Batch:
  """Walks in a `grid_maze` that tend to their goals: some moves are the best one, the others any.

  Args:
    env: a `grid_maze` of the layout.
    layout: its name or rows.
    tendency: in [0, 1], share of the moves that are chosen.
    num_envs: streams of episodes.
    num_steps: of each stream.
    discount: of `returns_to_go`.
    seed: of the data.
  Returns:
    A data set of num_envs num_steps transitions, with `returns_to_go`.
  Raises:
    ValueError: `tendency` is no share.
  """
  if not 0 <= tendency <= 1:
    raise ValueError(f'tendency={tendency}: a share of the moves, 0 to 1')
  best, wander = maze.shortest_moves(layout), datasets.random_actions(env)

  def act(observations: jax.Array, key: jax.Array) -> jax.Array:
    tend_key, wander_key = jax.random.split(key)
    tends = jax.random.bernoulli(tend_key, tendency, observations.shape[:1])
    return jnp.where(tends, best(observations, wander_key), wander(observations, wander_key))

  return datasets.acted(env, act, num_envs=num_envs, num_steps=num_steps, discount=discount, seed=seed)
