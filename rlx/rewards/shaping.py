"""What is added to a reward: penalties on length and on the distance from a reference."""

import chex
import jax
import jax.numpy as jnp

from rlx.losses import regularizers
from rlx.types import Batch


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


def token_kl(batch: Batch) -> jax.Array:
  """[B, T] log π_old - log ref of the sampled tokens, 0 elsewhere (k1: it belongs into the reward)."""
  kl = regularizers.kl_k1(batch['sampler_logprobs'], batch['reference_logprobs'])
  return jnp.where(batch['action_mask'], kl, 0)


def sequence_kl(batch: Batch) -> jax.Array:
  """[B] sums of `token_kl` over each row."""
  return token_kl(batch).sum(axis=-1)
