"""A peg goes to a wall with a hole in it, and drifts on its way.

Observations [x, y, h]: the place of the peg and the height of the hole. At x = 1 is the wall; who is there is
in the hole or is not, and the episode ends. A plan that was made at the start and is carried out without
looking misses by what the peg has drifted since.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Continuous, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

STRIDE = 0.2  # the furthest that an action moves the peg along each axis
HIGHEST = 0.5  # of the peg at the start and of the hole, up or down


def insertion(*, max_steps: int, drift: float, tolerance: float) -> Environment:
  """Pays 1 in the hole and 0 elsewhere; actions are moves to the right and up.

  Args:
    max_steps: after which an episode is cut off; the way takes ten at full speed.
    drift: standard deviation of what is added to y in each step, at least 0.
    tolerance: how far from the middle of the hole is in it, above 0.
  Raises:
    ValueError: `drift` is negative, or `tolerance` is not positive.
  """
  if not drift >= 0 or not tolerance > 0:
    raise ValueError(f'drift={drift}, tolerance={tolerance}: at least 0, above 0')

  def reset(key: Key):
    y, hole = jax.random.uniform(key, (2,), minval=-HIGHEST, maxval=HIGHEST)
    state = jnp.stack([-1.0, y, hole])
    return state, state

  def step(state: jax.Array, action: jax.Array, key: Key) -> Timestep:
    x, y, hole = state
    move = STRIDE * jnp.clip(action, -1, 1)
    x, y = x + move[0], y + move[1] + drift * jax.random.normal(key)
    there = x >= 1
    inserted = there & (jnp.abs(y - hole) < tolerance)
    state = jnp.stack([x, y, hole])
    return timestep(state, state, inserted, terminated=there, success=inserted)

  def draw(state) -> np.ndarray:
    x, y, hole = state
    canvas = drawing.Canvas((-1.2, -1.0), (1.2, 1.0))
    canvas.box((1.0, -1.0), (1.2, 1.0), drawing.GREY)
    canvas.box((1.0, hole - tolerance), (1.2, hole + tolerance), drawing.GREEN)
    canvas.disc((x, y), 0.05, drawing.BLUE)
    return canvas.image

  return with_time_limit(
      Environment(
          reset=reset, step=step, observation_shape=(3,), actions=Continuous(2), random_return=0.0,
          expert_return=1.0, draw=draw,
      ),
      max_steps,
  )
