"""Decoding attention on a Hopper GPU: the past of a row is cut into parts that are read at the same time.

A decoding step reads all keys and values once and computes little with them, and a batch of a few rows would
leave most of the chip idle. So one program serves (row, kv head, split): it walks over its share of the row's
live columns in blocks, fetched ahead into shared memory, with the softmax carried along in float32, and
writes what it attended to and the log-sum-exp of that. Nothing behind the live columns is fetched but the
rest of the last block. The splits, and the prefix besides, are merged by their log-sum-exps outside.

How a row is cut depends on its own length alone: its bits are the same in every batch.

What it was measured to take on an H200, beside other ways, is in docs/performance.md.
"""

import functools
import inspect
import math

import jax
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
import jax.numpy as jnp

from rlx.kernels.decode_attention_reference import CACHE_BLOCK, Stretch, merge, softcapped

HEAD_SIZES = (64, 128)  # the accumulators of larger heads do not fit into the registers of a warpgroup
QUERIES = 64  # rows of the smallest product that a warpgroup computes
BLOCK = CACHE_BLOCK
SPLITS = 8
_STAGES = 2  # blocks on their way; 64 KiB at a head of 128, so that three programs fit on a multiprocessor
_MASKED = -1e30


def attend_mosaic(
    query: jax.Array, parts: list[Stretch], *, softcap: float, splits: int = SPLITS, interpret=None
) -> tuple[jax.Array, jax.Array]:
  """Attention of scaled queries [S, N, K, H] to stretches, and its log-sum-exp [S, N, K]; see `attend`.

  Args:
    query: bfloat16 or float16, like keys and values; N times the heads that share a kv head is at most 64.
    parts: what the queries see.
    softcap: as in `attend`.
    splits: into how many parts a stretch is cut.
    interpret: of `plgpu.kernel`; parameters of its interpreter, or None to run on a GPU.
  Returns:
    [S, N, K, H] in the dtype of the queries, and [S, N, K] float32.
  """
  num_rows, length, num_heads, size = query.shape
  kv_heads = parts[0].keys.shape[2]
  share = num_heads // kv_heads
  queries = length * share
  grouped = query.reshape(num_rows, length, kv_heads, share, size)
  grouped = jnp.moveaxis(grouped, 2, 1).reshape(num_rows, kv_heads, queries, size)
  grouped = jnp.pad(grouped, ((0, 0), (0, 0), (0, QUERIES - queries), (0, 0)))
  attend = functools.partial(_attend_stretch, grouped, queries, share, softcap, splits, interpret)
  outs, lses = zip(*map(attend, parts), strict=True)
  out, lse = merge(jnp.concatenate(outs, axis=2), jnp.concatenate(lses, axis=2), axis=2)
  ungroup = lambda x: jnp.moveaxis(x[:, :, :queries].reshape(num_rows, kv_heads, length, share, -1), 1, 2)
  out, lse = ungroup(out).reshape(query.shape), ungroup(lse).reshape(query.shape[:3])
  return out.astype(query.dtype), lse


