"""Environments of gymnax, https://github.com/RobertTLange/gymnax, which is imported when one is asked for."""

import math

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import (
  Continuous,
  Discrete,
  Environment,
  Timestep,
  timestep,
  with_time_limit,
)
from rlx.errors import ConfigError
from rlx.names import imported
from rlx.types import Key


def from_gymnax(
    *, problem: str, max_steps: int = 0, random_return: float = math.nan, expert_return: float = math.nan
) -> Environment:
  """An environment of gymnax without its own clock and without its automatic resets.

  Args:
    problem: gymnax's name for it, with its default parameters.
    max_steps: after which an episode is cut off; 0 for gymnax's own number.
    random_return: of random actions, which gymnax does not say; without it there are no scores.
    expert_return: of a good policy, likewise.
  Raises:
    ValueError: the actions are neither discrete nor a box of one axis.
    ConfigError: gymnax is not installed, or does not know the name.
  """
  gymnax = imported('gymnax', extra='gymnax', who=f'gymnax:{problem}')
  if problem not in gymnax.registered_envs:
    raise ConfigError(f'gymnax:{problem} is none of {", ".join(gymnax.registered_envs)}')
  theirs, params = gymnax.make(problem)
  space = theirs.action_space(params)
  actions, to_theirs = _actions(space)

  def reset(key: Key):
    observation, state = theirs.reset_env(key, params)
    return state, observation.astype(jnp.float32)

  def step(state, action: jax.Array, key: Key) -> Timestep:
    observation, new, reward, terminated, _ = theirs.step_env(key, state, to_theirs(action), params)
    # Some of its environments turn the numbers of a state into other types in a step.
    new = jax.tree.map(lambda old, new: jnp.asarray(new, jnp.asarray(old).dtype), state, new)
    return timestep(new, observation, reward, terminated=terminated)

  env = Environment(
      reset=reset, step=step, observation_shape=tuple(theirs.observation_space(params).shape),
      actions=actions, random_return=random_return, expert_return=expert_return,
  )
  return with_time_limit(env, max_steps or int(params.max_steps_in_episode))


def _actions(space):
  """rlx's actions, and the function from one of them to gymnax's."""
  if hasattr(space, 'n'):
    return Discrete(space.n), lambda action: action
  if len(space.shape) != 1:
    raise ValueError(f'actions of shape {space.shape}; it needs discrete ones or a box of one axis')
  middle, half = (space.high + space.low) / 2, (space.high - space.low) / 2
  return Continuous(space.shape[0]), lambda action: middle + half * jnp.clip(action, -1, 1)
