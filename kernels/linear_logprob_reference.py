"""What `linear_logprob` computes, said plainly: all logits at once, gradients by autodiff."""

import jax
import jax.numpy as jnp

from rlx.kernels.linear_logprob import Adjust, TokenStatistics, keep_logits


def linear_logprob_reference(
    hidden: jax.Array, unembedding: jax.Array, targets: jax.Array, *, adjust: Adjust = keep_logits
) -> TokenStatistics:
  """See `linear_logprob`; needs room for [N, V] float32."""
  logits = jnp.einsum('nd,vd->nv', hidden, unembedding, preferred_element_type=jnp.float32)
  logits = adjust(logits, targets)
  logprobs = jax.nn.log_softmax(logits)
  probs = jnp.exp(logprobs)
  entropy = -jnp.sum(jnp.where(probs > 0, probs * jnp.where(probs > 0, logprobs, 0), 0), axis=-1)
  picked = jnp.take_along_axis(logprobs, targets[:, None], axis=-1)[:, 0]
  return TokenStatistics(picked, entropy, jax.nn.logsumexp(logits, axis=-1), jnp.sum(probs**2, axis=-1))
