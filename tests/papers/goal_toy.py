"""A small world for stitching: a line with two ends."""

import jax.numpy as jnp

from rlx.envs.control.environment import Discrete, Environment, timestep, with_time_limit

STEP = 0.1  # of the line, along which positions are -1 to 1
MIDDLE = 0.5
NEAR_PAY, FAR_PAY = 0.8, 1.0


def line(*, start: float, max_steps: int) -> Environment:
  """Left (0) or right (1): the left end pays 0.8, the right one 1, and either is the end."""

  def reset(key):
    del key
    position = jnp.float32(start)
    return position, position[None]

  def step(position, action, key):
    del key
    position = position + STEP * (2 * action - 1)
    pay = jnp.where(position > 0.95, FAR_PAY, jnp.where(position < -0.95, NEAR_PAY, 0.0))
    return timestep(position, position[None], pay, terminated=pay > 0, right=position > 0.95)

  env = Environment(
      reset=reset, step=step, observation_shape=(1,), actions=Discrete(2), random_return=0.0,
      expert_return=FAR_PAY,
  )
  return with_time_limit(env, max_steps)
