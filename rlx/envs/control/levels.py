"""A maze in pixels that is another one in each level: learnt on some levels, an agent is tried on others.

A level is a function of its number: walls, the shades that it is painted in, start and goal. Two instances
with ranges of numbers that do not meet are training levels and held-out ones. A random way from start to goal
is always kept free.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Discrete, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))  # right, down, left, up: (row, column)
WALLS = 0.35  # share of the cells off the free way
_LEVELS_SEED = 0

Act = Callable[[jax.Array, Key], jax.Array]  # (observations [B, size, size, 3], key) -> actions [B]


def levels(*, size: int, first_level: int, num_levels: int, max_steps: int) -> Environment:
  """Observations [size, size, 3]: the agent, the goal, and the shades of the cells; arriving pays 1 and ends.

  Walls are brighter than 0.5 in the last channel and floors darker; how bright is the level's. Against a wall
  or the edge nothing moves. The return of random actions was measured with 7 x 7 cells and 50 steps.

  Args:
    size: cells along a side, at least 3.
    first_level: number of the first level; it is drawn by the key of an episode.
    num_levels: first_level, ..., first_level + num_levels - 1 are the levels of this instance.
    max_steps: after which an episode is cut off.
  Raises:
    ValueError: a number is too small.
  """
  if size < 3 or num_levels < 1 or first_level < 0:
    raise ValueError(
        f'size={size}, num_levels={num_levels}, first_level={first_level}: at least 3, 1 and 0'
    )

  def reset(key: Key):
    number = jax.random.randint(key, (), first_level, first_level + num_levels)
    shades, agent, goal = level(number, size)
    state = (shades, agent, goal)
    return state, _paint(*state)

  def step(state, action: jax.Array, key: Key) -> Timestep:
    del key
    shades, agent, goal = state
    wanted = agent + jnp.array(MOVES)[action]
    inside = ((wanted >= 0) & (wanted < size)).all()
    free = inside & (shades[tuple(jnp.clip(wanted, 0, size - 1))] <= 0.5)
    agent = jnp.where(free, wanted, agent)
    arrived = (agent == goal).all()
    state = (shades, agent, goal)
    return timestep(state, _paint(*state), arrived, terminated=arrived, success=arrived)

  env = Environment(
      reset=reset, step=step, observation_shape=(size, size, 3), actions=Discrete(len(MOVES)),
      random_return=0.47, expert_return=1.0, draw=_draw,
  )
  return with_time_limit(env, max_steps)


def level(number: jax.Array, size: int) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Shades [size, size], and the cells [2] (row, column) of the start and the goal of a level."""
  key = jax.random.fold_in(jax.random.key(_LEVELS_SEED), number)
  ends_key, way_key, wall_key, shade_key = jax.random.split(key, 4)
  # The second of two draws is how far the goal is behind the start, so that they are never one.
  first, behind = jax.random.randint(ends_key, (2,), jnp.array([0, 1]), size * size)
  start, goal = (jnp.stack(jnp.divmod(cell % size**2, size)) for cell in (first, first + behind))
  walls = jax.random.bernoulli(wall_key, WALLS, (size, size)) & ~_way(way_key, start, goal, size)
  dark, bright = jax.random.uniform(shade_key, (2,), maxval=0.4)
  return jnp.where(walls, 1 - bright, dark), start, goal


def _way(key: Key, start: jax.Array, goal: jax.Array, size: int) -> jax.Array:
  """[size, size] bool, cells of a random way from start to goal that never turns back."""

  def walk(cell, key):
    left = goal - cell
    down = jax.random.uniform(key) * jnp.abs(left).sum() < jnp.abs(left[0])
    move = jnp.where(down, jnp.array([1, 0]), jnp.array([0, 1])) * jnp.sign(left)
    return cell + move, cell

  _, cells = jax.lax.scan(walk, start, jax.random.split(key, 2 * size))
  return jnp.zeros((size, size), bool).at[cells[:, 0], cells[:, 1]].set(True).at[tuple(goal)].set(True)


def _paint(shades, agent, goal) -> jax.Array:
  dot = lambda cell: jnp.zeros(shades.shape).at[tuple(cell)].set(1.0)
  return jnp.stack([dot(agent), dot(goal), shades], axis=-1)


def shortest_moves(observations: jax.Array, key: Key) -> jax.Array:
  """A policy that takes a shortest way, read off the pixels: an expert for data sets."""
  del key
  return jax.vmap(_shortest_move)(observations)


def _shortest_move(observation: jax.Array) -> jax.Array:
  agent, goal, shades = jnp.moveaxis(observation, -1, 0)
  size = shades.shape[0]
  far = float(size * size)

  def neighbours(distances):
    padded = jnp.pad(distances, 1, constant_values=far)
    return jnp.stack([padded[1 + y:1 + y + size, 1 + x:1 + x + size] for y, x in MOVES])

  def relax(distances, _):
    nearer = jnp.minimum(distances, neighbours(distances).min(axis=0) + 1)
    return jnp.where(shades > 0.5, far, nearer), None

  distances, _ = jax.lax.scan(relax, jnp.where(goal > 0, 0.0, far), length=size * size // 2 + size)
  return jnp.argmin(jnp.where(agent[None] > 0, neighbours(distances), 0).sum(axis=(1, 2)))


def _draw(state) -> np.ndarray:
  """The shades of the cells, walls bright, with the agent in blue and the goal in green."""
  shades, agent, goal = state
  colors = np.repeat(255 * np.asarray(shades)[..., None], 3, axis=-1)
  return drawing.cells(colors, [(goal, drawing.GREEN), (agent, drawing.BLUE)])
