"""Scoring rows without their padding: several rows stand in one, and a shared prompt stands there once.

Rows of a batch have the width of the longest row that there might have been. Here they are laid out anew, one
behind the other, in packed rows of a fixed width, each token with the number of the column where what it may
see begins. A few packed rows at a time go through the model, as many times as the tokens need (a loop whose
length is decided by the data), so that computation and memory follow the tokens, not the padding. What comes
out is put back where the tokens were: nobody else needs to know.

The gradient runs the same loop again: each part is computed anew and differentiated, so that the
activations of one part are all that is ever held. That is one forward pass more than without; of so many
parts as there is memory for, activations may be kept instead.
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
    kept: of so many parts the activations are kept for the gradient; those behind are computed anew. Weights
      that a mesh splits are not among them.
  """

  columns: int
  rows: int
  share_prompts: bool
  kept: int = 0

  def __post_init__(self):
    if self.columns < 1 or self.rows < 1:
      raise ValueError(f'packed_columns={self.columns}, packed_rows={self.rows}: both must be at least 1')
    if self.kept < 0:
      raise ValueError(f'packed_kept={self.kept}: it must be at least 0')


class Layout(NamedTuple):
  """Where the tokens of rows [B, T] stand in packed rows [N, C], the first `num_used` of which are in use."""

  cells: jax.Array  # [B, T] int32, which of the N * C places the token has; N * C for padding
  tokens: jax.Array  # [N, C] int32
  places: Places  # of the tokens
  sources: jax.Array  # [N, C] int32, the column whose hidden state predicts the token
  action_index: jax.Array  # [N, C] int32, columns behind the prompt; -1 where the token is no action
  num_used: jax.Array  # [] int32


def lay_out(batch: Batch, packing: Packing) -> Layout:
  """Packs the rows of a batch: the longest first, each into the first packed row that has room for it.

  Where prompts are shared, the rows of a group stand together if they fit a packed row: each parting costs
  another copy of the prompt. Room that is too small for any whole group takes single rows.

  Args:
    batch: rows with `tokens, valid, action_mask, prompt_lengths, groups`.
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
  # What begins a packed row did not fit the one before: two neighbours fill more than one between them.
  num_packed = min(num_rows, 2 * num_rows * width // packing.columns + 1)
  num_packed += -num_packed % packing.rows
  own = lengths - prompt_lengths
  groups = batch['groups'] if packing.share_prompts else jnp.arange(num_rows)
  _, member_of = jnp.unique(groups, return_inverse=True, size=num_rows)
  own_of_group = jnp.zeros_like(own).at[member_of].add(own)[member_of]
  whole = prompt_lengths + own_of_group
  order = jnp.lexsort((member_of, -whole))
  rows = tuple(x[order] for x in (prompt_lengths, own, own_of_group, member_of))
  place = functools.partial(_place, columns=packing.columns, smallest=jnp.min(whole))
  begin = _Open(jnp.zeros(num_packed, jnp.int32), *jnp.array([-1, 0, 0, 0], jnp.int32))
  end, found = jax.lax.scan(place, begin, rows)
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
      num_used=jnp.sum(end.used > 0),
  )


class _Open(NamedTuple):
  """How full the packed rows are, and where the newest row's group stands."""

  used: jax.Array  # [N], columns
  group: jax.Array
  packed: jax.Array  # where the copy of the group's prompt is
  prompt_start: jax.Array
  left: jax.Array  # tokens behind the prompts of the group's rows that have no place yet


def _place(open_: _Open, row, *, columns: int, smallest: jax.Array):
  """Finds room for one row: (packed row, start of its prompt, start of what is behind)."""
  prompt_length, own, own_of_group, group = row
  is_newest = group == open_.group
  left = jnp.where(is_newest, open_.left, own_of_group)
  room = columns - open_.used
  shares = is_newest & (own <= room[open_.packed])
  is_alone = (room < smallest) | (prompt_length + left > columns)
  first = jnp.argmax(prompt_length + jnp.where(is_alone, own, left) <= room)
  packed = jnp.where(shares, open_.packed, first).astype(jnp.int32)
  used = open_.used[packed]
  prompt_start = jnp.where(shares, open_.prompt_start, used)
  own_start = jnp.where(shares, used, used + prompt_length)
  filled = open_.used.at[packed].set(own_start + own)
  return _Open(filled, group, packed, prompt_start, left - own), (packed, prompt_start, own_start)


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
  num_parts = layout.tokens.shape[0] // packing.rows
  return _over_cells(function, packing.rows, min(packing.kept, num_parts), params, layout)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _over_cells(function, num_rows, num_kept, params, layout):
  del num_kept
  read = lambda index: function(params, _part(layout, index, num_rows))
  return _read_parts(read, _nothing_read(read, layout), layout, num_rows, begin=0)


def _nothing_read(read, layout) -> dict[str, jax.Array]:
  return jax.tree.map(lambda x: jnp.zeros(layout.tokens.shape, x.dtype), jax.eval_shape(read, 0))


def _read_parts(read, outputs, layout, num_rows, *, begin):
  """Outputs [N, C] with what `read` says of each part from `begin` on."""
  if begin == layout.tokens.shape[0] // num_rows:
    return outputs
  step = lambda index, outputs: _put(outputs, read(index), index * num_rows)
  with loops.times(max(_parts_of_long_rows(layout, num_rows) - begin, 1)):
    return jax.lax.fori_loop(begin, _num_parts(layout, num_rows), step, outputs)


