"""Credit assignment as one form: a sum of terms, each a comparison of segments, broadcast to their tokens.

    A_t = Σ_terms  w · post( (G[segment of t] - b[key of the segment]) / scale )

A *segment* is a set of tokens that share one return: a token, a turn, a step, a node of a tree, a whole row.
A *key* is what it is compared with: the segments of the same prompt, of the same turn of the same prompt, of
the same state, of the same agent. Papers differ in the two and in the return; the baseline is mostly the mean
of the segments with the key (`key_mean`), that of the others (`key_mean_of_others`), or what a critic or a
running mean says. For example

    GRPO    sequences, key: prompt, baseline: mean, scale: deviation
    GiGPO   the same, + w · (turns, key: state, return: discounted to go)
    TEMPO   the same, + (nodes, return: value, baseline: value of the node before)

Segments are ids [B, T] as `ids` makes them: the place (row · T + column) of the segment's first token, -1
outside. Whatever belongs to a segment is held at each of its tokens, so that terms are added as they are.
Statistics over a key count each segment once, however many tokens it has. As in `groups.py`, segments with
nothing to be compared with, or with nothing that differs, have their own return as baseline: exactly 0. A
return of NaN is that of a row that was not scored: it is in no baseline and no scale, and its term is 0.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from rlx.advantages import groups, temporal


def ids(mask: jax.Array, *columns: jax.Array) -> jax.Array:
  """Tokens that are equal in every column share a segment.

  Args:
    mask: [B, T] bool, True where the token counts.
    columns: integers that broadcast against [B, T], any numbers: turns, states, nodes, rows, prompts, ...
  Returns:
    [B, T] int32 segments; -1 where `mask` is False.
  """
  chex.assert_rank(mask, 2)
  # Tokens outside are a segment of their own, so that the first of a segment is always inside.
  columns = [_full(x, mask.shape) for x in (mask.astype(jnp.int32), *columns)]
  return jnp.where(mask, groups.join(*columns).reshape(mask.shape), -1)


def sequences(mask: jax.Array) -> jax.Array:
  """[B, T] int32: one segment a row."""
  return ids(mask, _rows(mask))


def steps(numbers: jax.Array, mask: jax.Array) -> jax.Array:
  """[B, T] int32: one segment for each number in each row, such as `batch['turns']`."""
  return ids(mask, _rows(mask), numbers)


def tokens(mask: jax.Array) -> jax.Array:
  """[B, T] int32: each token is a segment."""
  return jnp.where(mask, jnp.arange(mask.size, dtype=jnp.int32).reshape(mask.shape), -1)


def nodes(numbers: jax.Array) -> jax.Array:
  """[B, T] int32: rows that share a node of a tree in a column (see `tree.py`) share a segment there."""
  return ids(numbers >= 0, jnp.arange(numbers.shape[1])[None], numbers)


def firsts(segments: jax.Array) -> jax.Array:
  """[B, T] bool: True at one token of each segment, its first."""
  return segments == jnp.arange(segments.size).reshape(segments.shape)


def segment_sum(x: jax.Array, segments: jax.Array) -> jax.Array:
  """[B, T] float32: at each token, the sum of `x` [B, T] over the tokens of its segment; 0 outside."""
  chex.assert_equal_shape([x, segments])
  x = jnp.where(segments >= 0, x, 0).astype(jnp.float32)
  totals = jax.ops.segment_sum(x.reshape(-1), segments.reshape(-1), num_segments=x.size)
  return jnp.where(segments >= 0, totals[segments], 0)


def segment_mean(x: jax.Array, segments: jax.Array) -> jax.Array:
  """[B, T] float32: at each token, the mean of `x` [B, T] over the tokens of its segment; 0 outside."""
  return segment_sum(x, segments) / jnp.maximum(segment_sum(jnp.ones_like(segments), segments), 1)


def broadcast(x: jax.Array, segments: jax.Array) -> jax.Array:
  """[B, T]: at each token, what `x` is at the first token of its segment; 0 outside.

  Args:
    x: broadcasts against [B, T]: a number, [B, 1] for what is known of rows, or [B, T].
    segments: [B, T] of `ids`.
  """
  return jnp.where(segments >= 0, _full(x, segments.shape)[segments], 0)


def returns_to_go(rewards: jax.Array, segments: jax.Array, *, discount: float) -> jax.Array:
  """Each segment's rewards and, discounted per *segment*, those of the later ones of its row.

  Args:
    rewards: [B, T] reward after each token; looked at only inside segments.
    segments: [B, T] of `steps` or `tokens`: inside one row, one after the other.
    discount: γ from one segment to the next.
  Returns:
    [B, T] float32, the same in all tokens of a segment; 0 outside.
  Source: GiGPO, https://arxiv.org/abs/2505.10978 (the discounted return of a step): our reading.
  """
  begins = firsts(segments)
  totals = jnp.where(begins, segment_sum(rewards, segments), 0)
  return broadcast(temporal.returns(totals, jnp.where(begins, discount, 1.0)), segments)


def key_mean(returns: jax.Array, segments: jax.Array, keys: jax.Array) -> jax.Array:
  """The mean return of the segments with the same key, as a baseline.

  Args:
    returns: broadcasts against [B, T]; read at the first token of each segment.
    segments: [B, T] of `ids`.
    keys: integers that broadcast against [B, T], read likewise; any numbers. Several columns: `groups.join`.
  Returns:
    [B, T] float32: the mean; where no two returns with the key differ, the segment's own return.
  """
  flat, returns, key = _flatten(returns, segments, keys)
  baseline = returns - groups.centred(returns, key)
  return flat(baseline)


def key_mean_of_others(returns: jax.Array, segments: jax.Array, keys: jax.Array) -> jax.Array:
  """`key_mean` without the segment itself; its own return where it is the only one."""
  flat, returns, key = _flatten(returns, segments, keys)
  baseline = returns - groups.leave_one_out(returns, key)
  return flat(baseline)


def key_deviation(returns: jax.Array, segments: jax.Array, keys: jax.Array) -> jax.Array:
  """[B, T] float32: the unbiased deviation of the returns of the segments with the same key; 0 for one alone.

  The arguments are those of `key_mean`. A whole batch is `keys=0`.
  """
  flat, returns, key = _flatten(returns, segments, keys)
  return flat(groups.deviation(returns, key))


def term(
    returns: jax.Array,
    segments: jax.Array,
    *,
    baseline: jax.Array | float,
    scale: jax.Array | float = 1.0,
    post: Callable[[jax.Array], jax.Array] = lambda x: x,
    weight: jax.Array | float = 1.0,
) -> jax.Array:
  """One term of an advantage: w · post((G - b) / scale).

  Args:
    returns: broadcasts against [B, T]; read at the first token of each segment, as are the arrays below.
    segments: [B, T] of `ids`.
    baseline: what the segment is compared with; 0 for returns that are differences already.
    scale: what it is divided by, e.g. `key_deviation(..) + 1e-6`.
    post: what is done to the result, element by element: a clip, a positive part, ...
    weight: how much the term counts, e.g. of rows (`sample_weight`) or of this term among others.
  Returns:
    [B, T] float32, the same in all tokens of a segment; 0 outside.
  Source: the form is ours; the papers written in it are in the tests.
  """
  at = lambda x: broadcast(jnp.asarray(x, jnp.float32), segments)
  counts = (segments >= 0) & ~jnp.isnan(at(returns))
  scale = jnp.where(counts, at(scale), 1)
  return jnp.where(counts, at(weight) * post((at(returns) - at(baseline)) / scale), 0)


def _rows(mask):
  return jnp.arange(mask.shape[0])[:, None]


def _full(x, shape):
  """[B * T]. Of one axis it could be rows or columns: that is an error."""
  chex.assert_rank(x, {0, 2})
  return jnp.broadcast_to(x, shape).reshape(-1)


def _flatten(returns, segments, keys):
  """Segments as the rows of `groups.py`: their returns and keys [N], and the way back to tokens.

  There is a row for each token, of which only the first of a segment is one. The others, all 0, are a group
  of their own, whose id is that of one more row.
  """
  num, begins = segments.size, firsts(segments).reshape(-1)
  returns = jnp.append(jnp.where(begins, _full(returns, segments.shape), 0), 0).astype(jnp.float32)
  key = groups.join(begins.astype(jnp.int32), _full(keys, segments.shape))
  key = jnp.append(jnp.where(begins, key, num), num)
  return lambda x: broadcast(x[:-1].reshape(segments.shape), segments), returns, key
