"""Ratios π / π_old of one policy to another, at every token: of the token, of its sequence, or of its turn.

The ratio of a sequence or a turn is repeated at each of its tokens, so that every surrogate (`policy.py`),
correction (`corrections.py`) and reduction (`reductions.py`) fits every level. The table in `policy.py` says
which method takes which.
"""

import chex
import jax
import jax.numpy as jnp

MAX_LOG_RATIO = 20.0  # exp(20) = 5e8: far outside any clip range, far inside float32


def log_ratio(logprobs: jax.Array, old_logprobs: jax.Array) -> jax.Array:
  """logprobs - old_logprobs, in float32."""
  chex.assert_equal_shape([logprobs, old_logprobs])
  return logprobs.astype(jnp.float32) - old_logprobs.astype(jnp.float32)


def ratio(logprobs: jax.Array, old_logprobs: jax.Array) -> jax.Array:
  """exp(logprobs - old_logprobs), with the exponent held within ±20 so that it stays finite."""
  return held_exp(log_ratio(logprobs, old_logprobs))


def sequence_product(logprobs: jax.Array, old_logprobs: jax.Array, mask: jax.Array) -> jax.Array:
  """π(y|x) / π_old(y|x) = Π_t ρ_t, at every token of the sequence; the exponent is held as in `ratio`.

  Unbiased as a weight of whole sequences, and of a variance that grows with their length.

  Args:
    logprobs: [..., T] of the decisions under the trained policy.
    old_logprobs: [..., T] under the proximal policy, constants.
    mask: [..., T] bool, True where the token counts.
  Returns:
    [..., T] float32; 1 for a row without a counted token.
  """
  chex.assert_equal_shape([logprobs, old_logprobs, mask])
  product = held_exp(_row_sum(log_ratio(logprobs, jax.lax.stop_gradient(old_logprobs)), mask))
  return jnp.broadcast_to(product, mask.shape)


def sequence_ratio(logprobs: jax.Array, old_logprobs: jax.Array, mask: jax.Array) -> jax.Array:
  """s = (π(y|x) / π_old(y|x))^(1/|y|) = exp( 1/|y| Σ_t log ρ_t ), at every token of the sequence.

  The geometric mean of the token ratios; clip ranges are of the order of 1e-4. verl holds the exponent
  below 10, TRL does not; here it is held within ±20 as everywhere.

  Args:
    logprobs: [..., T] of the decisions under the trained policy.
    old_logprobs: [..., T] under the proximal policy, constants.
    mask: [..., T] bool, True where the token counts.
  Returns:
    [..., T] float32; 1 for a row without a counted token.
  Source: GSPO, https://arxiv.org/abs/2507.18071; as in TRL and verl.
  """
  chex.assert_equal_shape([logprobs, old_logprobs, mask])
  mean = row_mean(log_ratio(logprobs, jax.lax.stop_gradient(old_logprobs)), mask)
  return jnp.broadcast_to(held_exp(mean), mask.shape)


def sequence_token_ratio(logprobs: jax.Array, old_logprobs: jax.Array, mask: jax.Array) -> jax.Array:
  """sg[s] π(y_t) / sg[π(y_t)]: the value of `sequence_ratio`, the gradient of the token alone.

  With one advantage a sequence its loss has the gradient of GSPO; it differs where advantages vary inside a
  sequence. This is the form that verl calls `gspo`; TRL's is `sequence_ratio`, this one an experiment there.

  Args:
    logprobs: [..., T] of the decisions under the trained policy.
    old_logprobs: [..., T] under the proximal policy, constants.
    mask: [..., T] bool, True where the token counts.
  Returns:
    [..., T] float32.
  Source: GSPO, https://arxiv.org/abs/2507.18071; as in verl.
  """
  held = jax.lax.stop_gradient
  logprobs = logprobs.astype(jnp.float32)
  return held(sequence_ratio(logprobs, old_logprobs, mask)) * jnp.exp(logprobs - held(logprobs))


def turn_ratio(
    logprobs: jax.Array, old_logprobs: jax.Array, mask: jax.Array, turns: jax.Array
) -> jax.Array:
  """The geometric mean of the token ratios of a turn, at every token of the turn.

  One turn a sequence is `sequence_ratio`, one token a turn is `ratio`.

  Args:
    logprobs: [..., T] of the decisions under the trained policy.
    old_logprobs: [..., T] under the proximal policy, constants.
    mask: [..., T] bool, True where the token counts.
    turns: [..., T] int32 turn of each token, in -1..T-1.
  Returns:
    [..., T] float32; 1 in a turn without a counted token.
  Source: turn-level importance sampling, ST-PPO, https://arxiv.org/abs/2511.20718, eq. 4; that the turn's
    ratio is normalised by its length is our reading.
  """
  chex.assert_equal_shape([logprobs, old_logprobs, mask, turns])
  num_tokens = mask.shape[-1]
  rows = jnp.arange(mask.size // num_tokens, dtype=jnp.int32)[:, None] * (num_tokens + 1)
  segments = (rows + turns.reshape(-1, num_tokens) + 1).reshape(-1)
  per_turn = lambda x: jax.ops.segment_sum(
      x.reshape(-1), segments, num_segments=rows.shape[0] * (num_tokens + 1)
  )
  logs = log_ratio(logprobs, jax.lax.stop_gradient(old_logprobs))
  sums = per_turn(jnp.where(mask, logs, 0))
  means = sums / jnp.maximum(per_turn(mask.astype(jnp.float32)), 1)
  return held_exp(means[segments]).reshape(mask.shape)


def held_exp(x: jax.Array) -> jax.Array:
  """exp(x), with the exponent held within ±20."""
  return jnp.exp(jnp.clip(x, -MAX_LOG_RATIO, MAX_LOG_RATIO))


def _row_sum(x: jax.Array, mask: jax.Array) -> jax.Array:
  """[..., 1]: sums of the counted entries; what is not counted has no gradient, whatever it holds."""
  return jnp.sum(jnp.where(mask, x, 0), axis=-1, keepdims=True)


def row_mean(x: jax.Array, mask: jax.Array) -> jax.Array:
  """[..., 1]: means of the counted entries, 0 for a row without one."""
  return _row_sum(x, mask) / jnp.maximum(mask.sum(axis=-1, keepdims=True), 1)
