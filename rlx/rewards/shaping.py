"""What is added to a reward: penalties on length."""

import chex
import jax
import jax.numpy as jnp


def soft_overlong(lengths: jax.Array, *, max_tokens: int, buffer: int) -> jax.Array:
  """0 up to max_tokens - buffer, then falling linearly to -1 at max_tokens, and -1 behind it.

  Args:
    lengths: [B] response lengths in tokens.
    max_tokens: where the penalty is full.
    buffer: over how many tokens it grows; 0 < buffer <= max_tokens.
  Source: DAPO, https://arxiv.org/abs/2503.14476, eq. 13.
  """
  chex.assert_rank(lengths, 1)
  start = max_tokens - buffer
  return -jnp.clip((lengths - start) / buffer, 0, 1).astype(jnp.float32)
