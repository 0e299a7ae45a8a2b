"""`packed_attention` on NVIDIA GPUs, as kernels of Pallas that Triton compiles: scores never leave the chip.

One program attends for one head and a block of queries. It goes through the blocks of keys that any of them
may see, which are listed beforehand for each block of queries, so that what stands between a shared prompt
and a completion of it is neither read nor computed. The gradient is two kernels: one for the queries, which
goes the same way, and one for a block of keys and values, which goes through the queries that see it.

Source: Dao, 2023, https://arxiv.org/abs/2307.08691, section 3.1; the list of blocks is ours.
"""

import functools
from typing import NamedTuple

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu
import jax.numpy as jnp

from rlx.kernels import loops
from rlx.kernels.decode_attention_reference import softcapped
from rlx.kernels.mesh_blocks import over_rows_and_heads
from rlx.kernels.packed_attention_reference import Sight

LARGEST_HEAD = 256
_MASKED = -1e30


class Blocks(NamedTuple):
  """How a kernel is cut, and how it runs."""

  queries: int
  keys: int
  warps: int
  stages: int  # loads on their way


def blocks_of(size: int) -> dict[str, Blocks]:
  """By kernel, for heads of a size; powers of two. For 64 and 128 the best of a few that an H200 tried."""
  if size <= 64:
    return {'out': Blocks(64, 64, 4, 3), 'query': Blocks(64, 32, 4, 2), 'keys': Blocks(64, 64, 4, 3)}
  if size <= 128:
    return {'out': Blocks(64, 64, 4, 3), 'query': Blocks(64, 64, 4, 2), 'keys': Blocks(64, 64, 4, 3)}
  return {'out': Blocks(64, 32, 8, 1), 'query': Blocks(32, 32, 4, 1), 'keys': Blocks(32, 32, 4, 1)}


def attend_packed_triton(
    query: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    sight: Sight,
    window: int | jax.Array,
    *,
    softcap: float,
    interpret: bool = False,
) -> jax.Array:
  """Attention of scaled queries [B, T, K, H]; see `packed_attention`.

  Args:
    query, keys, values, window, softcap: as there, but for the scale.
    sight: what the queries see, [B, T] each.
    interpret: compute what the kernels would, on any device.
  """
  def attend(query, keys, values, rows):
    window, sight = rows
    return _padded(softcap, interpret, query, keys, values, sight, window)

  rows = jnp.broadcast_to(jnp.asarray(window, jnp.int32), (query.shape[0], 1)), _of_two_parts(sight)
  return over_rows_and_heads(attend, (query, keys, values), rows)


def _of_two_parts(sight):
  """The same, in which every sequence has a beginning that it shares, if an empty one."""
  if sight.shared_ends is not None:
    return sight
  return sight._replace(shared_ends=jnp.zeros_like(sight.own_starts))


def _padded(softcap, interpret, query, keys, values, sight, window):
  """In whole blocks, of heads whose size is a power of two."""
  length, size = query.shape[1], query.shape[3]
  wide = max(16, pl.next_power_of_2(size))
  padding = -length % max(max(cut.queries, cut.keys) for cut in blocks_of(wide).values())
  fill = ((0, 0), (0, 0), (0, padding), (0, wide - size))
  heads = (jnp.pad(jnp.swapaxes(x, 1, 2), fill) for x in (query, keys, values))
  # What stands behind the row begins beyond it: it sees nothing, and stands behind all that see anything.
  beyond = Sight(columns=0, positions=0, starts=length + padding, shared_ends=0, own_starts=length + padding)
  pad = lambda x, value: jnp.pad(x, ((0, 0), (0, padding)), constant_values=value)
  out = _attend(softcap, interpret, *heads, jax.tree.map(pad, sight, beyond), window)
  return jnp.swapaxes(out, 1, 2)[:, :length, :, :size]


# --- which blocks see which -------------------------------------------------------------------------------


