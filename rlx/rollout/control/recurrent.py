"""Environments on the device, stepped by a policy that remembers: `unroll` with a carry in `world`."""

import jax
import jax.numpy as jnp

from rlx import ahead
from rlx.envs.control import stepping
from rlx.envs.control.environment import Environment
from rlx.models.networks import picked
from rlx.models.recurrent import Recurrent
from rlx.types import Batch, Key, Models, StatefulRollout, World, go_on


def recurrent(env: Environment, policy: Recurrent, *, num_envs: int, num_steps: int) -> StatefulRollout:
  """Steps `num_envs` environments `num_steps` times; what is remembered at the end goes on in the next batch.

  Args:
    env: one environment.
    policy: how actions are drawn.
    num_envs: B.
    num_steps: T.
  Returns:
    A `rollout` of the batches of `unroll`, with `carries` [B, D] before the first step and `starts` [B, T],
    True where an episode begins, so that a loss can read the stretch again.
  Raises:
    ValueError: a number is not positive.
  """
  if min(num_envs, num_steps) < 1:
    raise ValueError(f'num_envs={num_envs}, num_steps={num_steps}: at least 1 each')

  def begin(key: Key) -> World:
    return {
        'agents': stepping.begin(env, key, num_envs),
        'carries': jnp.zeros((num_envs, policy.size)),
        'starts': jnp.ones(num_envs, bool),
    }

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    def step(world, key: Key):
      action_key, env_key = jax.random.split(key)
      agents, starts = world['agents'], world['starts']
      carries = jnp.where(starts[:, None], 0, world['carries'])
      carries, logits, _ = policy.step(models['policy'], carries, agents.observations)
      actions = jax.random.categorical(action_key, logits)
      logprobs = picked(jax.nn.log_softmax(logits), actions)
      agents, rows = stepping.advance(env, agents, actions, env_key)
      rows |= {'sampler_logprobs': logprobs, 'starts': starts, **stepping.episode_columns(agents)}
      ended = rows['terminated'] | rows['truncated']
      return {'agents': agents, 'carries': carries, 'starts': ended}, rows

    after, rows = ahead.scan(step, world, jax.random.split(key, num_steps))
    batch = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), rows)
    batch['carries'] = world['carries']
    batch['env/steps'] = jnp.full((num_envs, num_steps), float(num_envs * num_steps))
    return batch, after

  agents_anew = stepping.anew(env)

  def anew(world: World, key: Key) -> World:
    return {**agents_anew(world, key), 'starts': jnp.ones(num_envs, bool)}

  return StatefulRollout(
      begin=begin, draw=rollout, data=None, anew=go_on if agents_anew is go_on else anew
  )
