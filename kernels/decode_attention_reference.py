"""What `decode_attention` computes, said plainly: all scores at once, over everything that a row could see.

A query sees one run of columns in the cache, and one in the prefix where there is one. `stretches` turns
positions, windows and prefixes into those runs; every implementation begins with them.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

_MASKED = -1e30  # finite, so that a row with nothing to attend to is not NaN


CACHE_BLOCK = 64  # columns of a cache of which kernels want a multiple


class Prefix(NamedTuple):
  """Keys and values that stand before the cache of several rows, e.g. those of a prompt with many samples."""

  keys: jax.Array  # [P, columns, kv heads, H]; column c stands at position c
  values: jax.Array  # like the keys
  lengths: jax.Array  # [P] int32, columns in use; the cache of its rows goes on from there
  rows: jax.Array  # [S] int32, which of the P each row has


class Stretch(NamedTuple):
  """Keys and values of which query n of row s sees the columns first[s, n] <= c < last[s, n]."""

  keys: jax.Array  # [R, columns, kv heads, H]
  values: jax.Array  # like the keys
  rows: jax.Array | None  # [S] int32, which of the R each row has; None: row s has row s
  first: jax.Array  # [S, N] int32
  last: jax.Array  # [S, N] int32

  def seen(self, columns: jax.Array) -> jax.Array:
    """[S, N, c] bool: which of the `columns` [c] the queries see."""
    columns = columns[None, None]
    return (columns >= self.first[..., None]) & (columns < self.last[..., None])

  def seen_by_any(self, columns: jax.Array) -> jax.Array:
    """[S, c] bool: the columns [c] that are not dead."""
    return jnp.any(self.seen(columns), axis=1)


def stretches(
    keys: jax.Array, values: jax.Array, positions: jax.Array, window: int | jax.Array, prefix: Prefix | None
) -> list[Stretch]:
  """The runs of columns that queries at `positions` [S, N] see, the cache's and the prefix's."""

  def stretch(keys, values, rows, start, length):
    # Column c stands at position start + c.
    last = jnp.clip(positions + 1 - start, 0, length)
    first = jnp.clip(positions + 1 - window - start, 0, last)
    return Stretch(keys, values, rows, first.astype(jnp.int32), last.astype(jnp.int32))

  if prefix is None:
    return [stretch(keys, values, None, 0, keys.shape[1])]
  lengths = jnp.minimum(prefix.lengths, prefix.keys.shape[1])[prefix.rows][:, None]
  return [
      stretch(prefix.keys, prefix.values, prefix.rows, 0, lengths),
      stretch(keys, values, None, lengths, keys.shape[1]),
  ]


def softcapped(scores: jax.Array, cap: float) -> jax.Array:
  """cap * tanh(scores / cap), or the scores where `cap` is 0."""
  return cap * jnp.tanh(scores / cap) if cap else scores


def grouped_heads(query: jax.Array, kv_heads: int) -> jax.Array:
  """[..., K, H] as [..., Kv, K / Kv, H]: the heads that share keys and values, side by side."""
  *rows, num_heads, size = query.shape
  return query.reshape(*rows, kv_heads, num_heads // kv_heads, size)


def attend_reference(
    query: jax.Array, parts: list[Stretch], *, softcap: float
) -> tuple[jax.Array, jax.Array]:
  """Attention of scaled queries [S, N, K, H] to stretches, and its log-sum-exp [S, N, K]; see `attend`."""
  grouped = grouped_heads(query, parts[0].keys.shape[2])
  keys, values, seen = zip(*map(_spread, parts), strict=True)
  keys, values, seen = (jnp.concatenate(x, axis) for x, axis in ((keys, 1), (values, 1), (seen, 2)))
  # Zero times a stale NaN is NaN, so that a weight of zero does not hide the value of a dead column.
  values = jnp.where(jnp.any(seen, axis=1)[:, :, None, None], values, 0)
  scores = jnp.einsum('snkjh,sckh->skjnc', grouped, keys, preferred_element_type=jnp.float32)
  mask = jnp.broadcast_to(seen[:, None, None], scores.shape)
  scores = jnp.where(mask, softcapped(scores, softcap), _MASKED)
  lse = jax.nn.logsumexp(scores, axis=-1, where=mask)
  weights = jnp.where(mask, jax.nn.softmax(scores, axis=-1), 0).astype(query.dtype)
  out = jnp.einsum('skjnc,sckh->snkjh', weights, values)
  return out.reshape(query.shape), jnp.moveaxis(lse, 3, 1).reshape(query.shape[:3])


def _spread(part: Stretch):
  """A stretch with one row of keys and values for every row of queries."""
  columns = jnp.arange(part.keys.shape[1])
  chex.assert_equal_shape([part.keys, part.values])
  own = (lambda x: x) if part.rows is None else (lambda x: x[part.rows])
  return own(part.keys), own(part.values), part.seen(columns)


def merge(outs: jax.Array, lses: jax.Array, *, axis: int) -> tuple[jax.Array, jax.Array]:
  """Attention to a whole from attention to its disjoint parts.

  Args:
    outs: float32, what was attended to in each part; has one axis more, the last, than
    lses: float32, the log-sum-exp of each part; -inf where nothing was seen, where `outs` must be finite.
    axis: of the parts.
  Returns:
    Both without that axis; zero and -inf where no part saw anything.
  """
  top = jnp.max(lses, axis=axis, keepdims=True)
  weights = jnp.exp(lses - jnp.where(top > -jnp.inf, top, 0))
  total = jnp.sum(weights, axis=axis)
  out = jnp.sum(jnp.broadcast_to(weights[..., None], outs.shape) * outs, axis=axis)
  some = total > 0
  divisor = jnp.where(some, total, 1)
  lse = jnp.where(some, jnp.squeeze(top, axis) + jnp.log(divisor), -jnp.inf)
  return out / jnp.broadcast_to(divisor[..., None], out.shape), lse
