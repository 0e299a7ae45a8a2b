"""Divergences from a reference and entropy, element-wise, from samples of the trained policy.

The three estimators of KL(π || reference) take a sample's log-probs. They differ as *values* (bias, variance)
and again as *losses*: the gradient of k1 has expectation zero, so k1 belongs into the reward; k2 has
the gradient of the true KL; k3 is GRPO's.
Source: Schulman, 2020, http://joschu.net/blog/kl-approx.html.
"""

import jax
import jax.numpy as jnp

from rlx.losses.policy import MAX_LOG_RATIO, log_ratio


def kl_k1(logprobs: jax.Array, reference_logprobs: jax.Array) -> jax.Array:
  """log π - log ref: unbiased, of either sign."""
  return log_ratio(logprobs, reference_logprobs)


def kl_k2(logprobs: jax.Array, reference_logprobs: jax.Array) -> jax.Array:
  """(log π - log ref)² / 2: biased, low variance; its gradient is that of the KL on policy."""
  return jnp.square(kl_k1(logprobs, reference_logprobs)) / 2


def kl_k3(logprobs: jax.Array, reference_logprobs: jax.Array) -> jax.Array:
  """ref/π - 1 - log(ref/π): unbiased and never negative. Source: GRPO, eq. 4."""
  k1 = kl_k1(logprobs, reference_logprobs)
  # exp(x) - 1 would round away the x² / 2 that is left where the policies are close.
  return jnp.expm1(jnp.clip(-k1, -MAX_LOG_RATIO, MAX_LOG_RATIO)) + k1
