"""Two links that hang from a bar, with a motor at the elbow: the foot has to swing above the bar.

The equations, limits and integrator (one Runge-Kutta step of 0.2 s) are those of gymnasium's Acrobot-v1;
version 1.3.0 takes the same steps.
Source: Sutton and Barto, 2018, section 11.3 of the first edition, http://incompleteideas.net/book/the-book.html.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Discrete, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

GRAVITY = 9.8  # m / s²
MASS = 1.0  # kg, of each link
LENGTH = 1.0  # m, of the first link
CENTRE = 0.5  # m, from a joint to the centre of mass of its link
INERTIA = 1.0  # kg m², of each link
STEP_SECONDS = 0.2
MAX_SPEEDS = (4 * jnp.pi, 9 * jnp.pi)  # rad / s, of the shoulder and the elbow


def acrobot(*, max_steps: int) -> Environment:
  """Acrobot-v1: observations [cos θ₁, sin θ₁, cos θ₂, sin θ₂, θ̇₁, θ̇₂], torques -1, 0 and 1 N m.

  θ₁ is 0 where the upper link hangs straight down, θ₂ is the angle of the lower link to it. Every step
  pays -1 but the last.

  Args:
    max_steps: after which an episode is cut off (gymnasium: 500).
  """
  env = Environment(
      reset=_reset, step=_step, observation_shape=(6,), actions=Discrete(3), random_return=-1.0 * max_steps,
      expert_return=-87.0, draw=_draw,
  )
  return with_time_limit(env, max_steps)


def _reset(key: Key):
  state = jax.random.uniform(key, (4,), minval=-0.1, maxval=0.1)
  return state, _observe(state)


def _observe(state: jax.Array) -> jax.Array:
  shoulder, elbow, *speeds = state
  return jnp.stack([jnp.cos(shoulder), jnp.sin(shoulder), jnp.cos(elbow), jnp.sin(elbow), *speeds])


def _step(state: jax.Array, action: jax.Array, key: Key) -> Timestep:
  del key
  change = lambda state: _derivative(state, action - 1.0)
  first = change(state)
  second = change(state + STEP_SECONDS / 2 * first)
  third = change(state + STEP_SECONDS / 2 * second)
  fourth = change(state + STEP_SECONDS * third)
  state = state + STEP_SECONDS / 6 * (first + 2 * second + 2 * third + fourth)
  limits = jnp.array(MAX_SPEEDS)
  angles = jnp.mod(state[:2] + jnp.pi, 2 * jnp.pi) - jnp.pi
  state = jnp.concatenate([angles, jnp.clip(state[2:], -limits, limits)])
  above = -jnp.cos(state[0]) - jnp.cos(state[0] + state[1]) > 1
  return timestep(state, _observe(state), above - 1.0, terminated=above, success=above)


def _derivative(state: jax.Array, torque: jax.Array) -> jax.Array:
  """d/dt [θ₁, θ₂, θ̇₁, θ̇₂], the equations of the book: M₁₁ θ̈₁ + M₁₂ θ̈₂ + φ₁ = 0 and the elbow's."""
  shoulder, elbow, shoulder_speed, elbow_speed = state
  cos, sin = jnp.cos(elbow), jnp.sin(elbow)
  coupling = MASS * LENGTH * CENTRE * sin
  d1 = MASS * CENTRE**2 + MASS * (LENGTH**2 + CENTRE**2 + 2 * LENGTH * CENTRE * cos) + 2 * INERTIA
  d2 = MASS * (CENTRE**2 + LENGTH * CENTRE * cos) + INERTIA
  phi2 = MASS * CENTRE * GRAVITY * jnp.sin(shoulder + elbow)
  phi1 = (
      -coupling * elbow_speed**2 - 2 * coupling * elbow_speed * shoulder_speed
      + (MASS * CENTRE + MASS * LENGTH) * GRAVITY * jnp.sin(shoulder) + phi2
  )
  elbow_up = (torque + d2 / d1 * phi1 - coupling * shoulder_speed**2 - phi2) / (
      MASS * CENTRE**2 + INERTIA - d2**2 / d1
  )
  return jnp.stack([shoulder_speed, elbow_speed, -(d2 * elbow_up + phi1) / d1, elbow_up])


def _draw(state) -> np.ndarray:
  """Both links, the bar that they hang from, and the height that the foot has to reach."""
  canvas = drawing.Canvas((-2.2, -2.2), (2.2, 2.2))
  canvas.line((-2.2, LENGTH), (2.2, LENGTH), 0.03, drawing.GREEN)
  elbow = LENGTH * np.array([np.sin(state[0]), -np.cos(state[0])])
  foot = elbow + LENGTH * np.array([np.sin(state[0] + state[1]), -np.cos(state[0] + state[1])])
  canvas.line((0, 0), elbow, 0.16, drawing.BLUE)
  canvas.line(elbow, foot, 0.16, drawing.BLUE)
  for joint in ((0, 0), elbow):
    canvas.disc(joint, 0.12, drawing.INK)
  return canvas.image
