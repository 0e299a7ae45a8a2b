"""Deep sea treasure: the deeper, the richer and the longer the dive. Two objectives, treasure and time.

A submarine begins at the top left of a sea whose floor falls away to the right. The treasures on the floor
make a convex front, so that every one of them is as good as any for some weights.
Source: Vamplew et al., 2011, https://doi.org/10.1007/s10994-010-5232-5; the values are those of Yang et al.,
  2019, https://arxiv.org/abs/1908.08342.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Discrete, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

DEPTHS = (1, 2, 3, 4, 4, 4, 7, 7, 9, 10)  # row of the treasure in each column
VALUES = (0.7, 8.2, 11.5, 14.0, 15.1, 16.1, 19.6, 20.3, 22.4, 23.7)
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))  # right, down, left, up: (row, column)
# The best that can be had, [treasure, time]: column c at depth d is c + d steps away.
FRONT = tuple((value, -float(c + d)) for c, (d, value) in enumerate(zip(DEPTHS, VALUES, strict=True)))


def treasure(*, max_steps: int, treasure_weight: float, time_weight: float) -> Environment:
  """Pays treasure_weight x the treasure found - time_weight for each step; a treasure ends the episode.

  Observations [row, column], each as a share of its range; there is no way off the sea. `info` has the
  episode's returns so far in the two objectives, `treasure` and `time`; `vector_rewards` has the rewards.
  Random actions find 3.2 in 7.9 steps on average; the expert's return is the best on `FRONT`.

  Args:
    max_steps: after which an episode is cut off.
    treasure_weight: of the first objective.
    time_weight: of the second one, which is -1 a step.
  """
  depths, values = jnp.array(DEPTHS), jnp.array(VALUES)

  def reset(key: Key):
    del key
    state = jnp.zeros(2, jnp.int32), jnp.int32(0)
    return state, _observe(state[0])

  def step(state, action: jax.Array, key: Key) -> Timestep:
    del key
    cell, count = state
    wanted = jnp.clip(cell + jnp.array(MOVES)[action], 0, jnp.array([max(DEPTHS), len(DEPTHS) - 1]))
    # Only a move to the left can run into the floor: the way down ends on a treasure.
    cell = jnp.where(wanted[0] > depths[wanted[1]], cell, wanted)
    on_floor = cell[0] == depths[cell[1]]
    found = jnp.where(on_floor, values[cell[1]], 0)
    reward = treasure_weight * found - time_weight
    new = cell, count + 1
    return timestep(
        new, _observe(cell), reward, terminated=on_floor, treasure=found, time=-(count + 1)
    )

  best = max(treasure_weight * value + time_weight * time for value, time in FRONT)
  env = Environment(
      reset=reset, step=step, observation_shape=(2,), actions=Discrete(len(MOVES)),
      random_return=3.2 * treasure_weight - 7.9 * time_weight, expert_return=best, draw=_draw,
  )
  return with_time_limit(env, max_steps)


def vector_rewards(next_observations: jax.Array) -> jax.Array:
  """[..., 2] the rewards [treasure, time] of the steps that led to observations [..., 2]."""
  row, column = (jnp.round(x).astype(jnp.int32) for x in _cells(next_observations))
  found = jnp.where(row == jnp.array(DEPTHS)[column], jnp.array(VALUES)[column], 0)
  return jnp.stack([found, -jnp.ones(found.shape)], axis=-1)


def _observe(cell: jax.Array) -> jax.Array:
  return cell / jnp.array([max(DEPTHS), len(DEPTHS) - 1])


def _cells(observations: jax.Array) -> tuple[jax.Array, jax.Array]:
  return observations[..., 0] * max(DEPTHS), observations[..., 1] * (len(DEPTHS) - 1)


def _draw(state) -> np.ndarray:
  """The sea, its floor, the treasures on it and the submarine."""
  rows, floor = np.arange(max(DEPTHS) + 1)[:, None], np.array(DEPTHS)[None]
  sea = np.where((rows < floor)[..., None], drawing.shaded(0.6, drawing.BLUE, drawing.PAPER), drawing.GREY)
  colors = np.where((rows == floor)[..., None], drawing.GOLD, sea)
  return drawing.cells(colors, [(tuple(state[0]), drawing.INK)])
