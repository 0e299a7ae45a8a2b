"""Advantages from rewards of tokens that a reward model says of rows sampled in groups."""

import chex
import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages
from rlx.advantages import temporal


def returns_beside_others(
    token_rewards: jax.Array, groups: jax.Array, mask: jax.Array, *, discount: float
) -> jax.Array:
  """What is still to come of a row's rewards, each less the mean reward of a token of the other rows.

      A_t^i = Σ_{s >= t} γ^(s - t) [ r_s^i - 1/(K - 1) Σ_{j ≠ i} mean_s r_s^j ]

  The baseline is that of a token, so a row that is longer has it more often.

  Args:
    token_rewards: [B, T] reward of each token; looked at only where `mask` is True.
    groups: [B] int32, which rows share a prompt.
    mask: [B, T] bool, True at actions; rows without one are in no baseline.
    discount: γ.
  Returns:
    [B, T] float32; 0 where `mask` is False. In a group of one the baseline is the row's own mean.
  Source: PRIME, https://arxiv.org/abs/2502.01456, eq. 5, the first of its two terms.
  """
  chex.assert_equal_shape([token_rewards, mask])
  rewards = jnp.where(mask, token_rewards, 0).astype(jnp.float32)
  counts = mask.sum(axis=1)
  means = jnp.where(counts, rewards.sum(axis=1) / jnp.maximum(counts, 1), jnp.nan)
  of_others = jnp.nan_to_num(means) - group_advantages.leave_one_out(means, groups)
  return temporal.returns_tokens(rewards - of_others[:, None], mask, discount=discount)
