"""MEX: one objective that fits the data and hopes: of all values that explain what was seen, the highest.

    max_f  V_f(s_1) - η L(f),   here as   min_Q  L(Q) - 1/η mean_s Σ_a π(a | s) Q(s, a)

L is DQN's error, s goes over the rows and π is the ε-greedy policy; V_f(s_1) of the theory is the best value
of the start alone. What was tried often is held by L; an action that was not tried rises until it is the best
and is tried, and what it led to is hoped for in its turn. There is neither a count nor a bonus. Where nothing
holds an action, ε decides how soon it rises: a gradient of the maximum alone never sees what is not yet the
best, unlike a maximum over all f. With 1/η = 0 it is DQN.

Source: Liu et al., 2023, https://arxiv.org/abs/2305.18258, algorithm 1; the mean over rows and the policy in
the place of the maximum are our reading of its practical, model-free algorithm.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.models.networks import GreedyPolicy
from rlx.types import Algorithm, Batch, Key, Models


def mex(parent: Algorithm, policy: GreedyPolicy, *, optimism: float) -> Algorithm:
  """Maximise to explore; trains what its parent trains.

  Args:
    parent: `dqn`. With a `huber_delta` below `optimism`, hope can outweigh any error.
    policy: of the parent, ε-greedy over Q(s, ·).
    optimism: 1/η, at least 0.
  Raises:
    ValueError: `optimism` is negative.
  """
  if optimism < 0:
    raise ValueError(f'optimism={optimism}: it is 1/η, at least 0')

  def loss(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, dict[str, jax.Array]]:
    fit, metrics = parent.loss(models, batch, key)
    hoped = hope(policy, models['policy'], batch['observations']).mean()
    return fit - optimism * hoped, {**metrics, 'critic/hoped': hoped}

  return dataclasses.replace(parent, loss=loss)


def hope(policy: GreedyPolicy, params, observations: jax.Array) -> jax.Array:
  """Σ_a π(a | s) Q(s, a), [B] for observations [B, ...]; the gradient is that of Q alone."""
  values = policy.values(params, observations)
  each = jnp.broadcast_to(jnp.arange(values.shape[-1])[:, None], values.shape[::-1])
  logprobs = jax.vmap(lambda actions: policy.score(params, observations, actions)[0])(each)
  return jnp.sum(jax.lax.stop_gradient(jnp.exp(logprobs.T)) * values, axis=-1)
