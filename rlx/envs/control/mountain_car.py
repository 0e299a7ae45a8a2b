"""A car in a valley whose engine is too weak for the slope: it has to swing back first to get up.

`mountain_car` pays -1 a step until it is at the top, `continuous_mountain_car` 100 at the top less the energy
spent. The equations and limits are those of gymnasium's MountainCar-v0 and MountainCarContinuous-v0 (version
1.3.0 takes the same steps), except that the latter charges here for actions as they are clipped.
Source: Moore, 1990, https://www.cl.cam.ac.uk/techreports/UCAM-CL-TR-209.pdf.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import (
  Continuous,
  Discrete,
  Environment,
  Timestep,
  timestep,
  with_time_limit,
)
from rlx.types import Key

LEFT, RIGHT = -1.2, 0.6  # of the valley; the unit of length is its own
MAX_SPEED = 0.07  # a step
GRAVITY = 0.0025
FORCE, TOP = 0.001, 0.5  # of the discrete car
POWER, CONTINUOUS_TOP = 0.0015, 0.45  # of the continuous one
EFFORT_COST = 0.1
BONUS = 100.0


def mountain_car(*, max_steps: int) -> Environment:
  """MountainCar-v0: observations [position, velocity], actions 0 (left), 1 (nothing) and 2 (right).

  Args:
    max_steps: after which an episode is cut off (gymnasium: 200).
  """

  def step(state: jax.Array, action: jax.Array, key: Key) -> Timestep:
    del key
    state, top = _rolled(state, (action - 1) * FORCE, TOP)
    return timestep(state, state, jnp.float32(-1), terminated=top, success=top)

  env = Environment(
      reset=_reset, step=step, observation_shape=(2,), actions=Discrete(3),
      random_return=-1.0 * max_steps, expert_return=-119.0, draw=lambda state: _draw(state, TOP),
  )
  return with_time_limit(env, max_steps)


def continuous_mountain_car(*, max_steps: int) -> Environment:
  """MountainCarContinuous-v0: observations [position, velocity], the action is the engine's share.

  Args:
    max_steps: after which an episode is cut off (gymnasium: 999).
  """

  def step(state: jax.Array, action: jax.Array, key: Key) -> Timestep:
    del key
    force = jnp.clip(action[0], -1, 1)
    state, top = _rolled(state, force * POWER, CONTINUOUS_TOP)
    return timestep(state, state, BONUS * top - EFFORT_COST * force**2, terminated=top, success=top)

  env = Environment(
      reset=_reset, step=step, observation_shape=(2,), actions=Continuous(1),
      random_return=-EFFORT_COST / 3 * max_steps, expert_return=94.4,
      draw=lambda state: _draw(state, CONTINUOUS_TOP),
  )
  return with_time_limit(env, max_steps)


def _reset(key: Key):
  state = jnp.stack([jax.random.uniform(key, minval=-0.6, maxval=-0.4), jnp.zeros(())])
  return state, state


def _rolled(state: jax.Array, push: jax.Array, top: float) -> tuple[jax.Array, jax.Array]:
  """The state after a step, and whether that is the top."""
  position, velocity = state
  velocity = jnp.clip(velocity + push - GRAVITY * jnp.cos(3 * position), -MAX_SPEED, MAX_SPEED)
  position = jnp.clip(position + velocity, LEFT, RIGHT)
  velocity = jnp.where((position == LEFT) & (velocity < 0), 0, velocity)
  return jnp.stack([position, velocity]), (position >= top) & (velocity >= 0)


def _draw(state, top: float) -> np.ndarray:
  """The valley, the car in it, and a flag at the top."""
  height = lambda x: 0.45 * np.sin(3 * x) + 0.5  # its slope goes with the pull of gravity, cos 3x
  canvas = drawing.Canvas((LEFT, -0.05), (RIGHT, 1.2))
  places = np.linspace(LEFT, RIGHT, 40)
  canvas.curve(np.stack([places, height(places)], axis=-1), 0.02, drawing.GREY)
  canvas.line((top, height(top)), (top, height(top) + 0.18), 0.015, drawing.INK)
  canvas.box((top, height(top) + 0.1), (top + 0.08, height(top) + 0.18), drawing.GOLD)
  canvas.disc((state[0], height(state[0]) + 0.05), 0.05, drawing.BLUE)
  return canvas.image
