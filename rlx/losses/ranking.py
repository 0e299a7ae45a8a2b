"""What lists of answers and single labelled ones cost, of the log-ratios that pairs have (`preference.py`).

`plackett_luce` and `rrhf` take [N, A] scores, the best answer first; `kto` takes one answer and whether it is
good. With A = 2 Plackett-Luce is Bradley-Terry, and DPO where the scores are log-ratios. `longest_agreed`
says which part of a list somebody else has in the same order.
"""

import functools

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


@functools.partial(jax.jit, inline=True)
def longest_agreed(scores: jax.Array) -> jax.Array:
  """[N, A] bool, the answers of the longest part of each list whose order the scores have as well.

  The longest common subsequence of the two orders; of several that are as long, one.

  Args:
    scores: [N, A] of somebody else, such as the policy's log-probs, in the order of the list.
  Source: CycleAlign, https://arxiv.org/abs/2310.16271, whose agreement ranking it is.
  """
  chex.assert_rank(scores, 2)
  num_answers = scores.shape[1]
  lengths, before = [], []
  for i in range(num_answers):
    longer = jnp.stack([jnp.zeros(len(scores)), *(
        jnp.where(scores[:, j] > scores[:, i], lengths[j], 0) for j in range(i)
    )], axis=1)
    lengths.append(1 + longer.max(axis=1))
    before.append(jnp.argmax(longer, axis=1) - 1)  # -1: it begins here
  before, last = jnp.stack(before, axis=1), jnp.argmax(jnp.stack(lengths, axis=1), axis=1)
  kept = jnp.zeros(scores.shape, bool)
  for _ in range(num_answers):
    kept |= jax.nn.one_hot(last, num_answers, dtype=bool)  # nothing of -1
    earlier = jnp.take_along_axis(before, jnp.maximum(last, 0)[:, None], axis=1)[:, 0]
    last = jnp.where(last < 0, -1, earlier)
  return kept


def whole(scores: jax.Array) -> jax.Array:
  """[N, A] bool, all answers of each list: whatever somebody else says [N, A], the list is believed."""
  return jnp.ones(scores.shape, bool)


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
