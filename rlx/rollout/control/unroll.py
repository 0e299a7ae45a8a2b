"""Environments on the device: many episodes side by side, in the same program as the update.

`unroll` steps every environment a fixed number of times with the policy as it is, for algorithms that learn
on policy. An environment that ends begins again inside the scan; what is in the middle of an episode at the
end of a batch goes on in the next one, from `world`. `advance` is one step of all environments, which the
replay store of `replay.py` shares.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment, State, step_or_reset
from rlx.models.networks import Policy
from rlx.types import Batch, Key, Models, StatefulRollout, World


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
      finished={name: jnp.full(num_envs, jnp.nan) for name in names},
  )


def _dtype(env: Environment):
  return jnp.int32 if env.actions.shape == () else jnp.float32


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


def unroll(env: Environment, policy: Policy, *, num_envs: int, num_steps: int) -> StatefulRollout:
  """Steps `num_envs` environments `num_steps` times with `models['policy']`.

  Args:
    env: one environment.
    policy: how actions are drawn.
    num_envs: B.
    num_steps: T.
  Returns:
    A `rollout` of batches with `observations, next_observations` [B, T, ...], `actions, rewards, terminated,
    truncated, sampler_logprobs` [B, T], `episode/x` [B, T] of the episodes that finished last, and
    `env/steps`, how many were taken.
  Raises:
    ValueError: a number is not positive.
  """
  if min(num_envs, num_steps) < 1:
    raise ValueError(f'num_envs={num_envs}, num_steps={num_steps}: at least 1 each')

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    def step(agents: Agents, key: Key):
      action_key, env_key = jax.random.split(key)
      actions, logprobs = policy.sample(models['policy'], agents.observations, action_key)
      agents, transitions = advance(env, agents, actions, env_key)
      return agents, {**transitions, 'sampler_logprobs': logprobs, **episode_columns(agents)}

    agents, rows = jax.lax.scan(step, world['agents'], jax.random.split(key, num_steps))
    batch = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), rows)
    batch['env/steps'] = jnp.full((num_envs, num_steps), float(num_envs * num_steps))
    return batch, {**world, 'agents': agents}

  return StatefulRollout(
      begin=lambda key: {'agents': begin(env, key, num_envs)}, draw=rollout, data=None
  )


def episode_columns(agents: Agents) -> Batch:
  """`episode/x` [B] of each environment's last finished episode; a batch averages what is not NaN."""
  return {f'episode/{name}': value for name, value in agents.finished.items()}