def visible(sight: Sight, window: jax.Array, queries: int, keys: int) -> jax.Array:
  """[B, T / queries, T / keys] bool: where a query of a block may see a key of another; never too few.

  Of blocks in which sequences end and begin, the window leaves out fewer than are hidden.

  Args:
    sight: [B, T] each, with `shared_ends`; a query that sees nothing starts behind the row.
    window: [B, 1].
    queries: of a block.
    keys: of a block.
  """
  num_rows, length = sight.starts.shape
  of_blocks = lambda x, fold: fold(x.reshape(num_rows, -1, queries), axis=2)[..., None]
  first = jnp.arange(0, length, keys, dtype=jnp.int32)[None, None]
  last = first + keys - 1
  until = jnp.arange(queries - 1, length, queries, dtype=jnp.int32)[None, :, None]
  begins, ends = of_blocks(sight.starts, jnp.min), of_blocks(sight.shared_ends, jnp.max)
  shared = (last >= begins) & (first < ends)
  own = last >= of_blocks(sight.own_starts, jnp.min)
  latest = jnp.max(sight.positions.reshape(num_rows, 1, -1, keys), axis=3)
  near = of_blocks(sight.positions, jnp.min) - latest < window[..., None]
  return (first <= until) & (shared | own) & near


def _listed(seen):
  """[..., N] int32, the numbers of those that are seen first, and [..., 1], how many they are."""
  order = jnp.argsort(~seen, axis=-1, stable=True).astype(jnp.int32)
  return order, jnp.sum(seen, axis=-1, dtype=jnp.int32)[..., None]


# --- kernels ----------------------------------------------------------------------------------------------


def _tile_mask(own, columns, positions, window):
  """[queries, keys] bool; `own` is a `Sight` of the queries."""
  distance = own.positions[:, None] - positions[None]
  own, columns = jax.tree.map(lambda x: x[:, None], own), columns[None]
  sequence = (columns >= own.own_starts) | ((columns >= own.starts) & (columns < own.shared_ends))
  return (columns <= own.columns) & sequence & (distance >= 0) & (distance < window)


def _place(sight, start, size):
  """The `Sight` of so many columns from one on."""
  span = pl.ds(start, size)
  return Sight(
      start + jnp.arange(size, dtype=jnp.int32), *(ref[span] for ref in sight)
  )


def _key_places(sight, start, size):
  """Where so many keys from a column on stand in their row, and in their sequence."""
  return start + jnp.arange(size, dtype=jnp.int32), sight[0][pl.ds(start, size)]


def _out_kernel(query, keys, values, order, count, *rest, cut, softcap):
  *sight, window, out, lse = rest
  own = _place(sight, pl.program_id(0) * cut.queries, cut.queries)
  query_tile, within = query[...], window[0]

  def step(index, carry):
    attended, top, total = carry
    start = order[index] * cut.keys
    span = pl.ds(start, cut.keys)
    columns, positions = _key_places(sight, start, cut.keys)
    mask = _tile_mask(own, columns, positions, within)
    scores = softcapped(plgpu.dot(query_tile, keys[span, :].T), softcap)
    scores = jnp.where(mask, scores, _MASKED)
    new_top = jnp.maximum(top, jnp.max(scores, axis=1))
    weights = jnp.where(mask, jnp.exp(scores - new_top[:, None]), 0.0)
    shrink = jnp.exp(top - new_top)
    new = plgpu.dot(weights.astype(query_tile.dtype), values[span, :])
    return attended * shrink[:, None] + new, new_top, total * shrink + jnp.sum(weights, axis=1)

  top = jnp.full(cut.queries, _MASKED, jnp.float32)
  carry = (jnp.zeros(query_tile.shape, jnp.float32), top, jnp.zeros(cut.queries, jnp.float32))
  attended, top, total = jax.lax.fori_loop(0, count[0], step, carry)
  total = jnp.where(total > 0, total, 1.0)
  out[...] = (attended / total[:, None]).astype(out.dtype)
  lse[...] = top + jnp.log(total)


def _pair(query, key, value, mask, grad_out, lse, mean, softcap):
  """Weights of a tile, and the gradient of its scores, both in the dtype of the queries."""
  scores = softcapped(plgpu.dot(query, key.T), softcap)
  weights = jnp.where(mask, jnp.exp(scores - lse[:, None]), 0.0)
  grad = weights * (plgpu.dot(grad_out, value.T) - mean[:, None])
  if softcap:
    grad *= 1 - jnp.square(scores / softcap)
  return weights.astype(query.dtype), grad.astype(query.dtype)


