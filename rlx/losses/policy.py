"""Policy-gradient losses, element-wise: anything with (logprob, old_logprob, advantage) per decision.

They return arrays of the shape of their arguments; `reductions.py` says how entries are averaged.
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
  return jnp.exp(jnp.clip(log_ratio(logprobs, old_logprobs), -MAX_LOG_RATIO, MAX_LOG_RATIO))


def reinforce(logprobs: jax.Array, advantages: jax.Array) -> jax.Array:
  """-A log π(a|s); its gradient is the policy gradient.

  Args:
    logprobs: [...] of the decisions under the trained policy.
    advantages: [...] taken as constants.
  Source: Williams, 1992, https://doi.org/10.1007/BF00992696, eq. 11.
  """
  chex.assert_equal_shape([logprobs, advantages])
  return -jax.lax.stop_gradient(advantages) * logprobs.astype(jnp.float32)


def clipped_surrogate(
    logprobs: jax.Array,
    old_logprobs: jax.Array,
    advantages: jax.Array,
    *,
    clip_low: float,
    clip_high: float,
) -> jax.Array:
  """-min(ρ A, clip(ρ, 1 - clip_low, 1 + clip_high) A) with ρ = π(a|s) / π_old(a|s).

  At ρ = 1 the value is -A and the gradient that of `reinforce`. With one update a batch ρ *is* 1: the loss
  then reads as minus the mean advantage, 0 for centred ones, and still learns.

  Args:
    logprobs: [...] of the decisions under the trained policy.
    old_logprobs: [...] under the proximal policy, constants.
    advantages: [...] constants.
    clip_low: how far below 1 the ratio counts, in [0, 1].
    clip_high: how far above 1 the ratio counts; equal to `clip_low` in PPO, larger in DAPO.
  Source: PPO, https://arxiv.org/abs/1707.06347, eq. 7; two bounds: DAPO,
    https://arxiv.org/abs/2503.14476, eq. 10.
  """
  chex.assert_equal_shape([logprobs, old_logprobs, advantages])
  advantages = jax.lax.stop_gradient(advantages)
  rho = ratio(logprobs, jax.lax.stop_gradient(old_logprobs))
  clipped = jnp.clip(rho, 1 - clip_low, 1 + clip_high)
  return -jnp.minimum(rho * advantages, clipped * advantages)


def is_clipped(
    logprobs: jax.Array,
    old_logprobs: jax.Array,
    advantages: jax.Array,
    *,
    clip_low: float,
    clip_high: float,
) -> tuple[jax.Array, jax.Array]:
  """Where the surrogate has no gradient: (below the lower bound, above the upper), float32 0 or 1."""
  rho = ratio(logprobs, old_logprobs)
  low = (rho < 1 - clip_low) & (advantages < 0)
  high = (rho > 1 + clip_high) & (advantages > 0)
  return low.astype(jnp.float32), high.astype(jnp.float32)
