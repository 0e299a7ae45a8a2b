"""Probe environments: problems so small that the right answer is known, each for one ability of an algorithm.

Where an algorithm fails a probe, the probe says what is broken: `constant` needs the value of one state,
`seen` values that depend on the observation, `later` discounting over time, `better` a policy that prefers
an action, `matching` a policy that depends on the observation. The test table runs them all over every
algorithm.

Source: the idea is Andy L Jones's, https://andyljones.com/posts/rl-debugging.html.
"""

import jax
import jax.numpy as jnp

from rlx.envs.control import drawing
from rlx.envs.control.environment import Continuous, Discrete, Environment, Timestep, timestep
from rlx.types import Key


def constant(*, discrete: bool) -> Environment:
  """One step, observation 0, reward 1: the value is 1 whatever is done."""
  return _probe(lambda key: jnp.zeros(()), lambda seen, action: jnp.float32(1), 1, discrete)


def seen(*, discrete: bool) -> Environment:
  """One step, observation -1 or 1, and the reward is the observation: so is the value."""
  return _probe(_sign, lambda seen, action: seen, 1, discrete)


def later(*, discrete: bool) -> Environment:
  """Two steps, observation 0 and then 1, reward 1 at the end: the values are γ and 1."""
  return _probe(lambda key: jnp.zeros(()), lambda seen, action: seen, 2, discrete)


def better(*, discrete: bool) -> Environment:
  """One step, observation 0, reward 1 for action 1 and -1 for action 0; or 1 - (a - 1/2)²."""
  return _probe(lambda key: jnp.zeros(()), lambda seen, action: _paid(action, 1.0, discrete), 1, discrete)


def matching(*, discrete: bool) -> Environment:
  """One step, observation -1 or 1, reward 1 for the action that fits it and -1 else; or 1 - (a - o/2)²."""
  return _probe(_sign, lambda seen, action: _paid(action, seen, discrete), 1, discrete)


def _sign(key: Key) -> jax.Array:
  return jnp.where(jax.random.bernoulli(key), 1.0, -1.0)


def _paid(action, wanted, discrete: bool):
  if discrete:
    return jnp.where((action == 1) == (wanted > 0), 1.0, -1.0)
  return 1 - jnp.square(action[0] - wanted / 2)


def _probe(first, paid, num_steps: int, discrete: bool) -> Environment:
  """Begins with `first(key)` in sight, pays `paid(seen, action)`, and shows 1 after the first step."""

  def reset(key: Key):
    state = (first(key), jnp.int32(0))
    return state, state[0][None]

  def step(state, action, key: Key) -> Timestep:
    del key
    seen, count = state
    new = (jnp.ones(()), count + 1)
    return timestep(new, new[0][None], paid(seen, action), terminated=count + 1 >= num_steps)

  return Environment(
      reset=reset, step=step, observation_shape=(1,), actions=Discrete(2) if discrete else Continuous(1),
      random_return=0.0, expert_return=1.0, draw=lambda state: drawing.bars([float(state[0])]),
  )
