"""Attention of the newest tokens of every row to that row's past, of which only the live part is read.

A cache has room for the longest row that may come, and most of the time most of it is empty or stale. The
dense formula, `decode_attention_reference.py`, reads all of it. Here, `blockwise` reads as far as the longest
live row of the batch, and `mosaic` as far as each row goes.

`attend` also hands back the log-sum-exp of the scores, by which attention to the parts of a past is merged
into attention to the whole (`merge`). There is no gradient: decoding needs none, and packed rows have
`packed_attention`.
"""

import functools

import chex
import jax
from jax import custom_batching
import jax.numpy as jnp

from rlx.kernels import loops, switch
from rlx.kernels.decode_attention_reference import (
    Prefix,
    Stretch,
    attend_reference,
    grouped_heads,
    merge,
    softcapped,
    stretches,
)
from rlx.kernels.mesh_blocks import over_rows_and_heads

BLOCK = 256  # columns that are read at one time
_MASKED = -1e30


def decode_attention(
    query: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    positions: jax.Array,
    *,
    scale: float,
    softcap: float,
    window: int | jax.Array,
    implementation: str,
    prefix: Prefix | None = None,
) -> jax.Array:
  """Softmax attention of query n of row s to the cache columns c with 0 <= positions[s, n] - c < window.

  What stands in columns that no query of a row sees does not matter, be it NaN; 'cudnn' and 'tokamax' may
  want it finite.

  Args:
    query: [S, N, K, H], the newest tokens of each row.
    keys: [S, C, Kv, H] in the dtype of the queries; Kv divides K, and consecutive heads share.
    values: [S, C, Kv, H], likewise.
    positions: [S, N] int32, where the queries stand, one behind the other; their own keys are in the cache.
    scale: by which the queries are multiplied, in their dtype.
    softcap: scores become cap * tanh(scores / cap); 0 is off.
    window: in tokens, [] int32 or a number; one not below the context means everything.
    implementation: 'reference', 'blockwise', 'cudnn', 'tokamax' or 'mosaic'; 'auto' is 'blockwise', and on
      GPUs, where that was the slowest on an H200, 'mosaic' if it can run or else 'reference'.
    prefix: what stands before the cache: column c of the cache is then at position `prefix.lengths` + c.
  Returns:
    [S, N, K, H] in the dtype of the queries; zeros where a query sees nothing.
  Raises:
    ValueError: Kv does not divide K, or the implementation does not run here or has no such option.
  """
  _check(query, keys, values, positions)
  reasons = _reasons(query, keys, softcap, window, prefix)
  name = switch.choose('decode_attention', implementation, reasons)
  if name in ('cudnn', 'tokamax'):
    lengths = jnp.clip(positions[:, 0] + 1, 0, keys.shape[1]).astype(jnp.int32)
    return _fused(name, query, keys, values, lengths, scale, softcap)
  return _ATTEND[name](_scaled(query, scale), stretches(keys, values, positions, window, prefix), softcap)[0]


def attend(
    query: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    positions: jax.Array,
    *,
    scale: float,
    softcap: float,
    window: int | jax.Array,
    implementation: str,
    prefix: Prefix | None = None,
) -> tuple[jax.Array, jax.Array]:
  """`decode_attention`, and the log-sum-exp of its scores.

  Args:
    query, keys, values, positions, scale, softcap, window, prefix: as there.
    implementation: 'reference', 'blockwise', 'mosaic' or 'auto'; the others round the log-sum-exp, or keep
      it.
  Returns:
    [S, N, K, H], and [S, N, K] float32, -inf where a query sees nothing.
  Raises:
    ValueError: as there.
  """
  _check(query, keys, values, positions)
  reasons = _reasons(query, keys, softcap, window, prefix)
  reasons = {name: reason for name, reason in reasons.items() if name in _ATTEND}
  name = switch.choose('attend', implementation, reasons)
  return _ATTEND[name](_scaled(query, scale), stretches(keys, values, positions, window, prefix), softcap)


# --- in blocks of columns ---------------------------------------------------------------------------------


