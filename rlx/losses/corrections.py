"""Corrections between the policy that sampled and the one that training starts from: weights and masks.

The two differ where the sampler computes in another precision, with other kernels or with older parameters.
A correction takes the ratio π_prox / π_sampler of some level (`ratios.ratio`, `ratios.sequence_product`,
`ratios.sequence_ratio` for the geometric mean, `ratios.turn_ratio`) and returns constants, to be multiplied
into an element-wise loss or into its weights:

| method | correction of | level |
|---|---|---|
| TIS | `truncated` | token; sequence product |
| MIS | `masked`, `ratio_min=0` | sequence product; token |
| IcePop | `masked`, both bounds | token |
| rejection sampling | `accepted` | sequence product; geometric mean |
| veto | `without_outliers` | every token of a row |
| OPSM | `off_policy_sequences` | |

In TRL: `token_truncate`, `sequence_truncate`, `token_mask`, `sequence_mask` (its default, with product ratios
of at most 3). In verl: `rollout_is` (truncated with one threshold, masked with two) and `rollout_rs`
(accepted; `seq_mean_k1` is the geometric mean, and its bounds are of the inverse ratio).

What is rejected can be counted in a mean or not. `masked` leaves a token in the denominator; a mask that
goes into `reductions` takes it out, which is verl's way.
Source: Yao et al., 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training; Liu and Li
et al., 2025, When Speed Kills Stability; as in the documentation of verl.
"""

import chex
import jax
import jax.numpy as jnp

from rlx.losses.ratios import log_ratio


def none(ratios: jax.Array) -> jax.Array:
  """1 everywhere: sampler and trainer are taken to be the same, and nothing is computed to compare them.

  Args:
    ratios: [...] π_prox / π_sampler, of any level.
  """
  return jnp.ones_like(ratios)


def truncated(ratios: jax.Array, *, ratio_max: float, ratio_min: float = 0.0) -> jax.Array:
  """sg(clip(ρ, C_min, C)): importance weights whose variance is bounded, and which are biased where cut.

  Args:
    ratios: [...] π_prox / π_sampler, of any level.
    ratio_max: C (2 in verl, 3 in TRL).
    ratio_min: C_min; at 0 there is no lower bound. With one, tokens that the trainer finds unlikely keep a
      share in the gradient. (TRL: `vllm_importance_sampling_clip_min`. verl's threshold with two bounds is
      not this: it drops what is outside, which is `masked`.)
  Raises:
    ValueError: the band is empty.
  Source: Yao et al., 2025 (the upper bound); the lower one as in TRL's `token_truncate`.
  """
  _check_band(ratio_min, ratio_max)
  return jax.lax.stop_gradient(jnp.clip(ratios, ratio_min, ratio_max))


def accepted(ratios: jax.Array, *, ratio_min: float, ratio_max: float) -> jax.Array:
  """[...] bool: True where ratio_min ≤ ρ ≤ ratio_max; with a sequence level, whole rows at once.

  Args:
    ratios: [...] π_prox / π_sampler, of any level.
    ratio_min: smallest ratio that is kept.
    ratio_max: largest ratio that is kept. verl's `rollout_rs` of the k1 kind bounds the *inverse* ratio
      π_sampler / π_prox: its [a, b] is ratio_min = 1 / b, ratio_max = 1 / a here; one number b there is
      [1 / b, b], which is the same for both.
  Raises:
    ValueError: the band is empty.
  """
  _check_band(ratio_min, ratio_max)
  return (ratio_min <= ratios) & (ratios <= ratio_max)


def _check_band(ratio_min: float, ratio_max: float) -> None:
  if ratio_min > ratio_max:
    raise ValueError(f'ratio_min={ratio_min}, ratio_max={ratio_max}: the band keeps nothing')