def _attend_stretch(query, queries, share, softcap, splits, interpret, part):
  """[S, Kv, splits, queries, H] and [S, Kv, splits, queries], float32, the queries filled up to eights."""
  num_rows, kv_heads, _, size = query.shape
  begin, end = jnp.min(part.first, axis=1), jnp.max(part.last, axis=1)
  fill = lambda x: jnp.pad(jnp.repeat(x, share, axis=1), ((0, 0), (0, QUERIES - queries)))
  rows = jnp.arange(num_rows, dtype=jnp.int32) if part.rows is None else part.rows
  written = -(-queries // 8) * 8
  shape = (num_rows, kv_heads, splits, written)
  tiled = functools.partial(_tiled, dtype=query.dtype)
  interpreted = interpret is not None
  kernel = plgpu.kernel(
      functools.partial(_body, written=written, softcap=softcap, splits=splits, interpreted=interpreted),
      out_type=(jax.ShapeDtypeStruct((*shape, size), jnp.float32), jax.ShapeDtypeStruct(shape, jnp.float32)),
      grid=(num_rows, kv_heads, splits),
      grid_names=('row', 'head', 'split'),
      scratch_types={
          'query_tile': tiled((QUERIES, size)),
          'key_tiles': tiled((_STAGES, BLOCK, size)),
          'value_tiles': tiled((_STAGES, BLOCK, size)),
          'weight_tile': tiled((QUERIES, BLOCK)),
          'out_tile': _tiled((QUERIES, size), dtype=jnp.float32),
          'lse_tile': plgpu.SMEM((QUERIES,), jnp.float32),
          'query_ready': plgpu.Barrier(),
          'keys_ready': plgpu.Barrier(num_barriers=_STAGES),
          'values_ready': plgpu.Barrier(num_barriers=_STAGES),
      },
      compiler_params=plgpu.CompilerParams(),
      interpret=interpret,
  )
  # By head: as a GPU's decoding loop keeps them, so that nothing is moved.
  keys, values = (jnp.swapaxes(x, 1, 2) for x in (part.keys, part.values))
  return kernel(query, keys, values, rows, begin, end, fill(part.first), fill(part.last))


def _tiled(shape, *, dtype):
  """Shared memory laid out as the tensor cores read it: rows of 128 bytes, swizzled."""
  tile = (8, 128 // jnp.dtype(dtype).itemsize)
  return plgpu.SMEM(shape, dtype, transforms=(plgpu.TilingTransform(tile), plgpu.SwizzleTransform(128)))


def _loaded(ref, layout):
  """All of a reference; jax asked for an index before 0.12, and takes none since."""
  asked = inspect.signature(plgpu.load).parameters.get('idx')
  index = [...] if asked is not None and asked.default is asked.empty else []
  return plgpu.load(ref, *index, layout=layout, optimized=False)


def _body(
    query, keys, values, rows, begin, end, first, last, out, lse,
    *, written, softcap, splits, interpreted,
    query_tile, key_tiles, value_tiles, weight_tile, out_tile, lse_tile,
    query_ready, keys_ready, values_ready,
):
  """One split of one row and kv head. The interpreter has no register layouts, no transposed operands."""
  wide, tall = plgpu.Layout.WGMMA, plgpu.Layout.WGMMA.reduce(1)
  cast = (lambda x, layout: x) if interpreted else plgpu.layout_cast
  bounds = lambda ref: ref[row] if interpreted else _loaded(ref.at[row], tall)
  iota = lambda shape, axis: cast(lax.broadcasted_iota(jnp.int32, shape, axis), wide)
  spread = lambda x, shape: lax.broadcast_in_dim(x, shape, (0,))
  row, head, split = (lax.axis_index(name) for name in ('row', 'head', 'split'))
  size = query_tile.shape[1]
  source, row_begin, row_end = rows[row], begin[row], end[row]
  first_block = lax.div(row_begin, BLOCK)
  num_blocks = jnp.maximum(pl.cdiv(row_end, BLOCK) - first_block, 0)
  per_split = pl.cdiv(num_blocks, splits)
  steps = jnp.clip(num_blocks - split * per_split, 0, per_split)
  scores_shape = (QUERIES, BLOCK)
  row_first, row_last = bounds(first), bounds(last)

  def column(step):
    # A multiple of BLOCK: copies of swizzled tiles have to begin at a multiple of the tile.
    return (first_block + split * per_split + step) * BLOCK

  def fetch(step):
    slot, block = lax.rem(step, _STAGES), (source, head, pl.ds(column(step), BLOCK))
    plgpu.copy_gmem_to_smem(keys.at[block], key_tiles.at[slot], keys_ready.at[slot])
    plgpu.copy_gmem_to_smem(values.at[block], value_tiles.at[slot], values_ready.at[slot])

  def product(a, b, shape):
    def compute(accumulator):
      plgpu.wgmma(accumulator, a, b)
      return accumulator[...]

    return pl.run_scoped(compute, plgpu.ACC(shape, jnp.float32))

  def score(slot):
    if interpreted:
      return jnp.dot(query_tile[...], key_tiles[slot].T, preferred_element_type=jnp.float32)
    return product(query_tile, key_tiles.at[slot].transpose((1, 0)), scores_shape)

  def hide_dead_values(slot, start):
    # Zero times a stale NaN is NaN. Only the first and the last block of a row have dead columns in them.
    @pl.when((start < row_begin) | (start + BLOCK > row_end))
    def _():
      at = start + iota((BLOCK, size), 0)
      tile = cast(value_tiles[slot], wide)
      value_tiles[slot] = jnp.where((at >= row_begin) & (at < row_end), tile, jnp.zeros_like(tile))
      plgpu.commit_smem()

  def step_over(step, carry):
    attended, top, total = carry
    slot, start = lax.rem(step, _STAGES), column(step)
    plgpu.barrier_wait(keys_ready.at[slot])
    scores = score(slot)
    at = start + iota(scores_shape, 1)
    seen = (at >= spread(row_first, scores_shape)) & (at < spread(row_last, scores_shape))
    scores = jnp.where(seen, softcapped(scores, softcap), _MASKED)
    new_top = jnp.maximum(top, jnp.max(scores, axis=1))
    weights = jnp.where(seen, jnp.exp(scores - spread(new_top, scores_shape)), 0.0)
    shrink = jnp.exp(top - new_top)
    total = total * shrink + jnp.sum(weights, axis=1)
    weight_tile[...] = weights.astype(weight_tile.dtype)
    plgpu.commit_smem()
    plgpu.barrier_wait(values_ready.at[slot])
    hide_dead_values(slot, start)
    attended = attended * spread(shrink, attended.shape)
    attended += product(weight_tile, value_tiles.at[slot], attended.shape)
    pl.when(step + _STAGES < steps)(lambda: fetch(step + _STAGES))
    return attended, new_top, total

  for step in range(_STAGES):
    pl.when(step < steps)(lambda: fetch(step))
  plgpu.copy_gmem_to_smem(query.at[row, head], query_tile, query_ready)
  plgpu.barrier_wait(query_ready)
  attended = cast(jnp.zeros((QUERIES, size), jnp.float32), wide)
  top = cast(jnp.full((QUERIES,), _MASKED, jnp.float32), tall)
  total = cast(jnp.zeros((QUERIES,), jnp.float32), tall)
  attended, top, total = lax.fori_loop(0, steps, step_over, (attended, top, total))

  some = total > 0
  divisor = jnp.where(some, total, 1.0)
  out_tile[...] = attended / spread(divisor, attended.shape)
  lse_tile[...] = jnp.where(some, top + jnp.log(divisor), -math.inf)
  plgpu.commit_smem()
  plgpu.copy_smem_to_gmem(out_tile.at[pl.ds(0, written)], out.at[row, head, split])
  plgpu.copy_smem_to_gmem(lse_tile.at[pl.ds(0, written)], lse.at[row, head, split])
  plgpu.wait_smem_to_gmem(0)
