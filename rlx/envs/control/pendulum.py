"""A pendulum, to be swung up and held with a motor that is too weak to lift it at once.

The equations, costs and limits are those of gymnasium's Pendulum-v1 (50 ms a step), with which it agreed over
200 steps (gymnasium 1.3.0); a torque of ±2 N m is the action ±1.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Continuous, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

GRAVITY = 10.0  # m / s²
MASS, LENGTH = 1.0, 1.0  # kg, m
STEP_SECONDS = 0.05
MAX_SPEED = 8.0  # rad / s
MAX_TORQUE = 2.0  # N m


def pendulum(*, max_steps: int) -> Environment:
  """Pendulum-v1: observations [cos, sin, angular velocity]; the reward is minus a cost, at best 0.

  Args:
    max_steps: after which an episode is cut off (gymnasium: 200). Nothing else ends one.
  """
  env = Environment(
      reset=_reset, step=_step, observation_shape=(3,), actions=Continuous(1), random_return=-1220.0,
      expert_return=-145.0, draw=_draw,
  )
  return with_time_limit(env, max_steps)


def _reset(key: Key):
  high = jnp.array([jnp.pi, 1.0])
  state = jax.random.uniform(key, (2,), minval=-high, maxval=high)
  return state, _observe(state)


def _observe(state: jax.Array) -> jax.Array:
  return jnp.stack([jnp.cos(state[0]), jnp.sin(state[0]), state[1]])


def _step(state: jax.Array, action: jax.Array, key: Key) -> Timestep:
  del key
  angle, speed = state
  torque = MAX_TORQUE * jnp.clip(action[0], -1, 1)
  from_upright = jnp.mod(angle + jnp.pi, 2 * jnp.pi) - jnp.pi
  cost = from_upright**2 + 0.1 * speed**2 + 0.001 * torque**2
  acceleration = 3 * GRAVITY / (2 * LENGTH) * jnp.sin(angle) + 3 / (MASS * LENGTH**2) * torque
  speed = jnp.clip(speed + STEP_SECONDS * acceleration, -MAX_SPEED, MAX_SPEED)
  state = jnp.stack([angle + STEP_SECONDS * speed, speed])
  return timestep(state, _observe(state), -cost)


def _draw(state) -> np.ndarray:
  """The rod; upright is up."""
  canvas = drawing.Canvas((-1.2, -1.2), (1.2, 1.2))
  canvas.line((0, 0), (-LENGTH * np.sin(state[0]), LENGTH * np.cos(state[0])), 0.14, drawing.RED)
  canvas.disc((0, 0), 0.05, drawing.INK)
  return canvas.image
