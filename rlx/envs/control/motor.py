"""A series DC motor behind a converter, whose current is to follow a reference that jumps.

Armature and field are one circuit, so that the torque goes with the square of the current i; ω is the speed.

    L di/dt = u - R i - K i ω,   J dω/dt = K i² - (a + b ω + c ω²),  the load only while it turns

A current or a speed above its limit ends the episode: the drive's protection trips.
Source: the problem is that of Traue et al., 2019, https://arxiv.org/abs/1910.09434, with numbers of our own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Continuous, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

VOLTAGE = 60.0  # V, of the supply; the action is the share that the converter gives
RESISTANCE = 0.3  # Ω
INDUCTANCE = 5e-3  # H
COUPLING = 5e-3  # H, K
INERTIA = 0.1  # kg m²
LOAD = (0.05, 1e-3, 2.5e-4)  # N m, N m s, N m s²
MAX_CURRENT = 60.0  # A
MAX_SPEED = 300.0  # rad / s
REFERENCE = (5.0, 40.0)  # A, the range that references are drawn from
STEP_SECONDS = 1e-3
SUBSTEPS = 4  # of the Runge-Kutta integrator in a step
TRIP_COST = 100.0  # as much as 100 steps with the greatest error


class _Drive(NamedTuple):
  electric: jax.Array  # [i, ω]
  reference: jax.Array  # [] A


def motor(*, max_steps: int, jump_probability: float) -> Environment:
  """Current control: observations [i, ω, reference] as shares of the limits, reward -|i - reference| / I_max.

  The returns behind a score were measured with `jump_probability=0.02` in 200 steps.

  Args:
    max_steps: after which an episode is cut off.
    jump_probability: that the reference is another one after a step.
  Raises:
    ValueError: `jump_probability` is not in [0, 1].
  """
  if not 0 <= jump_probability <= 1:
    raise ValueError(f'jump_probability={jump_probability}: a probability is in [0, 1]')

  def reset(key: Key):
    state_key, reference_key = jax.random.split(key)
    share = jax.random.uniform(state_key, (2,))
    low, high = REFERENCE
    reference = jax.random.uniform(reference_key, minval=low, maxval=high)
    state = _Drive(share * jnp.array([high, MAX_SPEED / 3]), reference)
    return state, _observe(state)

  def step(state: _Drive, action: jax.Array, key: Key) -> Timestep:
    jump_key, reference_key = jax.random.split(key)
    electric = integrate(state.electric, VOLTAGE * jnp.clip(action[0], -1, 1), STEP_SECONDS, SUBSTEPS)
    tripped = (jnp.abs(electric[0]) > MAX_CURRENT) | (jnp.abs(electric[1]) > MAX_SPEED)
    # What counts is the reference that the action was chosen for; the next one is news to the next action.
    error = jnp.abs(electric[0] - state.reference)
    jump = jax.random.bernoulli(jump_key, jump_probability)
    low, high = REFERENCE
    new = jax.random.uniform(reference_key, minval=low, maxval=high)
    state = _Drive(electric, jnp.where(jump, new, state.reference))
    reward = -error / MAX_CURRENT - TRIP_COST * tripped
    return timestep(state, _observe(state), reward, terminated=tripped, current_error=error)

  env = Environment(
      reset=reset, step=step, observation_shape=(3,), actions=Continuous(1), random_return=-0.39 * max_steps,
      expert_return=-0.35, draw=_draw,
  )
  return with_time_limit(env, max_steps)


def integrate(electric: jax.Array, voltage: jax.Array, seconds: float, substeps: int) -> jax.Array:
  """[i, ω] after some time under a constant voltage, by classical Runge-Kutta steps."""
  step = seconds / substeps

  def substep(x, _):
    first = _derivative(x, voltage)
    second = _derivative(x + step / 2 * first, voltage)
    third = _derivative(x + step / 2 * second, voltage)
    fourth = _derivative(x + step * third, voltage)
    return x + step / 6 * (first + 2 * second + 2 * third + fourth), None

  return jax.lax.scan(substep, electric, length=substeps)[0]


def _derivative(electric: jax.Array, voltage: jax.Array) -> jax.Array:
  current, speed = electric
  a, b, c = LOAD
  # Torques of the load act against the motion; within 1 rad/s the constant one fades, so that it stops.
  load = a * jnp.clip(speed, -1, 1) + b * speed + c * speed * jnp.abs(speed)
  return jnp.stack([
      (voltage - RESISTANCE * current - COUPLING * current * speed) / INDUCTANCE,
      (COUPLING * current**2 - load) / INERTIA,
  ])


def _observe(state: _Drive) -> jax.Array:
  return jnp.stack([
      state.electric[0] / MAX_CURRENT, state.electric[1] / MAX_SPEED, state.reference / MAX_CURRENT
  ])


def _draw(state: _Drive) -> np.ndarray:
  """Current, with its reference, and speed, as shares of their limits."""
  shares = state.electric / np.array([MAX_CURRENT, MAX_SPEED])
  return drawing.bars(shares, targets=[state.reference / MAX_CURRENT], colors=(drawing.BLUE, drawing.GOLD))
