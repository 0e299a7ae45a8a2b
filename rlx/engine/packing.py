"""Scoring rows without their padding: several rows stand in one, and a shared prompt stands there once.

Rows of a batch have the width of the longest row that there might have been. Here they are laid out anew, one
behind the other, in packed rows of a fixed width, each token with the number of the column where what it may
see begins. A few packed rows at a time go through the model, as many times as the tokens need (a loop whose
length is decided by the data), so that computation and memory follow the tokens, not the padding. What comes
out is put back where the tokens were: nobody else needs to know.

The gradient runs the same loop again: each part is computed anew and differentiated, so that the
activations of one part are all that is ever held. That is one forward pass more than without.
"""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import flax.struct
import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.kernels import loops
from rlx.models.transformer import Places
from rlx.types import Batch

COLUMNS = ('tokens', 'valid', 'action_mask', 'prompt_lengths', 'groups')  # of a batch, that packing reads


@dataclasses.dataclass(frozen=True, kw_only=True)
class Packing:
  """How rows are packed.

  Attributes:
    columns: tokens of a packed row; at least those of a row of the batch. Each token may see so many columns,
      so that attention grows with it, while rows that are short beside it leave less room unused.
    rows: packed rows that go through the model at a time, on each shard of devices.
    share_prompts: the prompt of a group is put in a packed row once for all rows of the group there.
  """

  columns: int
  rows: int
  share_prompts: bool

  def __post_init__(self):
    if self.columns < 1 or self.rows < 1:
      raise ValueError(f'packed_columns={self.columns}, packed_rows={self.rows}: both must be at least 1')


class Layout(NamedTuple):
  """Where the tokens of rows [B, T] stand in packed rows [N, C], the first `num_used` of which are in use."""

  cells: jax.Array  # [B, T] int32, which of the N * C places the token has; N * C for padding
  tokens: jax.Array  # [N, C] int32
  places: Places  # of the tokens
  sources: jax.Array  # [N, C] int32, the column whose hidden state predicts the token
  action_index: jax.Array  # [N, C] int32, columns behind the prompt; -1 where the token is no action
  num_used: jax.Array  # [] int32