def _query_kernel(query, keys, values, order, count, *rest, cut, softcap):
  *sight, window, grad_out, lse, mean, grad_query = rest
  own = _place(sight, pl.program_id(0) * cut.queries, cut.queries)
  query_tile, within = query[...], window[0]
  of_queries = grad_out[...], lse[...], mean[...]

  def step(index, total):
    start = order[index] * cut.keys
    span = pl.ds(start, cut.keys)
    columns, positions = _key_places(sight, start, cut.keys)
    mask = _tile_mask(own, columns, positions, within)
    key, value = keys[span, :], values[span, :]
    return total + plgpu.dot(_pair(query_tile, key, value, mask, *of_queries, softcap)[1], key)

  zeros = jnp.zeros(query_tile.shape, jnp.float32)
  total = jax.lax.fori_loop(0, count[0], step, zeros)
  grad_query[...] = total.astype(grad_query.dtype)


def _keys_kernel(query, keys, values, order, count, *rest, cut, softcap):
  *sight, window, grad_out, lse, mean, grad_keys, grad_values = rest
  start = pl.program_id(0) * cut.keys
  columns, positions = _key_places(sight, start, cut.keys)
  key, value, within = keys[...], values[...], window[0]
  num_blocks = count[0]

  def step(index, totals):
    """A block of the queries of one of the heads that share these keys."""
    of_keys, of_values = totals
    head, number = index // num_blocks, index % num_blocks
    begin = order[number] * cut.queries
    span = pl.ds(begin, cut.queries)
    mask = _tile_mask(_place(sight, begin, cut.queries), columns, positions, within)
    query_tile, grad_tile = query[head, span, :], grad_out[head, span, :]
    of_queries = lse[head, span], mean[head, span]
    weights, grad = _pair(query_tile, key, value, mask, grad_tile, *of_queries, softcap)
    return (
        of_keys + plgpu.dot(grad.T, query_tile),
        of_values + plgpu.dot(weights.T, grad_tile),
    )

  zeros = jnp.zeros(key.shape, jnp.float32)
  of_keys, of_values = jax.lax.fori_loop(0, query.shape[0] * num_blocks, step, (zeros, zeros))
  grad_keys[...] = of_keys.astype(grad_keys.dtype)
  grad_values[...] = of_values.astype(grad_values.dtype)


# --- their arguments --------------------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attend(softcap, interpret, query, keys, values, sight, window):
  """Of arrays [B, heads, T, H] and a sight and a window of rows, [B, T] and [B, 1]."""
  return _attend_forward(softcap, interpret, query, keys, values, sight, window)[0]


