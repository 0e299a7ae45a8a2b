"""Losses of critics that several algorithms of control share, made of their networks.

Targets are constants: each loss stops the gradients of the models that are not its own. Ensembles are [N, B],
and every member has the same target.
"""

from collections.abc import Callable
import math

import jax
import jax.numpy as jnp

from rlx.errors import between
from rlx.models.networks import Network, Policy
from rlx.types import Batch, Key, Models


def bootstrapped(batch: Batch, following: jax.Array, *, discount: float) -> jax.Array:
  """r + γ (1 - terminated) V(s'): the target of one step, [B] float32, without a gradient.

  Args:
    batch: `rewards, terminated` [B].
    following: [B] what is expected behind each row.
    discount: γ per step.
  Raises:
    ValueError: it is not in [0, 1].
  """
  between(0, 1, discount=discount)
  after = jnp.where(batch['terminated'], 0, following)
  return jax.lax.stop_gradient(batch['rewards'] + discount * after)


def ensemble_error(values: jax.Array, targets: jax.Array) -> jax.Array:
  """Σ_i mean (Q_i - y)², [] for values [N, B] and targets [B]."""
  return jnp.square(values - targets[None]).mean(axis=1).sum()


def mean_where(x: jax.Array, mask: jax.Array) -> jax.Array:
  """The mean over the last axis of x [..., B] where `mask` [B] is True; 0 where it is nowhere."""
  counts = jnp.broadcast_to(mask.reshape((1,) * (x.ndim - 1) + mask.shape), x.shape)
  return jnp.where(counts, x, 0).sum(axis=-1) / jnp.maximum(mask.sum(), 1)


def regression_on_values(
    critic: Network, value: Network, models: Models, batch: Batch, *, discount: float
) -> jax.Array:
  """Σ_i mean (r + γ (1 - terminated) V(s') - Q_i(s, a))²: [] the loss of a critic beside a state value.

  Args:
    critic: an ensemble of Q(s, a), with `models['critic']`.
    value: V(s), with `models['value']`, of which no gradient is taken.
    models: holds both.
    batch: transitions [B].
    discount: γ per step.
  """
  following = value.apply(jax.lax.stop_gradient(models['value']), batch['next_observations'])
  values = critic.apply(models['critic'], batch['observations'], batch['actions'])
  return ensemble_error(values, bootstrapped(batch, following, discount=discount))


def soft_maximum(
    policy: Policy, critic: Network, models: Models, batch: Batch, key: Key, *, num_actions: int,
    floor: Callable[[jax.Array, Batch], jax.Array],
) -> jax.Array:
  """log ∫ exp Q(s, a) da of every critic, estimated with samples; gradients reach the critic alone.

  It is an average over M uniform actions and M of the policy, each over its density:

      log 1/(2M) ( Σ_unif exp Q(s, a) / (1/2)^A + Σ_π exp Q(s, a) / π(a | s) )

  Args:
    policy: draws half of the actions, with `models['policy']`.
    critic: an ensemble of N, with `models['critic']`.
    models: holds both.
    batch: `observations` [B, ...]; whatever `floor` looks at.
    key: of the actions.
    num_actions: M, of each kind.
    floor: `(values [N, M, B] of the policy's actions, batch) -> values`.
  Returns:
    [N, B] float32.
  Source: Kumar et al., 2020, https://arxiv.org/abs/2006.04779, appendix F.
  """
  random_key, policy_key = jax.random.split(key)
  observations = jnp.repeat(batch['observations'][None], num_actions, axis=0)
  drawn, logprobs = policy.sample(jax.lax.stop_gradient(models['policy']), observations, policy_key)
  uniform = jax.random.uniform(random_key, drawn.shape, minval=-1.0, maxval=1.0)
  of_policy = floor(critic.apply(models['critic'], observations, drawn), batch)
  of_uniform = critic.apply(models['critic'], observations, uniform)
  volume = drawn.shape[-1] * math.log(2)  # of [-1, 1]^A
  weighted = jnp.concatenate([of_uniform + volume, of_policy - logprobs[None]], axis=1)
  return jax.nn.logsumexp(weighted, axis=1) - math.log(2 * num_actions)


def as_they_are(values: jax.Array, batch: Batch) -> jax.Array:
  """No floor: the values of the policy's actions are what they are."""
  del batch
  return values
