"""A pole on a cart, to be kept upright by pushing left or right; every step that it stands pays 1.

The equations and limits are those of gymnasium's CartPole-v1 (Euler's method, 20 ms a step), with which it
agreed over 200 steps (gymnasium 1.3.0).
Source: Barto, Sutton and Anderson, 1983, https://doi.org/10.1109/TSMC.1983.6313077.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Discrete, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

GRAVITY = 9.8  # m / s²
CART_MASS, POLE_MASS = 1.0, 0.1  # kg
HALF_LENGTH = 0.5  # m, of the pole
FORCE = 10.0  # N
STEP_SECONDS = 0.02
MAX_ANGLE = 12 * 2 * jnp.pi / 360  # rad
MAX_POSITION = 2.4  # m


def cartpole(*, max_steps: int) -> Environment:
  """CartPole-v1: observations [position, velocity, angle, angular velocity], actions 0 (left) and 1.

  Args:
    max_steps: after which an episode is cut off (gymnasium: 500).
  """
  env = Environment(
      reset=_reset, step=_step, observation_shape=(4,), actions=Discrete(2), random_return=22.0,
      expert_return=float(max_steps), draw=_draw,
  )
  return with_time_limit(env, max_steps)


def _reset(key: Key):
  state = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
  return state, state


def _step(state: jax.Array, action: jax.Array, key: Key) -> Timestep:
  del key
  x, v, angle, spin = state
  force = jnp.where(action == 1, FORCE, -FORCE)
  mass, sin, cos = CART_MASS + POLE_MASS, jnp.sin(angle), jnp.cos(angle)
  push = (force + POLE_MASS * HALF_LENGTH * spin**2 * sin) / mass
  spin_up = (GRAVITY * sin - cos * push) / (HALF_LENGTH * (4 / 3 - POLE_MASS * cos**2 / mass))
  speed_up = push - POLE_MASS * HALF_LENGTH * spin_up * cos / mass
  state = state + STEP_SECONDS * jnp.stack([v, speed_up, spin, spin_up])
  fallen = (jnp.abs(state[0]) > MAX_POSITION) | (jnp.abs(state[2]) > MAX_ANGLE)
  return timestep(state, state, jnp.float32(1), terminated=fallen)


def _draw(state) -> np.ndarray:
  """The cart on its rail, whose ends it may not pass, and the pole."""
  canvas = drawing.Canvas((-2.8, -0.5), (2.8, 1.4))
  canvas.line((-MAX_POSITION, -0.12), (MAX_POSITION, -0.12), 0.04, drawing.GREY)
  canvas.box((state[0] - 0.3, -0.12), (state[0] + 0.3, 0.12), drawing.INK)
  top = (state[0] + 2 * HALF_LENGTH * np.sin(state[2]), 0.12 + 2 * HALF_LENGTH * np.cos(state[2]))
  canvas.line((state[0], 0.12), top, 0.1, drawing.GOLD)
  return canvas.image
