"""PPO for control: clipped policy gradient with a critic, over transitions in random order.

    A = GAE(r, V),   L = -min(ρ A, clip(ρ) A) + c_v 1/2 max((V - R)², (clip(V, V_old ± ε_v) - R)²) - c_e H

As in common implementations advantages are normalised, here over the batch and not over each minibatch.
What was cut off by a time limit is bootstrapped from the observation that it really ended with.

Source: Schulman et al., 2017, https://arxiv.org/abs/1707.06347, eq. 9.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.advantages import episodes
from rlx.errors import at_least
from rlx.losses import policy as policy_losses
from rlx.losses import ratios, regularizers
from rlx.losses import value as value_losses
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def over_the_batch(advantages: jax.Array, batch: Batch) -> jax.Array:
  """Plain PPO: advantages are normalised over the whole batch."""
  del batch
  return episodes.normalised(advantages)


def ppo(
    rollout: Rollout,
    policy: Policy,
    value: Network,
    *,
    clip_low: float,
    clip_high: float,
    entropy_coef: float,
    value_coef: float,
    value_clip: float,
    discount: float,
    lambda_: float,
    normalise: Callable[[jax.Array, Batch], jax.Array] = over_the_batch,
) -> Algorithm:
  """Proximal policy optimisation; trains `models['policy']` and `models['value']`.

  Args:
    rollout: yields [B, T] stretches of time with `sampler_logprobs`; updates see their B T transitions.
    policy: a distribution of actions.
    value: V(s).
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    entropy_coef: weight of the entropy bonus.
    value_coef: weight of the value loss.
    value_clip: how far values may move from those of the rollout before they stop counting.
    discount: γ per step.
    lambda_: of GAE; 1 is Monte Carlo.
    normalise: `(advantages [B, T], batch) -> advantages`, for variants.
  """
  at_least(0, value_coef=value_coef)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    values, advantages = episodes.estimated(
        value, models['value'], batch, discount=discount, lambda_=lambda_
    )
    return episodes.transitions({
        **batch, 'values': values, 'returns': advantages + values, 'advantages': normalise(advantages, batch),
    })

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = policy.score(models['policy'], batch['observations'], batch['actions'])
    old, clip = batch['sampler_logprobs'], dict(clip_low=clip_low, clip_high=clip_high)
    surrogate = policy_losses.clipped_surrogate(logprobs, old, batch['advantages'], **clip)
    values = value.apply(models['value'], batch['observations'])
    errors = value_losses.clipped_squared_error(values, batch['values'], batch['returns'], clip=value_clip)
    policy_loss, value_loss, entropy = surrogate.mean(), errors.mean(), entropy.mean()
    ratio = ratios.ratio(logprobs, old)
    metrics = {
        'loss/policy': policy_loss,
        'loss/value': value_loss,
        'policy/entropy': entropy,
        'policy/clipped': jnp.mean((ratio < 1 - clip_low) | (ratio > 1 + clip_high)),
        'kl/old': regularizers.kl_k3(old, logprobs).mean(),  # KL(sampler || policy)
    }
    return policy_loss + value_coef * value_loss - entropy_coef * entropy, metrics

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)
