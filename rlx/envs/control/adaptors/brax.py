"""Environments of Brax, https://github.com/google/brax, which is imported when one is asked for.

Tried with brax 0.14.2 and jax 0.10.2 on a CPU: what PPO learns there is in docs/studies/control.md.
"""

import math

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Continuous, Environment, Timestep, timestep, with_time_limit
from rlx.names import imported
from rlx.types import Key


def from_brax(
    *, problem: str, backend: str = 'generalized', max_steps: int = 1000, random_return: float = math.nan,
    expert_return: float = math.nan,
) -> Environment:
  """An environment of Brax without its wrappers: no clock and no automatic resets of its own.

  Args:
    problem: Brax's name for it, e.g. 'ant'.
    backend: of its physics: 'generalized', 'spring', 'positional' or 'mjx'.
    max_steps: after which an episode is cut off.
    random_return: of random actions, which Brax does not say; without it there are no scores.
    expert_return: of a good policy, likewise.
  Raises:
    ConfigError: Brax is not installed.
  """
  envs = imported('brax.envs', extra='brax', who=f'brax:{problem}')
  theirs = envs.get_environment(problem, backend=backend)

  def reset(key: Key):
    state = theirs.reset(key)
    return state, state.obs.astype(jnp.float32)

  def step(state, action: jax.Array, key: Key) -> Timestep:
    del key
    new = theirs.step(state, jnp.clip(action, -1, 1))
    return timestep(new, new.obs, new.reward, terminated=new.done > 0)

  env = Environment(
      reset=reset, step=step, observation_shape=(theirs.observation_size,),
      actions=Continuous(theirs.action_size), random_return=random_return, expert_return=expert_return,
  )
  return with_time_limit(env, max_steps)
