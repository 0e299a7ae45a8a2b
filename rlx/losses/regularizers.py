"""Divergences from a reference, element-wise, from samples of the trained policy or from its distribution.

The estimators of KL(π || reference) take log-probs of samples **of π**, the first argument. Samples of
another policy estimate another divergence: what the sampler's tokens say of a trained policy is
KL(sampler || policy), `kl_k3(sampler_logprobs, logprobs)`. A method that holds π to a reference by samples of
an older policy, such as GRPO behind its first update, takes them for its own: a bias that `kl_k3_corrected`
does not have.

The estimators differ as *values* (bias, variance) and again as *losses*: the gradient of k1 has expectation
zero, so k1 belongs into the reward; k2 has the gradient of the true KL; k3 is GRPO's. `kl_straight_through`
has the value of k3 and the gradient of k2; `kl_k3_corrected` is right in both where the samples are another
policy's. A divergence stands in the loss (coefficient times its mean) or in the reward (`kl_reward`); its
coefficient is a number, or follows `update_kl_coef`.

verl's names: k1 or kl, abs, k2 or mse, k3 or low_var_kl; k3+ is `kl_straight_through`, k1+
`kl_k1_straight_through`. verl holds k3 within ±10; here its exponent is held, as that of a ratio. TRL's GRPO
has k3, by default times the ratio.
Source: Schulman, 2020, http://joschu.net/blog/kl-approx.html.
"""

import chex
import jax
import jax.numpy as jnp

from rlx.losses.ratios import MAX_LOG_RATIO, log_ratio


def kl_k1(logprobs: jax.Array, reference_logprobs: jax.Array) -> jax.Array:
  """log π - log ref of samples of π: unbiased for KL(π || ref), of either sign.

  Args:
    logprobs: [...] under π, whose samples they are.
    reference_logprobs: [...] of the same samples under the other policy.
  """
  return log_ratio(logprobs, reference_logprobs)


def kl_k2(logprobs: jax.Array, reference_logprobs: jax.Array) -> jax.Array:
  """(log π - log ref)² / 2: biased, low variance; its gradient is that of KL(π || ref), on samples of π."""
  return jnp.square(kl_k1(logprobs, reference_logprobs)) / 2


def kl_k3(logprobs: jax.Array, reference_logprobs: jax.Array) -> jax.Array:
  """ref/π - 1 - log(ref/π) of samples of π: unbiased for KL(π || ref) and never negative.

  Args:
    logprobs: [...] under π, whose samples they are.
    reference_logprobs: [...] of the same samples under the other policy.
  Source: GRPO, https://arxiv.org/abs/2402.03300, eq. 4.
  """
  k1 = kl_k1(logprobs, reference_logprobs)
  # exp(x) - 1 would round away the x² / 2 that is left where the policies are close.
  return jnp.expm1(jnp.clip(-k1, -MAX_LOG_RATIO, MAX_LOG_RATIO)) + k1


def kl_abs(logprobs: jax.Array, reference_logprobs: jax.Array) -> jax.Array:
  """|log π - log ref| of samples of either: no estimator of a KL, but a distance; its gradient is a sign."""
  return jnp.abs(kl_k1(logprobs, reference_logprobs))


def kl_k1_straight_through(logprobs: jax.Array, reference_logprobs: jax.Array) -> jax.Array:
  """The value of k1 with the gradient of k2: unbiased in both, on samples of π. verl's `k1+`.

  The value is of either sign. The gradient of k1 itself has expectation zero.
  """
  k2 = kl_k2(logprobs, reference_logprobs)
  return k2 + jax.lax.stop_gradient(kl_k1(logprobs, reference_logprobs) - k2)


def kl_straight_through(logprobs: jax.Array, reference_logprobs: jax.Array) -> jax.Array:
  """The value of k3 with the gradient of k2: unbiased in both, on samples of π. verl's `k3+`."""
  k2 = kl_k2(logprobs, reference_logprobs)
  return k2 + jax.lax.stop_gradient(kl_k3(logprobs, reference_logprobs) - k2)


def kl_of_first_turn(logprobs: jax.Array, reference_logprobs: jax.Array, turns: jax.Array) -> jax.Array:
  """k3 at the tokens of the first turn, 0 at those of later ones: what is said first stays what it was.

  Args:
    logprobs: [B, T] under π, whose samples they are.
    reference_logprobs: [B, T] of the same samples under the fixed model.
    turns: [B, T] int32, the turn of each token, from 0.
  Source: SCoRe, https://arxiv.org/abs/2409.12917, stage 1, which pins the first attempt.
  """
  return jnp.where(turns == 0, kl_k3(logprobs, reference_logprobs), 0)


