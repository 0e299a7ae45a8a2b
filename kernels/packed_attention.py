"""Attention of rows in which several sequences stand one behind the other.

A group of samples is a prompt and its completions. Packed as [prompt, completion 1, completion 2, ...] the
prompt is computed once: every completion sees the prompt and itself, and no other. A row may hold several
such segments, and padding, whose start is beyond itself, sees nothing.

`blockwise` never holds the scores of more than a block of queries and a block of keys, forward or backward,
and passes over pairs of blocks that do not see each other. `splash` is JAX's own kernel for TPUs, where they
never leave the chip, and `triton` ours for GPUs. `packed_attention_reference.py` says the same with a mask.
"""

import functools

import chex
import jax
from jax import custom_batching
import jax.numpy as jnp

from rlx.kernels import loops, switch
from rlx.kernels.decode_attention_reference import grouped_heads, softcapped
from rlx.kernels.packed_attention_reference import Sight, attend_packed_reference

# Queries, and keys, whose scores exist at one time. On a CPU few stay in its caches and leave more out; else
# what a turn of the loop costs, and what it carries to the next, is paid less often.
BLOCK = {'cpu': 128, 'gpu': 512, 'tpu': 512}
_MASKED = -1e30


def packed_attention(
    query: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    *,
    starts: jax.Array,
    shared_ends: jax.Array | None,
    own_starts: jax.Array,
    scale: float,
    softcap: float,
    window: int | jax.Array,
    positions: jax.Array,
    implementation: str,
) -> jax.Array:
  """Softmax attention of the query at column q to the keys at the columns k of its row with k <= q,
  starts[q] <= k < shared_ends[q] or own_starts[q] <= k, and 0 <= positions[q] - positions[k] < window.

  Args:
    query: [B, T, K, H].
    keys: [B, T, Kv, H] in the dtype of the queries; Kv divides K, and consecutive heads share.
    values: [B, T, Kv, H], likewise.
    starts: [B, T] int32, the first column that a query sees; beyond its own for padding.
    shared_ends: [B, T] int32, the column behind the part that its sequence shares with others. None where no
      sequence shares anything, which some kernels need to know while tracing.
    own_starts: [B, T] int32, the first column of the part that it does not; `starts` where nothing is shared.
    scale: by which the queries are multiplied, in their dtype.
    softcap: scores become cap * tanh(scores / cap); 0 is off.
    window: in tokens, [] int32 or a number; one not below the context means everything.
    positions: [B, T] int32, where each token stands in its sequence.
    implementation: 'reference', 'blockwise', 'triton', 'cudnn', 'tokamax' or 'splash'; 'auto' is 'triton'
      where that can run, as it was the fastest on an H200, and 'blockwise' elsewhere.
  Returns:
    [B, T, K, H] in the dtype of the queries; zeros where a query sees nothing. Differentiable in query, keys
    and values.
  Raises:
    ValueError: Kv does not divide K, or the implementation does not run here or has no such option.
  """
  chex.assert_rank([query, keys, values, positions], [4, 4, 4, 2])
  chex.assert_equal_shape([keys, values])
  chex.assert_equal_shape(jax.tree.leaves([positions, starts, shared_ends, own_starts]))
  chex.assert_equal_shape_prefix([query, keys, positions], 2)
  if query.shape[2] % keys.shape[2]:
    raise ValueError(f'{keys.shape[2]} kv heads do not divide {query.shape[2]} query heads')
  reasons = _reasons(query, keys, softcap, window, shared_ends)
  name = switch.choose('packed_attention', implementation, reasons)
  columns = jnp.broadcast_to(jnp.arange(query.shape[1], dtype=jnp.int32)[None], positions.shape)
  sight = Sight(columns, positions, starts, shared_ends, own_starts)
  if name in ('cudnn', 'tokamax'):
    return _fused(name, query, keys, values, sight.sees(columns, positions, window), scale, softcap)
  query = query * jnp.asarray(scale, query.dtype)
  if name == 'reference':
    return attend_packed_reference(query, keys, values, sight, window, softcap=softcap)
  if name == 'splash':
    from rlx.kernels.packed_attention_splash import attend_packed_splash  # Pallas is not imported in vain

    return attend_packed_splash(query, keys, values, sight, softcap=softcap)
  if name == 'triton':
    from rlx.kernels.packed_attention_triton import attend_packed_triton

    return attend_packed_triton(query, keys, values, sight, window, softcap=softcap)
  block = BLOCK[switch.device().platform]
  return attend_packed_blockwise(query, keys, values, sight, window, softcap=softcap, block=block)


