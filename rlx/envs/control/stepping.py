"""Many environments side by side on the device, in the middle of their episodes, and one step of all of them.

An environment that ends begins again in the same step, so that a loop over `advance` never waits. Rollouts
and data sets are made of it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment, State, Timestep, step_or_reset
from rlx.envs.control.host import host_of
from rlx.types import Batch, Key, World, go_on


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
  states, observations = reset_all(env, key, num_envs)
  actions = jnp.zeros((num_envs, *env.actions.shape), _dtype(env))
  new = jax.eval_shape(lambda: step_all(env, states, actions, key))
  names = ('return', 'length', *new.info)
  return Agents(
      states=states, observations=observations, returns=jnp.zeros(num_envs), lengths=jnp.zeros(num_envs),
      finished={name: jnp.full(num_envs, jnp.nan, jnp.float32) for name in names},
  )


def anew(env: Environment) -> Callable[[World, Key], World]:
  """`StatefulRollout.anew` of a rollout whose world has `agents`, and `store`, where there is one.

  Environments on the host are in no checkpoint. New ones are opened, at the start of their episodes; the last
  steps in a store are then the last of theirs, and count as cut off. Of pure functions all is in the state.
  """
  if host_of(env) is None:
    return go_on

  def begun(world: World, key: Key) -> World:
    agents = world['agents']
    num_envs = agents.returns.shape[0]
    world = {**world, 'agents': begin(env, key, num_envs)._replace(finished=agents.finished)}
    if 'store' in world:
      store, rows = world['store'], world['store']['rows']
      last = (store['next'] - num_envs + jnp.arange(num_envs)) % rows['rewards'].shape[0]
      cut = rows['truncated'].at[last].set(~rows['terminated'][last])
      world['store'] = {**store, 'rows': {**rows, 'truncated': cut}}
    return world

  return begun


def reset_all(env: Environment, key: Key, num: int, player: Any = ()) -> tuple[State, jax.Array]:
  """`num` environments at the start of an episode: their states and observations.

  Args:
    env: one environment.
    key: of the starts.
    num: environments.
    player: parameters of who acts in them, where the key alone does not tell members of a population apart:
      on the host each needs environments of its own.
  """
  if (host := host_of(env)) is not None:
    return host.reset(key, num, player)
  return jax.vmap(env.reset)(jax.random.split(key, num))


def step_all(env: Environment, states: State, actions: jax.Array, key: Key) -> Timestep:
  """One step of every environment, each to where it led; not for going on behind the end of an episode."""
  if (host := host_of(env)) is not None:
    return host.step(states, actions)[0]
  return jax.vmap(env.step)(states, actions, jax.random.split(key, actions.shape[0]))


def done_with(env: Environment, states: State) -> None:
  """Says that nobody goes on from `states`: environments on the host are then free for others."""
  if (host := host_of(env)) is not None:
    host.give_back(states)


def advance(env: Environment, agents: Agents, actions: jax.Array, key: Key) -> tuple[Agents, Batch]:
  """One step of every environment.

  Returns:
    The environments after it, and the transitions: a batch with `observations, actions, rewards,
    next_observations` (of the same episode, also where it ended), `terminated, truncated`.
  """
  new, states, observations = _step_or_reset_all(env, agents.states, actions, key)
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


def _step_or_reset_all(env: Environment, states: State, actions: jax.Array, key: Key):
  """`environment.step_or_reset` of every environment."""
  if (host := host_of(env)) is not None:
    return host.step(states, actions)
  keys = jax.random.split(key, actions.shape[0])
  return jax.vmap(lambda s, a, k: step_or_reset(env, s, a, k))(states, actions, keys)


def _dtype(env: Environment):
  return jnp.int32 if env.actions.shape == () else jnp.float32
