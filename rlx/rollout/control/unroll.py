"""Environments on the device: many episodes side by side, in the same program as the update.

`unroll` steps every environment a fixed number of times with the policy as it is, for algorithms that learn
on policy. An environment that ends begins again inside the scan; what is in the middle of an episode at the
end of a batch goes on in the next one, from `world`.
"""

import jax
import jax.numpy as jnp

from rlx import ahead
from rlx.envs.control.environment import Environment
from rlx.envs.control.stepping import Agents, advance, anew, begin, episode_columns
from rlx.models.networks import Policy
from rlx.types import Batch, Key, Models, StatefulRollout, World


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

    agents, rows = ahead.scan(step, world['agents'], jax.random.split(key, num_steps))
    batch = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), rows)
    batch['env/steps'] = jnp.full((num_envs, num_steps), float(num_envs * num_steps))
    return batch, {**world, 'agents': agents}

  return StatefulRollout(
      begin=lambda key: {'agents': begin(env, key, num_envs)}, draw=rollout, data=None,
      anew=anew(env),
  )