def lay_out(batch: Batch, packing: Packing) -> Layout:
  """Packs the rows of a batch, each into the newest packed row if it has room for it, otherwise into another.

  Args:
    batch: rows with `tokens, valid, action_mask, prompt_lengths, groups`, taken in the order of `groups`.
    packing: how.
  Returns:
    The layout; N is a multiple of `packing.rows`, enough for any lengths.
  Raises:
    ValueError: a row of the batch is wider than a packed row.
  """
  tokens, lengths, prompt_lengths = batch['tokens'], batch['valid'].sum(axis=1), batch['prompt_lengths']
  num_rows, width = tokens.shape
  if width > packing.columns:
    raise ValueError(
        f'score.packed_columns={packing.columns} is less than the {width} columns of a row (prompt and '
        'max_tokens); raise it'
    )
  place = functools.partial(_place, packing=packing)
  # Two neighbours that were not joined fill more than one packed row between them.
  num_packed = min(num_rows, 2 * num_rows * width // packing.columns + 1)
  num_packed += -num_packed % packing.rows
  order = jnp.argsort(batch['groups'], stable=True)
  rows = tuple(x[order] for x in (prompt_lengths, lengths, batch['groups']))
  end, found = jax.lax.scan(place, _Open(*jnp.array([0, 0, -1, 0], jnp.int32)), rows)
  packed, prompt_start, own_start = (jnp.zeros_like(x).at[order].set(x) for x in found)

  columns = jnp.arange(width)[None]
  behind = columns - prompt_lengths[:, None]
  here = jnp.where(behind < 0, prompt_start[:, None] + columns, own_start[:, None] + behind)
  num_cells = num_packed * packing.columns
  cells = jnp.where(columns < lengths[:, None], packed[:, None] * packing.columns + here, num_cells)
  shared_end = prompt_start + prompt_lengths
  own_starts = prompt_start[:, None]
  if packing.share_prompts:
    own_starts = jnp.where(behind < 0, own_starts, own_start[:, None])
  source = jnp.where(behind == 0, shared_end[:, None] - 1, here - 1)

  def spread(array, empty):
    array = jnp.broadcast_to(array if array.ndim == 2 else array[:, None], cells.shape)
    flat = jnp.full(num_cells, empty, jnp.int32).at[cells].set(array, mode='drop')
    return flat.reshape(num_packed, packing.columns)

  return Layout(
      cells=cells,
      tokens=spread(tokens, 0),
      places=Places(
          positions=spread(columns, 0),
          starts=spread(prompt_start, 0),
          shared_ends=spread(shared_end, 0) if packing.share_prompts else None,
          own_starts=spread(own_starts, 0),
      ),
      sources=spread(jnp.maximum(source, 0), 0),
      action_index=spread(jnp.where(batch['action_mask'], behind, -1), -1),
      num_used=end.packed + 1,
  )


class _Open(NamedTuple):
  """The packed row that is being filled, and the copy of a prompt that a row of the same group may use."""

  packed: jax.Array
  used: jax.Array
  group: jax.Array
  prompt_start: jax.Array


def _place(open_: _Open, row, *, packing: Packing):
  """Finds room for one row: (packed row, start of its prompt, start of what is behind)."""
  prompt_length, length, group = row
  own = length - prompt_length
  shares = (group == open_.group) & (open_.used + own <= packing.columns) & packing.share_prompts
  fits = shares | (open_.used + length <= packing.columns)
  packed, used = open_.packed + ~fits, jnp.where(fits, open_.used, 0)
  prompt_start = jnp.where(shares, open_.prompt_start, used)
  own_start = jnp.where(shares, used, used + prompt_length)
  return _Open(packed, own_start + own, group, prompt_start), (packed, prompt_start, own_start)


def over_cells(
    function: Callable[[Any, Layout], dict[str, jax.Array]], params: Any, layout: Layout, packing: Packing
) -> dict[str, jax.Array]:
  """`function(params, part)` of all packed rows, some at a time, with gradients to `params`.

  Args:
    function: pure; from parameters and a layout of `packing.rows` packed rows (`cells` and `num_used` left as
      they are) to float32 arrays [packing.rows, C]. It must not hold arrays that are traced.
    params: parameters.
    layout: of the rows.
    packing: how they are packed.
  Returns:
    Arrays [N, C]; 0 in packed rows that are not used.
  """
  return _over_cells(function, packing.rows, params, layout)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _over_cells(function, num_rows, params, layout):
  shape = layout.tokens.shape
  outputs = jax.eval_shape(function, params, _part(layout, 0, num_rows))
  outputs = jax.tree.map(lambda x: jnp.zeros(shape, x.dtype), outputs)

  def step(index, outputs):
    part = function(params, _part(layout, index, num_rows))
    put = lambda whole, x: jax.lax.dynamic_update_slice_in_dim(whole, x, index * num_rows, axis=0)
    return jax.tree.map(put, outputs, part)

  with loops.times(shape[0] // num_rows):
    return jax.lax.fori_loop(0, _num_parts(layout, num_rows), step, outputs)


@flax.struct.dataclass
class _Perturbed:
  """Which leaves of the parameters want a gradient: known while tracing."""

  leaves: tuple[bool, ...] = flax.struct.field(pytree_node=False)


def _forward(function, num_rows, params, layout):
  flags = tuple(x.perturbed for x in jax.tree.leaves(params, is_leaf=lambda x: hasattr(x, 'perturbed')))
  params, layout = jax.tree.map(
      lambda x: x.value, (params, layout), is_leaf=lambda x: hasattr(x, 'perturbed')
  )
  return _over_cells(function, num_rows, params, layout), (params, layout, _Perturbed(flags))


def _backward(function, num_rows, residuals, cotangents):
  params, layout, wanted = residuals
  shapes = jax.eval_shape(function, params, _part(layout, 0, num_rows))
  cotangents = {
      name: jnp.zeros(layout.tokens.shape, shapes[name].dtype) if _is_zero(x) else x
      for name, x in cotangents.items()
  }
  leaves, structure = jax.tree.flatten(params)
  trained = [leaf for leaf, want in zip(leaves, wanted.leaves, strict=True) if want]

  def whole(trained):
    trained = iter(trained)
    merged = [next(trained) if want else leaf for leaf, want in zip(leaves, wanted.leaves, strict=True)]
    return jax.tree.unflatten(structure, merged)

  def step(index, total):
    part = _part(layout, index, num_rows)
    _, pull = jax.vjp(lambda trained: function(whole(trained), part), trained)
    (grads,) = pull(jax.tree.map(lambda x: _rows(x, index, num_rows), cotangents))
    return jax.tree.map(lambda total, grad: total + grad.astype(total.dtype), total, grads)

  total = [jnp.zeros(leaf.shape, jnp.promote_types(leaf.dtype, jnp.float32)) for leaf in trained]
  with loops.times(layout.tokens.shape[0] // num_rows):
    total = iter(jax.lax.fori_loop(0, _num_parts(layout, num_rows), step, total))
  grads = [
      next(total).astype(leaf.dtype) if want else jnp.zeros_like(leaf)
      for leaf, want in zip(leaves, wanted.leaves, strict=True)
  ]
  return jax.tree.unflatten(structure, grads), None


_over_cells.defvjp(_forward, _backward, symbolic_zeros=True)


def _is_zero(cotangent) -> bool:
  return isinstance(cotangent, jax.custom_derivatives.SymbolicZero)


def _num_parts(layout: Layout, num_rows: int) -> jax.Array:
  """How often the loop runs: as often on every shard, for weights may be gathered in it."""
  return sharding.longest((layout.num_used + num_rows - 1) // num_rows)


def _rows(array: jax.Array, index: jax.Array, num_rows: int) -> jax.Array:
  return jax.lax.dynamic_slice_in_dim(array, index * num_rows, num_rows, axis=0)


def _part(layout: Layout, index: jax.Array, num_rows: int) -> Layout:
  """Some packed rows."""
  packed = layout._replace(cells=None, num_used=None)
  packed = jax.tree.map(lambda x: _rows(x, index, num_rows), packed)
  return packed._replace(cells=layout.cells, num_used=layout.num_used)


def back(array: jax.Array, layout: Layout) -> jax.Array:
  """Values [N, C] of packed tokens where their rows have them: [B, T], 0 in the padding."""
  chex.assert_equal_shape([array, layout.tokens])
  return jnp.take(array.reshape(-1), layout.cells, mode='fill', fill_value=0)