def masked(ratios: jax.Array, *, ratio_min: float, ratio_max: float) -> jax.Array:
  """sg(ρ) inside [ratio_min, ratio_max], 0 outside: an outlier is dropped, where `truncated` keeps it.

  Args:
    ratios: [...] π_prox / π_sampler, of any level.
    ratio_min: α (0.5 in IcePop, 0 in MIS).
    ratio_max: β (5 in IcePop).
  Source: IcePop, in Ring-1T, https://arxiv.org/abs/2510.18855.
  """
  kept = accepted(ratios, ratio_min=ratio_min, ratio_max=ratio_max)
  return jax.lax.stop_gradient(jnp.where(kept, ratios, 0))


def without_outliers(
    ratios: jax.Array, mask: jax.Array, *, ratio_min: float, ratio_max: float
) -> jax.Array:
  """[..., T] bool: True at all tokens of a row none of whose counted tokens is outside the band.

  verl's veto is `ratio_min=1e-4` with no upper bound (`ratio_max=jnp.inf`): one token that the trainer finds
  ten thousand times less likely rejects its sequence.

  Args:
    ratios: [..., T] π_prox / π_sampler of tokens.
    mask: [..., T] bool, True where the token counts.
    ratio_min: smallest ratio that a row may hold.
    ratio_max: largest ratio that a row may hold.
  """
  chex.assert_equal_shape([ratios, mask])
  kept = accepted(ratios, ratio_min=ratio_min, ratio_max=ratio_max) | ~mask
  return jnp.broadcast_to(kept.all(axis=-1, keepdims=True), mask.shape)


def off_policy_sequences(
    logprobs: jax.Array,
    sampler_logprobs: jax.Array,
    advantages: jax.Array,
    mask: jax.Array,
    *,
    kl_max: float,
) -> jax.Array:
  """[..., T] bool: False at tokens with A < 0 in a row with 1/|y| Σ_t log(π_sampler / π) > δ.

  Bad rows that the policy has left already teach little and destabilise; good ones are kept however stale.

  Args:
    logprobs: [..., T] of the decisions under the trained policy.
    sampler_logprobs: [..., T] under the policy that sampled.
    advantages: [..., T] whose sign counts.
    mask: [..., T] bool, True where the token counts.
    kl_max: δ, in nats per token.
  Source: off-policy sequence masking, DeepSeek-V3.2, https://arxiv.org/abs/2512.02556; as in TRL.
  """
  chex.assert_equal_shape([logprobs, sampler_logprobs, advantages, mask])
  gaps = jnp.where(mask, log_ratio(sampler_logprobs, logprobs), 0)
  mean = gaps.sum(axis=-1, keepdims=True) / jnp.maximum(mask.sum(axis=-1, keepdims=True), 1)
  return (advantages >= 0) | (mean <= kl_max)


def self_normalised(weights: jax.Array, mask: jax.Array) -> jax.Array:
  """Weights over their mean over the counted tokens of the batch: less variance for a bias that fades.

  Args:
    weights: [...] constants, from `truncated` or `masked`.
    mask: [...] bool, True where the token counts.
  Returns:
    [...] float32; as they were where their mean is 0.
  Source: verl, `rollout_is_batch_normalize` (its mean of a sequence level is over sequences; here a
    sequence counts once per token: our reading).
  """
  chex.assert_equal_shape([weights, mask])
  mean = jnp.where(mask, weights, 0).sum() / jnp.maximum(mask.sum(), 1)
  return jax.lax.stop_gradient(weights / jnp.where(mean > 0, mean, 1))


def untruncated_ratio(ratios: jax.Array, kept: jax.Array) -> jax.Array:
  """ρ Z: the ratio of the whole distribution to the filtered one that was sampled, q = π_old / Z inside.

  Where the sampler draws by top-p or top-k and training's log-probs are of the unfiltered policy, a token was
  1/Z times as likely as `old_logprobs` say. On policy the ratio is Z < 1, the mass that samples can reach.
  (`Decoding.adjust` filters sampler and scorer alike; there no such correction is due.)

  Args:
    ratios: [...] π / π_old of unfiltered log-probs.
    kept: [...] Z in (0, 1], the mass of the filter under the old policy (`entropy.nucleus_mass`), constant.
  Source: our reading.
  """
  chex.assert_equal_shape([ratios, kept])
  return ratios * jax.lax.stop_gradient(kept)
