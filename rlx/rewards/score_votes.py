"""Judges that score several answers vote by what they say in sum; a meta model says which of them may vote.

One judgement is coarse: scores are small whole numbers, and ties are frequent. The sum of k is finer, and the
errors of one are not those of another.
"""

import chex
import jax
import jax.numpy as jnp


def summed_votes(scores: jax.Array, counts: jax.Array) -> jax.Array:
  """The sum of the scores that count: S_a = Σ_k c_k s_ka.

  Args:
    scores: [..., K, A] that each of K judgements gives to each of A answers.
    counts: [..., K] bool, or weights.
  Returns:
    [..., A] float32.
  Source: DeepSeek-GRM, https://arxiv.org/abs/2504.02495, voting with generated rewards.
  """
  chex.assert_equal_shape_prefix([scores, counts], counts.ndim)
  return jnp.sum(scores.astype(jnp.float32) * counts.astype(jnp.float32)[..., None], axis=-2)


def votes_kept(meta: jax.Array, *, keep: int) -> jax.Array:
  """[..., K] bool: the judgements that a meta model takes to be the best; among equals, the earlier ones.

  Args:
    meta: [..., K] numbers, larger for what is taken to be right.
    keep: how many; all, where there are no more.
  Source: DeepSeek-GRM, https://arxiv.org/abs/2504.02495, meta RM guided voting.

  >>> votes_kept(jnp.array([0.3, 2.0, -1.0, 0.3]), keep=2).tolist()
  [True, True, False, False]
  """
  order = jnp.argsort(-meta, axis=-1, stable=True)
  return jnp.argsort(order, axis=-1, stable=True) < keep


def preferred_by(sums: jax.Array, worth: jax.Array) -> jax.Array:
  """[...] float32: 1 where the better one of two answers has the larger sum, 1/2 where the sums are equal.

  Args:
    sums: [..., 2] of the votes.
    worth: [..., 2] that is known of the answers; not equal.
  """
  chex.assert_equal_shape([sums, worth])
  ahead = lambda x: jnp.sign((x[..., 0] - x[..., 1]).astype(jnp.float32))
  return (1 + ahead(sums) * ahead(worth)) / 2