def _parts_of_long_rows(layout, num_rows) -> int:
  """How many parts there are where every row is as long as may be, shares nothing, and leaves no room."""
  num_packed, columns = layout.tokens.shape
  return min(-(-layout.cells.size // (columns * num_rows)), num_packed // num_rows)


def _put(whole, part, index):
  """A tree of arrays in which `part` stands from `index` on."""
  return jax.tree.map(lambda x, y: jax.lax.dynamic_update_slice_in_dim(x, y, index, axis=0), whole, part)


@flax.struct.dataclass
class _Perturbed:
  """Which leaves of the parameters want a gradient: known while tracing."""

  leaves: tuple[bool, ...] = flax.struct.field(pytree_node=False)

  def trained(self, params) -> list[jax.Array]:
    return [leaf for leaf, want in zip(jax.tree.leaves(params), self.leaves, strict=True) if want]

  def differentiated(self, function, params):
    """What `jax.vjp` says of `function(params, part)`, a function of `part`, by what is trained."""
    leaves, structure = jax.tree.flatten(params)

    def whole(trained):
      trained = iter(trained)
      merged = [next(trained) if want else leaf for leaf, want in zip(leaves, self.leaves, strict=True)]
      return jax.tree.unflatten(structure, merged)

    return lambda part: jax.vjp(lambda trained: function(whole(trained), part), self.trained(params))


def _forward(function, num_rows, num_kept, params, layout):
  flags = tuple(x.perturbed for x in jax.tree.leaves(params, is_leaf=lambda x: hasattr(x, 'perturbed')))
  params, layout = jax.tree.map(
      lambda x: x.value, (params, layout), is_leaf=lambda x: hasattr(x, 'perturbed')
  )
  wanted = _Perturbed(flags)
  if not num_kept:
    return _over_cells(function, num_rows, num_kept, params, layout), (params, layout, wanted, None)
  differentiated = wanted.differentiated(function, params)

  def activations(index):
    values, pull = differentiated(_part(layout, index, num_rows))
    return values, [x for x in pull.opaque_residuals if not _is_leaf(x, params)]

  def step(index, carry):
    outputs, kept = carry
    values, residuals = activations(index)
    residuals = jax.tree.map(lambda x: x[None], residuals)
    return _put(outputs, values, index * num_rows), _put(kept, residuals, index)

  read = lambda index: function(params, _part(layout, index, num_rows))
  _, shapes = jax.eval_shape(activations, 0)
  room = jax.tree.map(lambda x: jax.lax.empty((num_kept, *x.shape), x.dtype), shapes)
  with loops.times(num_kept):
    end = jnp.minimum(num_kept, _num_parts(layout, num_rows))
    outputs, kept = jax.lax.fori_loop(0, end, step, (_nothing_read(read, layout), room))
  return _read_parts(read, outputs, layout, num_rows, begin=num_kept), (params, layout, wanted, kept)


def _backward(function, num_rows, num_kept, residuals, cotangents):
  params, layout, wanted, kept = residuals
  shapes = jax.eval_shape(function, params, _part(layout, 0, num_rows))
  cotangents = {
      name: jnp.zeros(layout.tokens.shape, shapes[name].dtype) if _is_zero(x) else x
      for name, x in cotangents.items()
  }
  differentiated = wanted.differentiated(function, params)

  def step(index, total, kept=None):
    _, pull = differentiated(_part(layout, index, num_rows))
    if kept is not None:  # what was just computed is then used by nobody, and the compiler leaves it out
      own = iter([x[index] for x in kept])
      pull.opaque_residuals = [
          x if _is_leaf(x, params) else next(own) for x in pull.opaque_residuals
      ]
    (grads,) = pull(jax.tree.map(lambda x: _rows(x, index, num_rows), cotangents))
    return jax.tree.map(lambda total, grad: total + grad.astype(total.dtype), total, grads)

  total = [jnp.zeros(x.shape, jnp.promote_types(x.dtype, jnp.float32)) for x in wanted.trained(params)]
  num_parts = _num_parts(layout, num_rows)
  if num_kept:
    with loops.times(num_kept):
      keeping = functools.partial(step, kept=kept)
      total = jax.lax.fori_loop(0, jnp.minimum(num_kept, num_parts), keeping, total)
  if layout.tokens.shape[0] // num_rows > num_kept:
    with loops.times(max(_parts_of_long_rows(layout, num_rows) - num_kept, 1)):
      total = jax.lax.fori_loop(num_kept, num_parts, step, total)
  total, (leaves, structure) = iter(total), jax.tree.flatten(params)
  grads = [
      next(total).astype(leaf.dtype) if want else jnp.zeros_like(leaf)
      for leaf, want in zip(leaves, wanted.leaves, strict=True)
  ]
  return jax.tree.unflatten(structure, grads), None


_over_cells.defvjp(_forward, _backward, symbolic_zeros=True)


def _is_leaf(residual, params) -> bool:
  """Whether what a gradient needs is a parameter that is not trained itself: it is at hand anyway."""
  return any(residual is leaf for leaf in jax.tree.leaves(params))


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
