"""Losses that pull together what belongs together and push apart the rest."""

import chex
import jax
import jax.numpy as jnp

_NOBODY = -1e30  # below every similarity; infinity would make slopes NaN


def info_nce(similarities: jax.Array, positives: jax.Array) -> jax.Array:
  """-log( Σ_{j in P} e^{s_j} / Σ_j e^{s_j} ): how hard it is to tell the candidates that belong to a row.

  For the pairs of a batch [B, B] the positives are `jnp.eye(B, dtype=bool)`, and the same loss of the
  transpose asks the other way round. With several positives it is enough that their sum stands out.

  Args:
    similarities: [..., N] of each row to each candidate, divided by a temperature.
    positives: [..., N] bool, which candidates belong to the row.
  Returns:
    [...] float32, at least 0; 0 where no candidate belongs to the row.
  Source: van den Oord et al., 2018, https://arxiv.org/abs/1807.03748, eq. 4; several positives as in Khosla
    et al., 2020, https://arxiv.org/abs/2004.11362, with the sum inside of the logarithm.
  """
  chex.assert_equal_shape([similarities, positives])
  similarities = similarities.astype(jnp.float32)
  belonging = jax.nn.logsumexp(jnp.where(positives, similarities, _NOBODY), axis=-1)
  losses = jax.nn.logsumexp(similarities, axis=-1) - belonging
  return jnp.where(positives.any(axis=-1), losses, 0)
