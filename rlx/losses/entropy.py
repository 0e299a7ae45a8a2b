"""Entropy control: which tokens learn, how strongly the policy is kept uncertain, and who decides that.

Four places to act, which do not exclude each other: a term of the loss (`bonus`, `band_penalty`), a mask of
tokens (`top_share`, `without_uncertain_negatives`, `negatives_kept`), the advantage (`shaped_advantages`),
the distribution itself (`nucleus`). Controllers (`update_entropy_coef`, `update_window`, `update_masking`)
are pure functions of their state and of the batch's mean entropy; the state lives in `world`.

Entropies are per token, in nats, differentiable; masks and shaped advantages are constants.
"""

import chex
import jax
import jax.numpy as jnp

from rlx.kernels.sampler import top_p_threshold


def bonus(entropy: jax.Array, *, entropy_coef: float | jax.Array) -> jax.Array:
  """-entropy_coef H, to be added to a loss: uncertainty is rewarded.

  Args:
    entropy: [...] of the trained policy's distributions.
    entropy_coef: a number, or the output of `update_entropy_coef`.
  Source: Williams and Peng, 1991; A3C, https://arxiv.org/abs/1602.01783.
  """
  return -entropy_coef * entropy.astype(jnp.float32)


def top_share(entropy: jax.Array, mask: jax.Array, *, share: float) -> jax.Array:
  """[...] bool: the share of counted tokens, over the whole batch, with the highest entropy; the rest rests.

  Ties at the edge are all kept. TRL's `top_entropy_quantile` is the same, with an interpolated edge.

  Args:
    entropy: [...] of the tokens' distributions.
    mask: [...] bool, True where the token counts.
    share: in (0, 1]; rounded up to a whole number of tokens (0.2 in the paper).
  Source: Beyond the 80/20 Rule, https://arxiv.org/abs/2506.01939.
  """
  chex.assert_equal_shape([entropy, mask])
  entropy = jnp.where(mask, jax.lax.stop_gradient(entropy).astype(jnp.float32), -jnp.inf)
  count = jnp.ceil(share * mask.sum()).astype(jnp.int32)
  edge = -jnp.sort(-entropy.reshape(-1))[jnp.maximum(count - 1, 0)]
  return mask & (entropy >= edge)


def without_uncertain_negatives(
    entropy: jax.Array, advantages: jax.Array, *, entropy_max: float
) -> jax.Array:
  """[...] bool: False where A < 0 and H > τ: a wrong row's exploratory tokens are not punished.

  With the mean entropy of a row at each of its tokens it drops whole responses: the paper's other variant.

  Args:
    entropy: [...] of tokens, or of rows.
    advantages: [...] whose sign counts.
    entropy_max: τ, in nats.
  Source: QwenLong-L1.5, https://arxiv.org/abs/2512.12967, eq. 9.
  """
  chex.assert_equal_shape([entropy, advantages])
  return (advantages >= 0) | (entropy <= entropy_max)


def init_masking() -> jax.Array:
  """[] bool: the state of AEPO before the first batch, in which negative rows learn."""
  return jnp.zeros((), bool)


def update_masking(
    masking: jax.Array, entropy: jax.Array, *, entropy_low: float, entropy_high: float
) -> jax.Array:
  """True from the batch whose mean entropy exceeds the upper bound until one is below the lower.

  Args:
    masking: [] bool, of the last batch.
    entropy: [] mean of the batch, each row's mean weighing the same.
    entropy_low: below it, negative rows learn again.
    entropy_high: above it, only positive rows learn.
  Returns:
    [] bool, for `negatives_kept`.
  Source: AEPO, QwenLong-L1.5, https://arxiv.org/abs/2512.12967, section 4.4.
  """
  return jnp.where(masking, entropy >= entropy_low, entropy > entropy_high)


def negatives_kept(advantages: jax.Array, masking: jax.Array) -> jax.Array:
  """[...] bool: everything, or while `masking` only what has A ≥ 0.

  Args:
    advantages: [...] whose sign counts.
    masking: [] bool, from `update_masking`.
  Source: AEPO, QwenLong-L1.5, https://arxiv.org/abs/2512.12967, section 4.4.
  """
  return (advantages >= 0) | ~masking


def shaped_advantages(
    advantages: jax.Array, entropy: jax.Array, *, scale: float, kappa: float
) -> jax.Array:
  """A + min(α sg(H), |A| / κ): more for uncertain tokens, never enough to turn a sign.

  Args:
    advantages: [...] per token.
    entropy: [...] of the tokens' distributions, taken as constants.
    scale: α (0.4 in the paper).
    kappa: κ above 1 (2 in the paper).
  Raises:
    ValueError: `kappa` is not above 1.
  Source: Reasoning with Exploration, https://arxiv.org/abs/2506.14758; without a group, MSSR,
    https://arxiv.org/abs/2512.18215.
  """
  if kappa <= 1:
    raise ValueError(f'kappa={kappa}: must be above 1, or a negative advantage can become positive')
  chex.assert_equal_shape([advantages, entropy])
  advantages = advantages.astype(jnp.float32)
  term = jnp.minimum(scale * entropy, jnp.abs(advantages) / kappa)
  return jax.lax.stop_gradient(advantages + term)


