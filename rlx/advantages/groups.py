"""Advantages from groups: rows that share a prompt (a task, a role) are each other's baseline.

Every function takes rewards [B] and group ids [B] in any order and of any size. A group whose rewards are
all equal gets exactly zero, as does a group of one: float residue never becomes a spike, neither that of
the mean (3 x 0.1 / 3) nor that of rewards whose parts were added in another order (0.1 + 0.3 + 0.5).
"""

import chex
import jax
import jax.numpy as jnp

RESIDUE = 1e-6  # relative; eight units in the last place of float32


def _sums(x: jax.Array, groups: jax.Array) -> jax.Array:
  """[B]: for each row, the sum of `x` over its group."""
  return jax.ops.segment_sum(x, groups, num_segments=x.shape[0])[groups]


def _sizes(groups: jax.Array) -> jax.Array:
  return _sums(jnp.ones(groups.shape, jnp.float32), groups)


def is_informative(rewards: jax.Array, groups: jax.Array) -> jax.Array:
  """[B] bool: True where the row's group holds two rewards that differ beyond rounding: it can teach."""
  chex.assert_rank([rewards, groups], 1)
  num, rewards = rewards.shape[0], rewards.astype(jnp.float32)
  high = jax.ops.segment_max(rewards, groups, num_segments=num)[groups]
  low = jax.ops.segment_min(rewards, groups, num_segments=num)[groups]
  # Said the other way round, so that a NaN counts as a difference and is not silently an advantage of 0.
  return ~(high - low <= RESIDUE * jnp.maximum(jnp.abs(high), jnp.abs(low)))


def centred(rewards: jax.Array, groups: jax.Array) -> jax.Array:
  """Rewards minus the mean of their group: A_i = r_i - mean(r).

  Args:
    rewards: [B] outcomes.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B] float32 advantages; sum to zero in each group.
  Source: Dr. GRPO, https://arxiv.org/abs/2503.20783, section 3.
  """
  chex.assert_rank([rewards, groups], 1)
  rewards = rewards.astype(jnp.float32)
  advantages = rewards - _sums(rewards, groups) / _sizes(groups)
  return jnp.where(is_informative(rewards, groups), advantages, 0)


def normalised(rewards: jax.Array, groups: jax.Array, *, eps: float = 1e-6) -> jax.Array:
  """Centred rewards over the unbiased standard deviation of their group: (r_i - mean(r)) / (std(r) + eps).

  Args:
    rewards: [B] outcomes.
    groups: [B] int32 ids in 0..B-1.
    eps: added to the deviation (verl 1e-6, TRL 1e-4).
  Returns:
    [B] float32 advantages.
  Source: GRPO, https://arxiv.org/abs/2402.03300, section 4.1.2; the division by n - 1 is that of the
    reference implementations.
  """
  advantages = centred(rewards, groups)
  variance = _sums(jnp.square(advantages), groups) / jnp.maximum(_sizes(groups) - 1, 1)
  return advantages / (jnp.sqrt(variance) + eps)


def leave_one_out(rewards: jax.Array, groups: jax.Array) -> jax.Array:
  """Rewards minus the mean of the *other* rows of their group: A_i = n / (n - 1) (r_i - mean(r)).

  Args:
    rewards: [B] outcomes.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B] float32 advantages; 0 for a group of one, which has no others.
  Source: RLOO, https://arxiv.org/abs/2402.14740, eq. 8.
  """
  sizes = _sizes(groups)
  return centred(rewards, groups) * sizes / jnp.maximum(sizes - 1, 1)