def _reasons(query, keys, softcap, window, shared_ends):
  """Why each implementation cannot do this here; '' where it can. In the order of 'auto'."""
  capped = f'it has no softcap ({softcap})' if softcap else ''
  odd = f'{query.shape[1]} columns; with a mask it takes an even number' if query.shape[1] % 2 else ''
  shared = '' if shared_ends is None else 'sequences may share a beginning (score.share_prompts)'
  traced = isinstance(window, jax.core.Tracer)
  near = 'a window hides columns from it' if traced or window < query.shape[1] else ''
  return {
      'triton': lambda: switch.no_gpu((8, 0)) or _no_triton(query, keys.shape[2]),
      'blockwise': lambda: '',
      'cudnn': lambda: switch.no_cudnn(query) or capped or odd,
      'tokamax': lambda: switch.no_package('tokamax'),
      'splash': lambda: switch.no_tpu() or shared or near,
      'reference': lambda: '',
  }


def _no_triton(query, kv_heads) -> str:
  # That backend of Pallas is deprecated since jax 0.11.
  if reason := switch.no_module('jax.experimental.pallas.triton') or switch.no_own_heads(kv_heads):
    return reason
  from rlx.kernels.packed_attention_triton import LARGEST_HEAD

  if query.dtype not in (jnp.bfloat16, jnp.float16):
    return f'{query.dtype} queries; it multiplies bfloat16 or float16'
  size = query.shape[-1]
  return f'head size {size} is above {LARGEST_HEAD}' if size > LARGEST_HEAD else ''


def _fused(name, query, keys, values, mask, scale, softcap):
  """Attention by cuDNN or tokamax under a mask [B, T, T], which is all that either is told."""
  if name == 'cudnn':
    attend = functools.partial(jax.nn.dot_product_attention, implementation='cudnn')
  else:
    import tokamax  # optional

    attend = functools.partial(tokamax.dot_product_attention, logits_soft_cap=softcap or None)
  out = attend(query, keys, values, mask=mask[:, None], scale=scale)
  return jnp.where(jnp.any(mask, axis=-1)[..., None, None], out, 0)


# --- in blocks --------------------------------------------------------------------------------------------


