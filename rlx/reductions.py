"""How much a token weighs: the reductions in which papers differ, as weights.

A loss in rlx is a *mean over rows*, `weighted_mean(elementwise, weights)`, and what a token weighs inside
its row is decided once, for the whole batch, before the batch is split. A mean over rows splits into
equal parts without a correction, so the loss and its gradient do not depend on micro-batches, on the
order of minibatches, on padding columns or on the number of devices: no denominator is ever recomputed on a
part. (Rows without a counted token are left out by the means. The two sums count them in B, where they were
scored: a row without a reward is no part of the batch.)

A reduction maps a mask [B, T] to weights [B, T]; `advantage` functions store them as `batch['weights']`. It
may ask for more, by name: the sums for `scored`, which rows there are; `prompt_mean` for `groups`.

| here | verl `loss_agg_mode` | TRL `loss_type` | papers |
|---|---|---|---|
| `token_mean` | token-mean | dapo, cispo, vespo; bnpo of each micro-batch | DAPO |
| `sequence_mean` | seq-mean-token-mean | grpo, sapo | GRPO, GSPO, SAPO, GMPO |
| `sequence_sum` | seq-mean-token-sum | luspo | LUSPO, REINFORCE |
| `constant_length_sum` | seq-mean-token-sum-norm | dr_grpo | Dr. GRPO |
| `prompt_mean` | prompt-mean (AReaL) | | ScaleRL |

Rows without a counted token: TRL counts them in B as zeros; verl leaves them out where it counts B itself,
and counts them in the B that its trainers hand over. verl's seq-mean-token-sum-norm (0.9) is a mean over
sequences, of token sums over its `loss_scale_factor`: L, or the padded length where none is given.

A loss of a sequence, repeated at each of its tokens (`ratios.sequence_ratio`), weighs 1 under `sequence_mean`
(GSPO) and its length under `sequence_sum` (LUSPO: GSPO's gradient without the 1/|y| that favours short rows).
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from rlx.names import fill


def weighted_mean(x: jax.Array, weights: jax.Array) -> jax.Array:
  """The mean over rows of the weighted sum over tokens: (1/B) Σ_b Σ_t w[b, t] x[b, t].

  Entries of weight zero are left out even where `x` is infinite or NaN, in value and in gradient.

  Args:
    x: [B, T] element-wise losses or statistics.
    weights: [B, T] from one of the reductions below.
  """
  chex.assert_rank([x, weights], 2)
  chex.assert_equal_shape([x, weights])
  x = jnp.where(weights != 0, x, 0).astype(jnp.float32)
  return jnp.mean(jnp.sum(x * weights, axis=-1))


def token_mean(mask: jax.Array) -> jax.Array:
  """Every token of the batch weighs the same: (1/Σ|y|) Σ_b Σ_t.

  Long responses weigh more than short ones. Source: DAPO, https://arxiv.org/abs/2503.14476, eq. 8.

  Args:
    mask: [B, T] bool, True where the token counts.
  Returns:
    [B, T] float32 weights whose mean over rows of row sums is 1 (0 for an empty mask).

  >>> token_mean(jnp.array([[True, True, True], [True, False, False]])).tolist()
  [[0.5, 0.5, 0.5], [0.5, 0.0, 0.0]]
  """
  chex.assert_rank(mask, 2)
  mask = mask.astype(jnp.float32)
  return mask * mask.shape[0] / jnp.maximum(mask.sum(), 1)


def sequence_mean(mask: jax.Array) -> jax.Array:
  """Every sequence weighs the same, its tokens share its weight: (1/B) Σ_b (1/|y_b|) Σ_t.

  Rows without a single counted token are left out of B. Source: GRPO,
  https://arxiv.org/abs/2402.03300, eq. 3.

  Args:
    mask: [B, T] bool, True where the token counts.
  Returns:
    [B, T] float32 weights whose mean over rows of row sums is 1 (0 for an empty mask).
  """
  chex.assert_rank(mask, 2)
  mask = mask.astype(jnp.float32)
  lengths = mask.sum(axis=-1, keepdims=True)
  num_sequences = jnp.maximum((lengths > 0).sum(), 1)
  return mask / jnp.maximum(lengths, 1) * mask.shape[0] / num_sequences


def sequence_sum(mask: jax.Array, scored: jax.Array | None = None) -> jax.Array:
  """The tokens of a sequence are summed, sequences averaged: (1/B) Σ_b Σ_t; the sequence is one action.

  Args:
    mask: [B, T] bool, True where the token counts.
    scored: [B] bool, True for the rows that B counts, with a token or without; all if not given.
  Returns:
    [B, T] float32 weights: one number for all tokens that count, 1 where all rows were scored.
  """
  chex.assert_rank(mask, 2)
  if scored is None:
    return mask.astype(jnp.float32)
  counts = (mask & scored[:, None]).astype(jnp.float32)
  return counts * mask.shape[0] / jnp.maximum(scored.sum(), 1)


def constant_length_sum(mask: jax.Array, scored: jax.Array | None = None, *, length: int) -> jax.Array:
  """Tokens weigh 1/length whatever the row holds: (1/B) Σ_b (1/L) Σ_t, free of length bias.

  Source: Dr. GRPO, https://arxiv.org/abs/2503.20783, appendix (masked sum over a constant).

  Args:
    mask: [B, T] bool, True where the token counts.
    scored: as for `sequence_sum`.
    length: the constant L in tokens, usually the generation budget.
  Returns:
    [B, T] float32 weights.
  """
  return sequence_sum(mask, scored) / length


def prompt_mean(mask: jax.Array, groups: jax.Array) -> jax.Array:
  """Every prompt weighs the same, all tokens of its samples share its weight: (1/P) Σ_p (1/Σ|y|) Σ_i Σ_t.

  Prompts without a single counted token are left out of P. Between `token_mean`, in which a prompt with long
  answers weighs more, and `sequence_mean`, in which a token of a long answer weighs less.

  Args:
    mask: [B, T] bool, True where the token counts.
    groups: [B] int32 ids in 0..B-1: which rows share a prompt.
  Returns:
    [B, T] float32 weights whose mean over rows of row sums is 1 (0 for an empty mask).
  Source: ScaleRL, https://arxiv.org/abs/2510.13786, loss aggregation by prompt average; the shares inside a
    prompt are our reading.
  """
  chex.assert_rank([mask, groups], [2, 1])
  mask = mask.astype(jnp.float32)
  sizes = jax.ops.segment_sum(mask.sum(axis=-1), groups, num_segments=mask.shape[0])
  num_prompts = jnp.maximum((sizes > 0).sum(), 1)
  return mask / jnp.maximum(sizes, 1)[groups][:, None] * mask.shape[0] / num_prompts


def without_truncated(
    mask: jax.Array, truncated: jax.Array, scored: jax.Array | None = None, *, reduction: Callable
) -> jax.Array:
  """Another reduction, over the rows that ended by themselves: overlong filtering.

  A row that the limit cut is neither right nor wrong: it stays in its group's baseline, and is not learnt
  from.

  Args:
    mask: [B, T] bool, True where the token counts.
    truncated: [B] bool, True where the limit ended the row.
    scored: as for `sequence_sum`.
    reduction: of `mask`, and of `scored` if it asks for it.
  Returns:
    [B, T] float32 weights.
  Source: DAPO, https://arxiv.org/abs/2503.14476, section 3.4.
  """
  chex.assert_rank([mask, truncated], [2, 1])
  return fill(reduction, {'mask': mask & ~truncated[:, None], 'scored': scored})