def attend_blockwise(
    query: jax.Array, parts: list[Stretch], *, softcap: float, block: int
) -> tuple[jax.Array, jax.Array]:
  """Attention of scaled queries [S, N, K, H] to stretches, and its log-sum-exp [S, N, K]; see `attend`.

  A loop over blocks of columns, from the first to the last that any row sees, with the softmax carried along
  in float32. The blocks before and behind are never read.

  Args:
    query: see above.
    parts: what the queries see.
    softcap: as in `attend`.
    block: columns that are read at one time.
  """
  grouped = grouped_heads(query, parts[0].keys.shape[2])
  outs, lses = zip(*(_attend_stretch(grouped, part, softcap, block) for part in parts), strict=True)
  out, lse = merge(jnp.stack(outs), jnp.stack(lses), axis=0) if len(parts) > 1 else (outs[0], lses[0])
  order = lambda x: jnp.moveaxis(x, 3, 1)  # [S, Kv, J, N, ...] -> [S, N, Kv, J, ...]
  return order(out).reshape(query.shape).astype(query.dtype), order(lse).reshape(query.shape[:3])


def _attend_stretch(grouped, part: Stretch, softcap, block):
  """[S, Kv, J, N, H] and [S, Kv, J, N], float32."""
  num_columns = part.keys.shape[1]
  block = min(block, num_columns)
  begin, end = _live(part.first, part.last)
  shape = tuple(grouped.shape[i] for i in (0, 2, 3, 1))

  def read(x, start):
    x = jax.lax.dynamic_slice_in_dim(x, start, block, axis=1)
    return x if part.rows is None else x[part.rows]

  def step(index, carry):
    attended, top, total = carry
    # The last block is read as far back as the array goes; what it shares with the one before it is masked.
    start = jnp.minimum(index * block, num_columns - block)
    columns = start + jnp.arange(block)
    seen = part.seen(columns) & (columns >= index * block)[None, None]
    keys, values = read(part.keys, start), read(part.values, start)
    values = jnp.where(part.seen_by_any(columns)[:, :, None, None], values, 0)  # 0 times a stale NaN is NaN
    scores = jnp.einsum('snkjh,sckh->skjnc', grouped, keys, preferred_element_type=jnp.float32)
    mask = jnp.broadcast_to(seen[:, None, None], scores.shape)
    scores = jnp.where(mask, softcapped(scores, softcap), _MASKED)
    new_top = jnp.maximum(top, jnp.max(scores, axis=-1))
    weights = jnp.where(mask, jnp.exp(scores - new_top[..., None]), 0)
    shrink = jnp.exp(top - new_top)
    total = total * shrink + jnp.sum(weights, axis=-1)
    new = jnp.einsum(
        'skjnc,sckh->skjnh', weights.astype(grouped.dtype), values, preferred_element_type=jnp.float32
    )
    return attended * shrink[..., None] + new, new_top, total

  zeros = jnp.zeros(shape, jnp.float32)
  carry = (jnp.zeros((*shape, grouped.shape[-1]), jnp.float32), jnp.full(shape, _MASKED), zeros)
  with loops.times(-(-num_columns // block)):
    attended, top, total = jax.lax.fori_loop(begin // block, -(-end // block), step, carry)
  some = total > 0
  divisor = jnp.where(some, total, 1)
  return attended / divisor[..., None], jnp.where(some, top + jnp.log(divisor), -jnp.inf)


@custom_batching.custom_vmap
def _live(first, last):
  """The columns begin <= c < end outside of which no row sees anything.

  Of a population they are those of all members: a loop whose bounds differ between members would have to read
  at a different place for each, and a block that a member does not see changes nothing for it, not a bit.
  """
  some = last > first
  furthest = jnp.iinfo(jnp.int32).max
  end = jnp.max(jnp.where(some, last, 0), initial=0)
  return jnp.minimum(jnp.min(jnp.where(some, first, furthest), initial=furthest), end), end


@_live.def_vmap
def _live_of_all(axis_size, in_batched, first, last):
  whole = lambda x, batched: x if batched else jnp.broadcast_to(x, (axis_size, *x.shape))
  return _live(whole(first, in_batched[0]), whole(last, in_batched[1])), (False, False)


# --- those of others --------------------------------------------------------------------------------------


def _mosaic(query, parts, softcap):
  from rlx.kernels.decode_attention_mosaic import (
    attend_mosaic,  # a GPU's compiler, which others need not load
  )

  def attend(query, *arrays):
    *pasts, rest = arrays
    pairs = zip(pasts[::2], pasts[1::2], rest, strict=True)
    own = [part._replace(keys=keys, values=values) for keys, values, part in pairs]
    return attend_mosaic(query, own, softcap=softcap)

  heads = query, *(x for part in parts for x in (part.keys, part.values))
  return over_rows_and_heads(attend, heads, [part._replace(keys=None, values=None) for part in parts])


_ATTEND = {
    'blockwise': lambda query, parts, softcap: attend_blockwise(query, parts, softcap=softcap, block=BLOCK),
    'mosaic': _mosaic,
    'reference': lambda query, parts, softcap: attend_reference(query, parts, softcap=softcap),
}


def _fused(name, query, keys, values, lengths, scale, softcap):
  """One query a row over the first `lengths` columns, by cuDNN or tokamax."""
  at_least_one = {'scale': scale, 'key_value_seq_lengths': jnp.maximum(lengths, 1)}
  if name == 'cudnn':
    out = jax.nn.dot_product_attention(query, keys, values, implementation='cudnn', **at_least_one)
  else:
    import tokamax  # optional

    out = tokamax.dot_product_attention(query, keys, values, logits_soft_cap=softcap or None, **at_least_one)
  return jnp.where((lengths > 0)[:, None, None, None], out, 0)


def _reasons(query, keys, softcap, window, prefix):
  """Why each implementation cannot do this here; '' where it can. In the order of 'auto'."""
  runs = lambda: ''
  capped = f'it has no softcap ({softcap})' if softcap else ''
  plain = functools.partial(_no_plain_past, query.shape[1], keys.shape[1], window, prefix)
  ways = {
      'blockwise': runs,
      'mosaic': lambda: switch.no_hopper() or _no_mosaic(query, keys, prefix),
      'reference': runs,
      'cudnn': lambda: switch.no_cudnn(query) or capped or plain(),
      'tokamax': lambda: switch.no_package('tokamax') or plain(),
  }
  first = ('mosaic', 'reference') if switch.device().platform == 'gpu' else ()
  return {name: ways[name] for name in dict.fromkeys((*first, *ways))}


def _no_plain_past(num_queries, num_columns, window, prefix) -> str:
  if num_queries > 1:
    return f'{num_queries} queries a row; it masks all queries of a row alike'
  if prefix is not None:
    return 'it has no shared prefix'
  if isinstance(window, jax.core.Tracer):
    return 'it has no window, and this one is a traced number that may hide something'
  if int(window) < num_columns:
    return f'it has no window, and window={int(window)} is below the {num_columns} columns of the cache'
  return ''


def _no_mosaic(query, keys, prefix) -> str:
  if reason := switch.no_own_rows() or switch.no_own_heads(keys.shape[2]):
    return reason
  from rlx.kernels import decode_attention_mosaic as mosaic

  size, queries = query.shape[3], query.shape[1] * query.shape[2] // keys.shape[2]
  columns = [keys.shape[1]] + ([] if prefix is None else [prefix.keys.shape[1]])
  if query.dtype not in (jnp.bfloat16, jnp.float16):
    return f'{query.dtype} queries; it multiplies bfloat16 or float16'
  if size not in mosaic.HEAD_SIZES:
    return f'head size {size} is not one of {mosaic.HEAD_SIZES}'
  if queries > mosaic.QUERIES:
    return f'{queries} queries share a kv head; it has room for {mosaic.QUERIES}'
  if any(number % mosaic.BLOCK for number in columns):
    return f'{columns} columns of cache and prefix are not multiples of {mosaic.BLOCK}'
  return ''


def _scaled(query, scale):
  return query * jnp.asarray(scale, query.dtype)


def _check(query, keys, values, positions):
  chex.assert_rank([query, keys, values, positions], [4, 4, 4, 2])
  chex.assert_equal_shape([keys, values])
  chex.assert_equal_shape_prefix([query, positions], 2)
  if query.shape[2] % keys.shape[2]:
    raise ValueError(f'{keys.shape[2]} kv heads do not divide {query.shape[2]} query heads')
