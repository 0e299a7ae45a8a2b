"""Data sets of walks through pixel mazes, for configs: walkers who take the shortest way, or any."""

import jax
import jax.numpy as jnp

from rlx.data import transitions as datasets
from rlx.envs.control import levels
from rlx.envs.control.environment import Environment
from rlx.types import Batch


def wandering(
    env: Environment, *, random_share: float, num_envs: int, num_steps: int, discount: float, seed: int
) -> Batch:
  """Walks in `levels` of which a share of the moves is random, and the others are on a shortest way.

  Args:
    env: `levels`.
    random_share: in [0, 1], of the moves; 0 is an expert.
    num_envs: streams of episodes.
    num_steps: of each stream.
    discount: of `returns_to_go`.
    seed: of the data.
  Returns:
    A data set of num_envs num_steps transitions, with `returns_to_go`.
  Raises:
    ValueError: `random_share` is no share.
  """
  if not 0 <= random_share <= 1:
    raise ValueError(f'random_share={random_share}: a share of the moves, 0 to 1')
  wander = datasets.random_actions(env)

  def act(observations: jax.Array, key: jax.Array) -> jax.Array:
    share_key, wander_key = jax.random.split(key)
    wanders = jax.random.bernoulli(share_key, random_share, observations.shape[:1])
    known = levels.shortest_moves(observations, wander_key)
    return jnp.where(wanders, wander(observations, wander_key), known)

  return datasets.acted(env, act, num_envs=num_envs, num_steps=num_steps, discount=discount, seed=seed)
