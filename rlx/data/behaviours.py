"""Data sets that a config can make for itself: what scripted policies of various skill do in an environment.

Each function is `env -> data set` once its numbers are given; a config names one in its section `data`.
"""

import jax
import jax.numpy as jnp

from rlx.data import transitions as datasets
from rlx.envs.control import maze, near_real, push_grid
from rlx.envs.control.environment import Environment
from rlx.types import Batch

GAIN, DAMPING, NOISE = 0.3, 0.8, 0.1  # of `cautious`: it takes its time


def steered(
    env: Environment, *, goal: tuple[float, ...], gain: float, damping: float, noise: float,
    random_share: float, num_envs: int, num_steps: int, discount: float, seed: int,
) -> Batch:
  """A linear controller with noise, for observations [position, velocity] such as those of `pointmass`.

      a = clip(gain (goal - x) - damping v + noise ε, ±1),  or uniformly random

  Args:
    env: one environment.
    goal: where the controller goes, as many numbers as an action.
    gain: in actions per m.
    damping: in actions per m / s.
    noise: standard deviation, in units of the actions.
    random_share: of the streams, which are of random actions throughout.
    num_envs: streams.
    num_steps: of each stream.
    discount: of `returns_to_go`, which are added to the rows.
    seed: of the data.
  Returns:
    A data set of num_envs num_steps transitions, with `returns_to_go`.
  """
  size = env.actions.size

  def act(observations: jax.Array, key: jax.Array) -> jax.Array:
    noise_key, random_key = jax.random.split(key)
    position, velocity = observations[:, :size], observations[:, size:2 * size]
    steer = gain * (jnp.array(goal)[None] - position) - damping * velocity
    steer = jnp.clip(steer + noise * jax.random.normal(noise_key, steer.shape), -1, 1)
    at_random = jnp.arange(num_envs) < round(random_share * num_envs)
    return jnp.where(at_random[:, None], datasets.random_actions(env)(observations, random_key), steer)

  return datasets.acted(env, act, num_envs=num_envs, num_steps=num_steps, discount=discount, seed=seed)


def detouring(
    env: Environment, *, goal: tuple[float, ...], vias: tuple[tuple[float, ...], ...], gain: float,
    damping: float, noise: float, num_envs: int, num_steps: int, discount: float, seed: int,
) -> Batch:
  """As `steered`, each stream past a place of its own, until it is as far along the way as that place.

  How far a place is along the way is measured from the middle of the room towards the goal. A stream whose
  place is the goal goes straight. Without noise a stream comes to rest at its place and does not go on.

  Args:
    env: as in `steered`, like all that is not said here.
    goal: where streams go in the end.
    vias: places that they go to first; streams take turns.
    gain: in actions per m.
    damping: in actions per m / s.
    noise: standard deviation, in units of the actions.
    num_envs: streams.
    num_steps: of each stream.
    discount: of `returns_to_go`.
    seed: of the data.
  Returns:
    A data set of num_envs num_steps transitions, with `returns_to_go`.
  """
  size, goal = env.actions.size, jnp.array(goal)
  vias = jnp.array(vias)[jnp.arange(num_envs) % len(vias)]

  def act(observations: jax.Array, key: jax.Array) -> jax.Array:
    position, velocity = observations[:, :size], observations[:, size:2 * size]
    ahead = (position - vias) @ goal < 0
    heading = jnp.where(ahead[:, None], vias, goal[None])
    steer = gain * (heading - position) - damping * velocity
    return jnp.clip(steer + noise * jax.random.normal(key, steer.shape), -1, 1)

  return datasets.acted(env, act, num_envs=num_envs, num_steps=num_steps, discount=discount, seed=seed)


def wandering(
    env: Environment, *, layout: str, noise: float, num_envs: int, num_steps: int, discount: float, seed: int
) -> Batch:
  """Ways through a `maze`, each stream to a free cell of its own, whatever goal the observation shows.

  Args:
    env: one environment whose observations begin with those of `maze`.
    layout: of the maze.
    noise: standard deviation of what comes on top of the moves, in units of the actions.
    num_envs: streams; cells take turns.
    num_steps: of each stream.
    discount: of `returns_to_go`, which are added to the rows.
    seed: of the data.
  Returns:
    A data set of num_envs num_steps transitions, with `returns_to_go`.
  """
  cells = maze.free_cells(layout)
  towards, heading_for = maze.shortest_path(layout), cells[jnp.arange(num_envs) % len(cells)]

  def act(observations: jax.Array, key: jax.Array) -> jax.Array:
    moves = towards(maze.with_goal(observations, heading_for), key)
    return jnp.clip(moves + noise * jax.random.normal(key, moves.shape), -1, 1)

  return datasets.acted(env, act, num_envs=num_envs, num_steps=num_steps, discount=discount, seed=seed)


def cautious(env: Environment, *, num_envs: int, num_steps: int, discount: float, seed: int) -> Batch:
  """Records of a slow linear controller, nearly always the same.

  Args:
    env: any of `near_real.py`.
    num_envs: streams of episodes.
    num_steps: of each stream.
    discount: of `returns_to_go`.
    seed: of the data.
  Returns:
    A data set of num_envs num_steps transitions, with `returns_to_go`.
  """
  return steered(
      env, goal=near_real.GOAL, gain=GAIN, damping=DAMPING, noise=NOISE, random_share=0.0, num_envs=num_envs,
      num_steps=num_steps, discount=discount, seed=seed,
  )


def noisy_pushes(
    env: Environment, *, size: int, random_share: float, num_envs: int, num_steps: int, discount: float,
    seed: int,
) -> Batch:
  """`push_grid.pusher` with a share of random moves: what it does when it seldom gets its way.

  Args:
    env: a `push_grid` of that size.
    size: of the grid.
    random_share: in [0, 1], of the moves.
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
  expert, wander = push_grid.pusher(size), datasets.random_actions(env)

  def act(observations: jax.Array, key: jax.Array) -> jax.Array:
    share_key, wander_key, expert_key = jax.random.split(key, 3)
    wanders = jax.random.bernoulli(share_key, random_share, observations.shape[:1])
    return jnp.where(wanders, wander(observations, wander_key), expert(observations, expert_key))

  return datasets.acted(env, act, num_envs=num_envs, num_steps=num_steps, discount=discount, seed=seed)


def inserting(
    env: Environment, *, speed: float, gain: float, noise: float, num_envs: int, num_steps: int,
    discount: float, seed: int,
) -> Batch:
  """A linear controller of `insertion` with noise, which looks at each step.

      a = clip([speed, gain (hole - y)] + noise ε, ±1)

  Args:
    env: an `insertion`; `chunked` as well.
    speed: to the right, in units of the actions.
    gain: actions per unit of height.
    noise: standard deviation, in units of the actions.
    num_envs: streams of episodes.
    num_steps: of each stream.
    discount: of `returns_to_go`.
    seed: of the data.
  Returns:
    A data set of num_envs num_steps transitions, with `returns_to_go`.
  """

  def act(observations: jax.Array, key: jax.Array) -> jax.Array:
    missing = observations[:, 2] - observations[:, 1]
    steer = jnp.stack([jnp.full_like(missing, speed), gain * missing], axis=1)
    return jnp.clip(steer + noise * jax.random.normal(key, steer.shape), -1, 1)

  return datasets.acted(env, act, num_envs=num_envs, num_steps=num_steps, discount=discount, seed=seed)