def attend_packed_blockwise(
    query: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    sight: Sight,
    window: int | jax.Array,
    *,
    softcap: float,
    block: int,
) -> jax.Array:
  """Attention of scaled queries [B, T, K, H]; see `packed_attention`.

  Args:
    query, keys, values, window, softcap: as there, but for the scale.
    sight: what the queries see, [B, T] each.
    block: queries, and keys, whose scores exist at one time.
  Source: Dao et al., 2022, https://arxiv.org/abs/2205.14135, algorithms 1 and 4.
  """
  num_rows, length = query.shape[:2]
  num_blocks = -(-length // block)
  block = -(-length // num_blocks)  # as many, of one size, with hardly any padding behind the last one
  padding = -length % block

  def blocks(x, fill=0):
    """[B, T, ...] as [T / block, B, ..., block, rest], heads before columns."""
    x = jnp.pad(x, ((0, 0), (0, padding)) + ((0, 0),) * (x.ndim - 2), constant_values=fill)
    x = jnp.moveaxis(x.reshape(num_rows, -1, block, *x.shape[2:]), 1, 0)
    return jnp.moveaxis(x, 2, -2) if x.ndim > 3 else x

  # Columns of the padding begin beyond the row: they see nothing, and nothing sees them.
  sight = jax.tree.map(blocks, sight, _padding(sight, length))
  grouped = blocks(grouped_heads(query, keys.shape[2]))  # [T / block, B, Kv, J, block, H]
  out = _blockwise(softcap, grouped, blocks(keys), blocks(values), sight, jnp.asarray(window, jnp.int32))
  out = jnp.moveaxis(jnp.moveaxis(out, -2, 2), 0, 1)  # [B, T / block, block, Kv, J, H]
  return out.reshape(num_rows, length + padding, *query.shape[2:])[:, :length]


def _padding(sight, length):
  """What columns behind the row are given for each field, where there is one."""
  fills = Sight(columns=-1, positions=0, starts=length, shared_ends=0, own_starts=length)
  return fills if sight.shared_ends is not None else fills._replace(shared_ends=None)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _blockwise(softcap, query, keys, values, sight, window):
  return _blockwise_forward(softcap, query, keys, values, sight, window)[0]


def _blockwise_forward(softcap, query, keys, values, sight, window):
  query_blocks = query.shape[0]

  def attend(x):
    """One block of queries to all blocks of keys that do not stand behind it."""
    index, query, own = x

    def step(key_index, carry):
      mask = _mask(own, sight, key_index, window)
      add_block = functools.partial(add, key_index, mask)
      return jax.lax.cond(_anything(mask), add_block, lambda carry: carry, carry)

    def add(key_index, mask, carry):
      attended, top, total = carry
      scores, mask = _scores(query, keys[key_index], softcap), _over_heads(mask, query)
      scores = jnp.where(mask, scores, _MASKED)
      new_top = jnp.maximum(top, jnp.max(scores, axis=-1))
      weights = jnp.where(mask, jnp.exp(scores - new_top[..., None]), 0)
      shrink = jnp.exp(top - new_top)
      new = _product('bkjqc,bkch->bkjqh', weights.astype(query.dtype), values[key_index])
      return attended * shrink[..., None] + new, new_top, total * shrink + jnp.sum(weights, axis=-1)

    shape = query.shape[:-1]
    carry = (jnp.zeros(query.shape, jnp.float32), jnp.full(shape, _MASKED), jnp.zeros(shape, jnp.float32))
    with loops.times((query_blocks + 1) // 2):
      attended, top, total = jax.lax.fori_loop(0, index + 1, step, carry)
    total = jnp.where(total > 0, total, 1)
    return (attended / total[..., None]).astype(query.dtype), top + jnp.log(total)

  out, lse = jax.lax.map(attend, (jnp.arange(query.shape[0]), query, sight))
  return out, (query, keys, values, sight, window, out, lse)


def _blockwise_backward(softcap, residuals, grad_out):
  query, keys, values, sight, window, out, lse = residuals
  # What the softmax takes away from the gradient of every weight of a query.
  mean = jnp.sum(grad_out.astype(jnp.float32) * out.astype(jnp.float32), axis=-1)

  def backward(totals, x):
    """The gradient of one block of queries, and what it adds to that of all keys and values."""
    index, query, own, grad_out, lse, mean = x

    def step(key_index, carry):
      grad_query, grad_keys, grad_values = carry
      mask, key, value = _mask(own, sight, key_index, window), keys[key_index], values[key_index]
      pair = functools.partial(_pair_backward, softcap, query, key, value, mask, grad_out, lse, mean)
      nothing = lambda: tuple(jnp.zeros(x.shape, jnp.float32) for x in (query, key, value))
      new_query, new_keys, new_values = jax.lax.cond(_anything(mask), pair, nothing)
      add = lambda x, new: x.at[key_index].add(new)
      return grad_query + new_query, add(grad_keys, new_keys), add(grad_values, new_values)

    start = jnp.zeros(query.shape, jnp.float32)
    with loops.times((parts[0].size + 1) // 2):
      grad_query, *totals = jax.lax.fori_loop(0, index + 1, step, (start, *totals))
    return tuple(totals), grad_query.astype(query.dtype)

  totals = tuple(jnp.zeros(x.shape, jnp.float32) for x in (keys, values))
  parts = (jnp.arange(query.shape[0]), query, sight, grad_out, lse, mean)
  (grad_keys, grad_values), grad_query = jax.lax.scan(backward, totals, parts)
  return grad_query, grad_keys.astype(keys.dtype), grad_values.astype(values.dtype), None, None


def _pair_backward(softcap, query, key, value, mask, grad_out, lse, mean):
  """Gradients of a block of queries, of keys and of values, float32, from the scores between them."""
  scores = _scores(query, key, softcap)
  weights = jnp.where(_over_heads(mask, query), jnp.exp(scores - lse[..., None]), 0)
  grad = weights * (_product('bkjqh,bkch->bkjqc', grad_out, value) - mean[..., None])
  if softcap:
    grad *= 1 - jnp.square(scores / softcap)  # d cap tanh(x / cap) / dx
  grad, weights = grad.astype(query.dtype), weights.astype(query.dtype)
  return (
      _product('bkjqc,bkch->bkjqh', grad, key),
      _product('bkjqc,bkjqh->bkch', grad, query),
      _product('bkjqc,bkjqh->bkch', weights, grad_out),
  )


_blockwise.defvjp(_blockwise_forward, _blockwise_backward)

_product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


def _scores(query, key, softcap):
  """[B, Kv, J, block, block] float32."""
  return softcapped(_product('bkjqh,bkch->bkjqc', query, key), softcap)


def _mask(own, sight, key_index, window):
  """[B, block, block] bool: which keys of one block the queries of another see."""
  return own.sees(sight.columns[key_index], sight.positions[key_index], window)


def _over_heads(mask, query):
  return jnp.broadcast_to(mask[:, None, None], (*query.shape[:-1], mask.shape[-1]))


@custom_batching.custom_vmap
def _anything(mask):
  """Is anything seen? Of a population: by any member. Only where all take the same branch is the other left
  out, and what a member does not see changes nothing for it.
  """
  return jnp.any(mask)


@_anything.def_vmap
def _anything_of_all(axis_size, in_batched, mask):
  del axis_size, in_batched  # whatever is batched is one axis more of the same mask
  return _anything(mask), False
