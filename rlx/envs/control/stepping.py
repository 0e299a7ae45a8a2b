"""Many environments side by side on the device, in the middle of their episodes, and one step of all of them.

An environment that ends begins again in the same step, so that a loop over `advance` never waits. Rollouts
and data sets are made of it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment, State, step_or_reset
from rlx.types import Batch, Key


class Agents(NamedTuple):
  """B environments in the middle of their episodes.

  Attributes:
    states: of the environments, leading [B].
    observations: [B, ...] that the next actions are for.
    returns: [B] float32, rewards of the episode so far, undiscounted.
    lengths: [B] float32, its steps so far.
    finished: name -> [B] float32, `return`, `length` and the `info` of each environment's last finished
      episode; NaN before the first one.
  """

  states: State
  observations: jax.Array
  returns: jax.Array
  lengths: jax.Array
  finished: dict[str, jax.Array]


def begin(env: Environment, key: Key, num_envs: int) -> Agents:
  """Environments at the start of their first episodes."""
  states, observations = jax.vmap(env.reset)(jax.random.split(key, num_envs))
  one = jax.tree.map(lambda x: x[0], states)
  new = jax.eval_shape(env.step, one, jnp.zeros(env.actions.shape, _dtype(env)), key)
  names = ('return', 'length', *new.info)
  return Agents(
      states=states, observations=observations, returns=jnp.zeros(num_envs), lengths=jnp.zeros(num_envs),
      finished={name: jnp.full(num_envs, jnp.nan, jnp.float32) for name in names},
  )


def advance(env: Environment, agents: Agents, actions: jax.Array, key: Key) -> tuple[Agents, Batch]:
  """One step of every environment.

  Returns:
    The environments after it, and the transitions: a batch with `observations, actions, rewards,
    next_observations` (of the same episode, also where it ended), `terminated, truncated`.
  """
  keys = jax.random.split(key, actions.shape[0])
  new, states, observations = jax.vmap(lambda s, a, k: step_or_reset(env, s, a, k))(
      agents.states, actions, keys
  )
  returns, lengths = agents.returns + new.reward, agents.lengths + 1
  seen = {'return': returns, 'length': lengths, **new.info}
  finished = jax.tree.map(lambda a, b: jnp.where(new.ended, a, b), seen, agents.finished)
  transitions = {
      'observations': agents.observations, 'actions': actions, 'rewards': new.reward,
      'next_observations': new.observation, 'terminated': new.terminated, 'truncated': new.truncated,
  }
  after = Agents(
      states=states, observations=observations, returns=jnp.where(new.ended, 0, returns),
      lengths=jnp.where(new.ended, 0, lengths), finished=finished,
  )
  return after, transitions


def episode_columns(agents: Agents) -> Batch:
  """`episode/x` [B] of each environment's last finished episode; a batch averages what is not NaN."""
  return {f'episode/{name}': value for name, value in agents.finished.items()}


def _dtype(env: Environment):
  return jnp.int32 if env.actions.shape == () else jnp.float32