def _attend_forward(softcap, interpret, query, keys, values, sight, window):
  cut = blocks_of(query.shape[3])['out']
  specs, arguments = _along_queries(cut, query, keys, values, sight, window)
  of_queries, of_numbers = _queries_specs(cut, query)
  out, lse = _call(
      _out_kernel, cut, (query.shape[2] // cut.queries, query.shape[1], query.shape[0]), specs,
      (of_queries, of_numbers),
      (jax.ShapeDtypeStruct(query.shape, query.dtype), jax.ShapeDtypeStruct(query.shape[:3], jnp.float32)),
      softcap, interpret,
  )(*arguments)
  return out, (query, keys, values, sight, window, out, lse)


def _attend_backward(softcap, interpret, residuals, grad_out):
  query, keys, values, sight, window, out, lse = residuals
  # What the softmax takes away from the gradient of every weight of a query.
  mean = jnp.sum(grad_out.astype(jnp.float32) * out.astype(jnp.float32), axis=-1)
  cuts = blocks_of(query.shape[3])
  specs, arguments = _along_queries(cuts['query'], query, keys, values, sight, window)
  of_queries, of_numbers = _queries_specs(cuts['query'], query)
  grad_query = _call(
      _query_kernel, cuts['query'],
      (query.shape[2] // cuts['query'].queries, query.shape[1], query.shape[0]),
      (*specs, of_queries, of_numbers, of_numbers), of_queries,
      jax.ShapeDtypeStruct(query.shape, query.dtype), softcap, interpret,
  )(*arguments, grad_out, lse, mean)
  grad_keys, grad_values = _keys_gradient(
      cuts['keys'], softcap, interpret, query, keys, values, sight, window, grad_out, lse, mean
  )
  return grad_query, grad_keys, grad_values, None, None


_attend.defvjp(_attend_forward, _attend_backward)


def _keys_gradient(cut, softcap, interpret, query, keys, values, sight, window, grad_out, lse, mean):
  """Of keys and values: programs are for a block of them, and go through the heads that share them."""
  (num_rows, num_heads, length, size), kv_heads = query.shape, keys.shape[1]
  share, number = num_heads // kv_heads, length // cut.queries
  order, count = _listed(jnp.swapaxes(visible(sight, window, cut.queries, cut.keys), 1, 2))
  whole = pl.BlockSpec((None, share, length, size), lambda i, h, b: (b, h, 0, 0))
  numbers = pl.BlockSpec((None, share, length), lambda i, h, b: (b, h, 0))
  block = pl.BlockSpec((None, None, cut.keys, size), lambda i, h, b: (b, h, i, 0))
  listed = lambda size: pl.BlockSpec((None, None, size), lambda i, h, b: (b, i, 0))
  specs = (
      whole, block, block, listed(number), listed(1), *_rows_specs(sight), whole, numbers, numbers,
  )
  shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (keys, values))
  call = _call(
      _keys_kernel, cut, (length // cut.keys, kv_heads, num_rows), specs, (block, block), shapes,
      softcap, interpret,
  )
  return call(query, keys, values, order, count, *sight[1:], window, grad_out, lse, mean)


def _along_queries(cut, query, keys, values, sight, window):
  """Specs and arguments of kernels whose programs are for a block of queries of a head."""
  share, length, size = query.shape[1] // keys.shape[1], query.shape[2], query.shape[3]
  order, count = _listed(visible(sight, window, cut.queries, cut.keys))
  whole = pl.BlockSpec((None, None, length, size), lambda i, h, b: (b, h // share, 0, 0))
  listed = lambda size: pl.BlockSpec((None, None, size), lambda i, h, b: (b, i, 0))
  of_queries, _ = _queries_specs(cut, query)
  specs = (of_queries, whole, whole, listed(order.shape[2]), listed(1), *_rows_specs(sight))
  return specs, (query, keys, values, order, count, *sight[1:], window)


def _queries_specs(cut, query):
  """A block of vectors, and one of numbers, of the queries of a head."""
  return (
      pl.BlockSpec((None, None, cut.queries, query.shape[3]), lambda i, h, b: (b, h, i, 0)),
      pl.BlockSpec((None, None, cut.queries), lambda i, h, b: (b, h, i)),
  )


def _rows_specs(sight):
  """Of what is the same for all heads of a row: where each column stands, what it sees, and the window."""
  row = lambda size: pl.BlockSpec((None, size), lambda i, h, b: (b, 0))
  return (*(row(sight.starts.shape[1]) for _ in sight[1:]), row(1))


def _call(kernel, cut, grid, in_specs, out_specs, out_shape, softcap, interpret):
  call = pl.pallas_call(
      functools.partial(kernel, cut=cut, softcap=softcap), grid=grid, in_specs=list(in_specs),
      out_specs=out_specs, out_shape=out_shape, interpret=interpret,
      compiler_params=plgpu.CompilerParams(num_warps=cut.warps, num_stages=cut.stages),
  )

  def counted(query, *arguments):
    pairs = query.shape[2] * (query.shape[2] + 1) // 2  # where each column sees all before it
    with loops.products(2 * _PRODUCTS[kernel] * pairs * query.shape[0] * query.shape[1] * query.shape[3]):
      return call(query, *arguments)

  return counted


_PRODUCTS = {_out_kernel: 2, _query_kernel: 3, _keys_kernel: 4}  # of a tile
