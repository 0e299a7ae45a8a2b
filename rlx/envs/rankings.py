"""How good a ranking is: numbers of lists in which some places are right, for searches of every kind."""

import chex
import jax
import jax.numpy as jnp


def ndcg(relevance: jax.Array, num_relevant: jax.Array) -> jax.Array:
  """DCG / IDCG, where DCG = Σ_i (2^rel_i - 1) / log2(i + 1): what is right counts for more the earlier it is.

  IDCG is that of a list that begins with all that is relevant, so that 1 is reached with all of it in front.

  Args:
    relevance: [..., K] 0 or 1 by place; a document that is found again is 0, or it would count twice.
    num_relevant: [...] documents that there are to be found, at least 1 and at most K.
  Returns:
    [...] float32 in [0, 1].
  Source: Järvelin and Kekäläinen, 2002; the retrieval reward of VRAG-RL, https://arxiv.org/abs/2505.22019.
  """
  chex.assert_rank(num_relevant, relevance.ndim - 1)
  places = jnp.arange(relevance.shape[-1], dtype=jnp.float32)
  discounts = 1 / jnp.log2(places + 2)
  dcg = lambda gains: jnp.sum(gains * jnp.broadcast_to(discounts, gains.shape), axis=-1)
  ideal = jnp.broadcast_to(places, relevance.shape) < num_relevant[..., None]
  return dcg(2.0 ** relevance - 1) / dcg(ideal.astype(jnp.float32))
