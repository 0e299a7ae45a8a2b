"""What a batch says about itself: the metrics that every algorithm shares."""

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import groups as group_advantages
from rlx.losses import policy, regularizers
from rlx.types import Batch, Metrics


def describe(batch: Batch) -> Metrics:
  """Scalars of a batch, from the standard keys that it holds; columns named `area/what` are averaged.

  Args:
    batch: rows after the advantage slot.
  Returns:
    Float32 scalars.
  """
  metrics = {name: jnp.mean(x.astype(jnp.float32)) for name, x in batch.items() if '/' in name}
  if 'rewards' in batch:
    rewards = batch['rewards']
    metrics |= {'reward/mean': rewards.mean(), 'reward/std': rewards.std()}
    if 'groups' in batch:
      informative = group_advantages.is_informative(rewards, batch['groups'])
      metrics['reward/zero_variance_fraction'] = 1 - jnp.mean(informative.astype(jnp.float32))
  if 'action_mask' in batch:
    lengths = batch['action_mask'].sum(axis=-1).astype(jnp.float32)
    metrics |= {
        'tokens/actions': lengths.sum(),
        'tokens/response_mean': lengths.mean(),
        'tokens/response_max': lengths.max(),
    }
  if 'truncated' in batch:
    metrics['tokens/truncated_fraction'] = jnp.mean(batch['truncated'].astype(jnp.float32))
  return metrics


def describe_update(
    batch: Batch, logprobs: jax.Array, entropy: jax.Array, *, clip_low: float, clip_high: float
) -> Metrics:
  """Scalars of one update: entropy, how much was clipped, how far the policy is from the sampler's.

  Args:
    batch: rows with `sampler_logprobs, advantages, weights`.
    logprobs: [B, T] of the actions under the trained policy.
    entropy: [B, T] in nats.
    clip_low: a token counts as clipped below 1 - clip_low where its advantage is negative,
    clip_high: and above 1 + clip_high where it is positive.
  """
  mean = lambda x: reductions.weighted_mean(x, batch['weights'])
  old_logprobs = batch['sampler_logprobs']
  low, high = policy.is_clipped(
      logprobs, old_logprobs, batch['advantages'], clip_low=clip_low, clip_high=clip_high
  )
  return {
      'policy/entropy': mean(entropy),
      'policy/clipped_low': mean(low),
      'policy/clipped_high': mean(high),
      'kl/old': mean(regularizers.kl_k3(logprobs, old_logprobs)),
  }
