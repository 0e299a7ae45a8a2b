"""What lists of answers and single labelled ones cost, of the log-ratios that pairs have (`preference.py`).

`plackett_luce` and `rrhf` take [N, A] scores, the best answer first; `kto` takes one answer and whether it is
good. With A = 2 Plackett-Luce is Bradley-Terry, and DPO where the scores are log-ratios.
"""

import chex
import jax
import jax.numpy as jnp

from rlx.errors import above, at_least


def plackett_luce(scores: jax.Array, *, beta: float) -> jax.Array:
  """-Σ_k log [ exp β s_k / Σ_{j >= k} exp β s_j ]: the order of a list, chosen from the best on.

  Args:
    scores: [N, A] log-ratios, from the best answer to the worst.
    beta: β, above 0.
  Returns:
    [N] float32.
  Source: Plackett, 1975; of log-ratios: Rafailov et al., 2023, https://arxiv.org/abs/2305.18290, eq. 20.
  """
  chex.assert_rank(scores, 2)
  above(0, beta=beta)
  scores = beta * scores
  behind = jax.lax.cumlogsumexp(scores, axis=1, reverse=True)
  return jnp.sum(behind - scores, axis=1)


def rrhf(scores: jax.Array) -> jax.Array:
  """Σ_{i better than j} max(0, s_j - s_i), of log-probs averaged over tokens; its other term is `nll`.

  Args:
    scores: [N, A] log π(y) / |y|, from the best answer to the worst.
  Returns:
    [N] float32.
  Source: Yuan et al., 2023, https://arxiv.org/abs/2304.05302, eq. 2.
  """
  chex.assert_rank(scores, 2)
  ahead = jax.nn.relu(scores[:, None, :] - scores[:, :, None])
  better = jnp.triu(jnp.ones(ahead.shape[1:], bool), 1)
  return jnp.sum(jnp.where(better[None], ahead, 0), axis=(1, 2))


def kto(
    ratios: jax.Array, preferred: jax.Array, kl: jax.Array, *, beta: float, desirable: float,
    undesirable: float,
) -> jax.Array:
  """λ_D (1 - σ(β (h - z))) of good answers, λ_U (1 - σ(β (z - h))) of bad ones.

  Args:
    ratios: [B] h, log-ratios of answers.
    preferred: [B] bool, True for the good ones.
    kl: [B] z, a constant: KL(π || ref), at least 0.
    beta: β, above 0.
    desirable: λ_D, at least 0.
    undesirable: λ_U; λ_D n_D / (λ_U n_U) is to be in [1, 4/3], by the paper.
  Returns:
    [B] float32; λ / 2 at the reference.
  Source: Ethayarajh et al., 2024, https://arxiv.org/abs/2402.01306, eq. 8.
  """
  chex.assert_equal_shape([ratios, preferred, kl])
  above(0, beta=beta)
  at_least(0, desirable=desirable, undesirable=undesirable)
  gain = beta * (ratios - jax.lax.stop_gradient(kl))
  good, bad = desirable * jax.nn.sigmoid(-gain), undesirable * jax.nn.sigmoid(gain)
  return jnp.where(preferred, good, bad)
