"""The entropy mechanism: a few tokens of high covariance eat the entropy, and are clipped or pulled back.

Where log-probability and advantage rise together, a policy grows sure; the share that a token has in that is
its covariance (`covariances`). Clip-Cov takes away the gradient of some tokens where it is high, KL-Cov holds
the highest near the old policy:

| method | tokens | loss |
|---|---|---|
| Clip-Cov | `band` | `policy.clipped`, and 0 where the band is |
| KL-Cov | `top` | `kl_cov` |

Source: Cui et al., 2025, The Entropy Mechanism, https://arxiv.org/abs/2505.22617; as in verl.
"""

import chex
import jax
import jax.numpy as jnp

from rlx.losses.ratios import log_ratio, ratio


def covariances(logprobs: jax.Array, advantages: jax.Array, mask: jax.Array) -> jax.Array:
  """(log π - mean log π) (A - mean A), constants: a token's share of the covariance that eats entropy.

  Args:
    logprobs: [...] of the decisions under the trained policy.
    advantages: [...] of the same.
    mask: [...] bool; both means are over all counted entries of the batch.
  Returns:
    [...] float32, 0 where `mask` is False.
  Source: Cui et al., 2025, The Entropy Mechanism, https://arxiv.org/abs/2505.22617; as in verl.
  """
  chex.assert_equal_shape([logprobs, advantages, mask])

  def centred(x):
    x = jnp.where(mask, x.astype(jnp.float32), 0)
    return jnp.where(mask, x - x.sum() / jnp.maximum(mask.sum(), 1), 0)

  return jax.lax.stop_gradient(centred(logprobs) * centred(advantages))


def top(covariances: jax.Array, mask: jax.Array, *, fraction: float) -> jax.Array:
  """[...] bool: the counted tokens of highest covariance, those that `kl_cov` penalises.

  Args:
    covariances: [...] from `covariances`.
    mask: [...] bool, True where the token counts.
    fraction: of the counted tokens of the batch, rounded down, at least one (2e-4 in verl).
  Source: KL-Cov, https://arxiv.org/abs/2505.22617; as in verl.
  """
  chex.assert_equal_shape([covariances, mask])
  return mask & _among_first(jnp.where(mask, covariances, -jnp.inf), mask, fraction)


def band(
    covariances: jax.Array,
    eligible: jax.Array,
    mask: jax.Array,
    key: jax.Array,
    *,
    fraction: float,
    low: float,
    high: float,
) -> jax.Array:
  """[...] bool: tokens drawn from those with low < covariance < high; Clip-Cov takes their gradient away.

  Its loss is `jnp.where(band, 0, clipped(...))`.

  Args:
    covariances: [...] from `covariances`.
    eligible: [...] bool, tokens that may be drawn; verl leaves out what is clipped already (`is_held`).
    mask: [...] bool, True where the token counts; `fraction` is of these.
    key: of the draw.
    fraction: how many are drawn, rounded down, at least one where there is any (2e-4 in verl).
    low: ω_low (1.0 in verl).
    high: ω_high (5.0 in verl).
  Source: Clip-Cov, https://arxiv.org/abs/2505.22617; as in verl.
  """
  chex.assert_equal_shape([covariances, eligible, mask])
  candidates = mask & eligible & (low < covariances) & (covariances < high)
  priorities = jnp.where(candidates, jax.random.uniform(key, mask.shape), -1)
  return candidates & _among_first(priorities, mask, fraction)


def kl_cov(
    logprobs: jax.Array,
    old_logprobs: jax.Array,
    advantages: jax.Array,
    selected: jax.Array,
    *,
    kl_coef: float,
) -> jax.Array:
  """-ρ A, plus kl_coef |log ρ| for selected tokens: nothing is clipped, a few are pulled back.

  Args:
    logprobs: [...] of the decisions under the trained policy.
    old_logprobs: [...] under the proximal policy, constants.
    advantages: [...] constants.
    selected: [...] bool, from `top`.
    kl_coef: of the penalty (1.0 in verl).
  Source: KL-Cov, https://arxiv.org/abs/2505.22617; as in verl.
  """
  chex.assert_equal_shape([logprobs, old_logprobs, advantages, selected])
  old_logprobs = jax.lax.stop_gradient(old_logprobs)
  penalty = kl_coef * jnp.abs(log_ratio(logprobs, old_logprobs))
  surrogate = -ratio(logprobs, old_logprobs) * jax.lax.stop_gradient(advantages)
  return surrogate + jnp.where(selected, penalty, 0)


def _among_first(priorities: jax.Array, mask: jax.Array, fraction: float) -> jax.Array:
  """[...] bool: the entries of highest priority, `fraction` of the mask many, rounded down, at least one."""
  order = jnp.argsort(-priorities.reshape(-1))
  count = jnp.maximum(jnp.floor(fraction * mask.sum()), 1)
  first = jnp.zeros(order.shape, bool).at[order].set(jnp.arange(order.size) < count)
  return first.reshape(priorities.shape)
