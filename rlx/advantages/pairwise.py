"""Advantages from comparisons: a judge says which of two samples of a prompt is better; none has a number."""

import chex
import jax
import jax.numpy as jnp


def pairwise(preferences: jax.Array) -> jax.Array:
  """How much more often a sample is preferred to the others of its group than they to it.

      A_i = 1 / (2 (G - 1)) Σ_{j ≠ i} (p_ij - p_ji)

  p_ij and p_ji are two questions, in the one order and the other. So what a judge has for the first answer,
  whatever it says, falls out; so do rows that it was not asked about, or gave no verdict on (NaN). What one
  of a pair gains the other loses: advantages sum to zero in each group. Where p_ji = 1 - p_ij it is the win
  rate, less a half.

  Args:
    preferences: [..., G, G] p_ij, the chance (or 0 and 1) that sample i is preferred where it is shown first
      and j second; the diagonal is not read.
  Returns:
    [..., G] float32 in [-1/2, 1/2]; 0 in a group of one.
  Source: the pairwise RLHF of Think-RM, https://arxiv.org/abs/2505.16265, of which the abstract was at hand:
    the sum over all pairs of a group is our reading.
  """
  chex.assert_equal(preferences.shape[-1], preferences.shape[-2])
  x = preferences.astype(jnp.float32)
  ahead = x - jnp.swapaxes(x, -1, -2)  # 0 on the diagonal
  return jnp.sum(jnp.where(jnp.isnan(ahead), 0, ahead), axis=-1) / (2 * max(x.shape[-1] - 1, 1))
