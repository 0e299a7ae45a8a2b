"""What `sampler.py` computes, said plainly: full running sums and sorted vocabularies."""

import jax
import jax.numpy as jnp


def inverse_cdf_reference(logits: jax.Array, uniform: jax.Array) -> jax.Array:
  """See `inverse_cdf`; at a number within rounding of 1 it may name a token without mass."""
  running = jnp.cumsum(jax.nn.softmax(logits, axis=-1), axis=-1)
  tokens = jnp.sum(running <= uniform[..., None], axis=-1)
  return jnp.minimum(tokens, logits.shape[-1] - 1).astype(jnp.int32)


def top_k_threshold_reference(logits: jax.Array, k: int) -> jax.Array:
  """See `top_k_threshold`."""
  kth = jax.lax.top_k(logits, min(k, logits.shape[-1]))[0][..., -1:]
  return jnp.min(jnp.where((logits >= kth) & (logits > -jnp.inf), logits, jnp.inf), axis=-1)


def top_p_threshold_reference(logits: jax.Array, p: float) -> jax.Array:
  """See `top_p_threshold`."""
  ranked = jnp.sort(logits, axis=-1, descending=True)
  probs = jax.nn.softmax(ranked, axis=-1)
  inside = (jnp.cumsum(probs, axis=-1) - probs < p) & (ranked > -jnp.inf)  # mass before; the first is in
  return jnp.min(jnp.where(inside, ranked, jnp.inf), axis=-1)