def kl_k3_corrected(logprobs: jax.Array, reference_logprobs: jax.Array, ratios: jax.Array) -> jax.Array:
  """ρ k3, differentiated through both: KL(π || ref), unbiased in value and gradient, from samples of π_old.

  Args:
    logprobs: [...] of the decisions under the trained policy.
    reference_logprobs: [...] under the fixed model.
    ratios: [...] ρ = π / π_old, differentiable, of any level.
  Source: DeepSeek-V3.2, https://arxiv.org/abs/2512.02556; TRL's default (`use_bias_correction_kl`).
  """
  chex.assert_equal_shape([logprobs, reference_logprobs, ratios])
  return ratios * kl_k3(logprobs, reference_logprobs)


def _divergence(logits: jax.Array, other_logits: jax.Array) -> jax.Array:
  chex.assert_equal_shape([logits, other_logits])
  log_p, log_q = (jax.nn.log_softmax(x.astype(jnp.float32)) for x in (logits, other_logits))
  # A token that p never says counts nothing; without the inner `where` it would be 0 * inf in the gradient.
  said = log_p > -jnp.inf
  gap = jnp.where(said, log_p, 0) - jnp.where(said, log_q, 0)
  return jnp.sum(jnp.where(said, jnp.exp(log_p), 0) * gap, axis=-1)


def kl_exact(logits: jax.Array, reference_logits: jax.Array) -> jax.Array:
  """Σ_v π(v) (log π(v) - log ref(v)): KL(π || reference) of whole distributions, what k1 and k3 estimate.

  Args:
    logits: [..., V] of the trained policy; -inf marks a token that it never says.
    reference_logits: [..., V] of the fixed model; infinite where it never says what the policy says.
  Returns:
    [...] float32.
  """
  return _divergence(logits, reference_logits)


def kl_forward(logits: jax.Array, reference_logits: jax.Array) -> jax.Array:
  """Σ_v ref(v) (log ref(v) - log π(v)): KL(reference || π), which makes the policy cover the reference.

  Args:
    logits: [..., V] of the trained policy.
    reference_logits: [..., V] of the fixed model; -inf marks a token that it never says.
  Returns:
    [...] float32.
  """
  return _divergence(reference_logits, logits)


def kl_convex(base_kl: jax.Array, recent_kl: jax.Array, *, base_share: float) -> jax.Array:
  """λ KL(π || π_base) + (1 - λ) KL(π || π_recent): held by where it began and by where it just was.

  Args:
    base_kl: [...] divergence from the first model, by any estimator.
    recent_kl: [...] divergence from the policy at the start of the update, by the same.
    base_share: λ in [0, 1]; falls during training in the paper, from 1 to 0.5.
  Source: ReMix, https://arxiv.org/abs/2507.06892, KL-Convex; read in a summary of the paper.
  """
  chex.assert_equal_shape([base_kl, recent_kl])
  return base_share * base_kl + (1 - base_share) * recent_kl


def kl_reward(kl: jax.Array, mask: jax.Array, *, kl_coef: float | jax.Array) -> jax.Array:
  """-kl_coef KL as a reward after each token, constant, 0 where `mask` is False.

  Args:
    kl: [..., T] by any estimator; k1 is the one whose sum is the sequence's log-ratio.
    mask: [..., T] bool, True where the token counts.
    kl_coef: β.
  Source: Ziegler et al., 2019, https://arxiv.org/abs/1909.08593.
  """
  chex.assert_equal_shape([kl, mask])
  return jnp.where(mask, -kl_coef * jax.lax.stop_gradient(kl), 0)


def init_kl_coef(*, kl_coef: float) -> jax.Array:
  """[] float32: the state of an adaptive coefficient before the first update."""
  return jnp.float32(kl_coef)


def update_kl_coef(kl_coef: jax.Array, kl: jax.Array, *, target: float, rate: float) -> jax.Array:
  """β (1 + K e) with e = clip((KL - target) / target, -0.2, 0.2): β grows where the KL is above its target.

  Args:
    kl_coef: [] β of the last update.
    kl: [] the KL that was observed under it, per sequence or per token as `target` is.
    target: the KL to hold, in nats.
    rate: K (0.1 in the paper; verl and TRL write it as rows of a batch over a horizon of rows).
  Returns:
    [] float32.
  Source: Ziegler et al., 2019, https://arxiv.org/abs/1909.08593.
  """
  error = jnp.clip((jax.lax.stop_gradient(kl) - target) / target, -0.2, 0.2)
  return (kl_coef * (1 + rate * error)).astype(jnp.float32)
