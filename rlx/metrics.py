"""What a batch says about itself: the metrics that every algorithm shares."""

import jax.numpy as jnp

from rlx.advantages import groups as group_advantages
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