def init_entropy_coef(*, entropy_coef: float) -> jax.Array:
  """[] float32: the state of a coefficient that follows a target."""
  return jnp.float32(entropy_coef)


def update_entropy_coef(
    entropy_coef: jax.Array, entropy: jax.Array, *, target: float, step: float, coef_max: float
) -> tuple[jax.Array, jax.Array]:
  """A step up where entropy is below its target, a step down elsewhere; it acts only below the target.

      c ← clip(c ± Δ, 0, c_max),    α = c 1[H ≤ H_target]

  Args:
    entropy_coef: [] c of the last batch.
    entropy: [] mean of the batch.
    target: H_target, in nats (0.2 in the paper).
    step: Δ.
    coef_max: bound of c (0.005 in the authors' scripts).
  Returns:
    ([] the new c, [] α, the coefficient of this batch's bonus).
  Source: Skywork-OR1, https://arxiv.org/abs/2505.22312, section 3.2.5.
  """
  below = jax.lax.stop_gradient(entropy) <= target
  entropy_coef = jnp.clip(entropy_coef + jnp.where(below, step, -step), 0, coef_max).astype(jnp.float32)
  return entropy_coef, jnp.where(below, entropy_coef, 0)


def init_window(*, size: int) -> jax.Array:
  """[size] float32 NaN: the mean entropies of the last batches, none yet."""
  return jnp.full(size, jnp.nan, jnp.float32)


def update_window(window: jax.Array, entropy: jax.Array) -> jax.Array:
  """[size] the window without its oldest batch and with this one's mean entropy."""
  return jnp.roll(window, -1).at[-1].set(jax.lax.stop_gradient(entropy))


def _outside(entropy, window, ratio_low, ratio_high):
  """How far below and above the band: non-negative, 0 while the window is empty."""
  known = ~jnp.isnan(window)
  centre = jnp.where(known, window, 0).sum() / jnp.maximum(known.sum(), 1)
  entropy = entropy.astype(jnp.float32)
  below = jnp.maximum(ratio_low * centre - entropy, 0)
  above = jnp.maximum(entropy - ratio_high * centre, 0)
  return jnp.where(known.any(), below, 0), jnp.where(known.any(), above, 0)


def is_outside_band(
    entropy: jax.Array, window: jax.Array, *, ratio_low: float, ratio_high: float
) -> jax.Array:
  """[...] bool: entropy outside [κ_l H̄, κ_r H̄] with H̄ the mean of the window.

  EPO charges a constant for each such token, which shifts the loss and has no gradient.

  Args:
    entropy: [...] of the tokens' distributions.
    window: [size] from `update_window`.
    ratio_low: κ_l (0 or 0.8 in the authors' scripts).
    ratio_high: κ_r (2 in the authors' scripts).
  Source: EPO, https://arxiv.org/abs/2509.22576; as in the authors' code.
  """
  below, above = _outside(entropy, window, ratio_low, ratio_high)
  return below + above > 0


def band_penalty(
    entropy: jax.Array, window: jax.Array, *, ratio_low: float, ratio_high: float
) -> jax.Array:
  """max(κ_l H̄ - H, 0) + max(H - κ_r H̄, 0): zero inside the band, and a gradient that leads back into it.

  Args:
    entropy: [...] of the tokens' distributions, differentiable.
    window: [size] from `update_window`, constants; while it is empty there is no penalty.
    ratio_low: κ_l.
    ratio_high: κ_r.
  Source: after EPO, https://arxiv.org/abs/2509.22576, whose penalty is a constant outside the band
    (`is_outside_band`); the distance, which can be learned from, is our reading.
  """
  below, above = _outside(entropy, window, ratio_low, ratio_high)
  return below + above


def nucleus(logits: jax.Array, *, top_p: float) -> jax.Array:
  """[..., V] bool: the likeliest tokens that together reach top_p, of a lagging policy.

  NLPO gives the policy only these: `jnp.where(nucleus(slow_logits, top_p=p), logits, -jnp.inf)`, for the
  sampler and the scorer alike. What is masked gets neither probability nor gradient.

  Args:
    logits: [..., V] of the policy that decides what may be said.
    top_p: in (0, 1] (0.9 in the paper).
  Source: NLPO, https://arxiv.org/abs/2210.01241.
  """
  logits = logits.astype(jnp.float32)
  return logits >= top_p_threshold(logits, top_p)[..., None]


def nucleus_mass(logits: jax.Array, *, top_p: float) -> jax.Array:
  """[...] float32: how much probability `nucleus` keeps, between top_p and 1; constant.

  Args:
    logits: [..., V] of the policy that was sampled by top-p.
    top_p: in (0, 1].
  """
  probabilities = jax.nn.softmax(jax.lax.stop_gradient(logits).astype(jnp.float32))
  return jnp.where(nucleus(logits, top_p=top_p), probabilities, 0).sum(axis=-1)
