"""Where arrays live on a device mesh: what the axes of a model's parameters mean, and one table of rules.

Each model says what the trailing axes of its parameters mean, by their names (`Axes`, such as
`transformer.AXES`); the rules say over which mesh axes a meaning is split. Because optimizer moments, moving
averages and copies keep the names of the models and parameters they belong to, one function
(`state_shardings`) places a whole `State`. Leading axes that the name does not explain (stacked layers, a
population) are not split, nor is what belongs to no model. The mesh is ambient (`jax.set_mesh`): without one,
the functions below that constrain a layout return their argument.

What a model says of rows is computed by `over_rows`: each shard of devices reads, samples and scores its own
rows, as long as they take it, and rows stay where they are. A weight that is split over `fsdp` is a `Shard`
there, which is made whole, in the dtype of computation, by the product that needs it, and again by that
product's gradient, whose sum goes back to the shards. `tensor` is left to the compiler.
"""

from collections.abc import Callable, Mapping
import dataclasses
import functools
import logging
import math
import os
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
import numpy as np

MESH_AXES = ('data', 'fsdp', 'tensor')

Axes = Mapping[str, tuple]  # name of a parameter -> meaning of its trailing axes

ROWS = ('data', 'fsdp')
# Meaning -> mesh axes for training (weights spread over `fsdp`) and for sampling (gathered over it).
TRAINING_RULES = {
    'vocab': 'tensor', 'embed': 'fsdp', 'heads': 'tensor', 'mlp': 'tensor', 'rows': ROWS, None: None,
}
SAMPLING_RULES = {**TRAINING_RULES, 'embed': None}
LAYERS = 'layers'  # what stands below this name is made whole a layer at a time, by who scans over it

_LOGGER = logging.getLogger('rlx')
_told: set[tuple[int, int]] = set()  # (rows, shards) that do not divide, and were said


def make_mesh(*, data: int, fsdp: int, tensor: int, beside: Mesh | None = None) -> Mesh:
  """A device mesh of `data * fsdp * tensor` devices.

  Args:
    data: replicas of the weights; -1 takes the devices that the other two leave.
    fsdp: devices over which weights and rows are both split.
    tensor: devices over which heads, hidden units and the vocabulary are split.
    beside: another mesh, whose devices are not taken.
  Raises:
    ValueError: the sizes need more devices than there are, or -1 would leave some idle.
  """
  devices = [device for device in jax.devices() if beside is None or device not in beside.devices.ravel()]
  num_devices = len(devices)
  if data == -1:
    data = max(num_devices // max(fsdp * tensor, 1), 1)
    if data * fsdp * tensor < num_devices:
      raise ValueError(
          f'mesh data=-1 x fsdp={fsdp} x tensor={tensor}: {fsdp * tensor} does not divide the {num_devices} '
          'devices that are here; change config.mesh, or say how many replicas'
      )
  size = data * fsdp * tensor
  if size > num_devices or min(data, fsdp, tensor) < 1:
    raise ValueError(
        f'mesh data={data} x fsdp={fsdp} x tensor={tensor} needs {size} devices, {num_devices} are free; '
        'lower config.mesh, or start with more devices'
    )
  grid = np.array(devices[:size]).reshape(data, fsdp, tensor)
  return Mesh(grid, MESH_AXES, axis_types=(AxisType.Auto,) * 3)


def partition(path, leaf, mesh, axes: Axes, rules=TRAINING_RULES) -> PartitionSpec:
  """How a leaf is split, from the last name on its path; an axis that does not divide is kept whole."""
  name = next((k.key for k in reversed(path) if isinstance(k, jax.tree_util.DictKey)), None)
  meanings = axes.get(name, ())
  if len(meanings) > leaf.ndim:
    return PartitionSpec()
  padding = leaf.ndim - len(meanings)
  spec = [None] * padding + [rules[meaning] for meaning in meanings]
  parts = lambda axes: math.prod(mesh.shape[axis] for axis in ([axes] if isinstance(axes, str) else axes))
  fits = lambda size, axes: axes is not None and size % parts(axes) == 0
  return PartitionSpec(*(a if fits(n, a) else None for n, a in zip(leaf.shape, spec, strict=True)))


def shardings(params: Any, mesh: Mesh, axes: Axes) -> Any:
  """A `NamedSharding` for every leaf of a model's parameters, arrays or `ShapeDtypeStruct`s."""
  place = lambda path, leaf: NamedSharding(mesh, partition(path, leaf, mesh, axes))
  return jax.tree_util.tree_map_with_path(place, params)


def state_shardings(state: Any, mesh: Mesh, axes: Mapping[str, Axes], rules=TRAINING_RULES) -> Any:
  """A `NamedSharding` for every leaf of a state, or of any tree with models in it by their names.

  Args:
    state: arrays or `ShapeDtypeStruct`s.
    mesh: where they are put.
    axes: model -> what its axes mean; what lies below no such name is whole on every device.
    rules: meaning of an axis -> mesh axis.
  """
  place = lambda path, leaf: NamedSharding(mesh, partition(path, leaf, mesh, _axes_at(path, axes), rules))
  return jax.tree_util.tree_map_with_path(place, state)


def _axes_at(path, axes: Mapping[str, Axes]) -> Axes:
  """The axes of the model that a path leads into: the first name on it that is one."""
  names = (k.key for k in path if isinstance(k, jax.tree_util.DictKey))
  return next((axes[name] for name in names if name in axes), {})


def gather(params: Any, axes: Axes) -> Any:
  """A model's weights whole over `fsdp`, for a decoding loop that is not in `over_rows`."""
  mesh = jax.sharding.get_abstract_mesh()
  if row_shards() == 1:
    return params
  constrain = lambda path, leaf: jax.lax.with_sharding_constraint(
      leaf, partition(path, leaf, mesh, axes, SAMPLING_RULES)
  )
  return jax.tree_util.tree_map_with_path(constrain, params)


def shard_rows(batch: Any) -> Any:
  """Rows spread over the `data` and `fsdp` axes, where they divide; otherwise every device has them all.

  A number of rows that does not divide is said in the log, once, with the nearest ones that do.
  """
  num_shards = row_shards()
  if num_shards == 1:
    return batch
  for num_rows in {leaf.shape[0] for leaf in jax.tree.leaves(batch) if leaf.ndim}:
    say_what_does_not_divide(num_rows, num_shards)
  constrain = lambda leaf: (
      jax.lax.with_sharding_constraint(leaf, PartitionSpec(ROWS))
      if leaf.ndim and leaf.shape[0] % num_shards == 0 else leaf
  )
  return jax.tree.map(constrain, batch)


def row_shards() -> int:
  """How many parts the rows of a batch are cut into: 1 without a mesh, and inside `over_rows`."""
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty or set(ROWS) & set(mesh.manual_axes):
    return 1
  return math.prod(mesh.shape[axis] for axis in ROWS)


def looked_up(table: Any, index: jax.Array) -> Any:
  """`table[index]`, of a table whose rows are split over `data` and `fsdp` (their meaning is 'rows').

  Every device looks up what it has, and the finds are summed where their rows are: neither the table nor what
  was found is anywhere whole. A table whose rows do not divide is whole everywhere, as is any without a mesh.
  No gradient is taken of it.

  Args:
    table: a tree of arrays [M, ...].
    index: [B] integers, of rows that there are.
  """
  num_shards, (num_rows,) = row_shards(), {leaf.shape[0] for leaf in jax.tree.leaves(table)}
  if num_shards == 1 or num_rows % num_shards:
    return jax.tree.map(lambda x: x[index], table)

  def local(table, index):
    own = num_rows // num_shards
    at = index - jax.lax.axis_index(ROWS) * own
    here = (at >= 0) & (at < own)
    found = lambda x: jnp.where(here.reshape(-1, *[1] * (x.ndim - 1)), x[jnp.clip(at, 0, own - 1)], 0)
    scatter = lambda x: jax.lax.psum_scatter(found(x), ROWS, scatter_dimension=0, tiled=True)
    return jax.tree.map(scatter, table)

  found = jax.shard_map(
      local, in_specs=(PartitionSpec(ROWS), PartitionSpec()), out_specs=PartitionSpec(ROWS),
      axis_names=set(ROWS), check_vma=False,
  )(table, _filled_up(index, num_shards))
  return jax.tree.map(lambda x: x[: index.shape[0]], found)


def tensor_shards() -> int:
  """How many devices share a matrix's columns: 1 without a mesh."""
  mesh = jax.sharding.get_abstract_mesh()
  return 1 if mesh.empty or 'tensor' in mesh.manual_axes else mesh.shape['tensor']


def sum_of_parts(
    function: Callable[[Any, Any], jax.Array], same: Any, parts: Any, *, axes: Any
) -> jax.Array:
  """`function(same, parts)`, a sum over axes that are split over `tensor`: devices sum what they have of it,
  then over each other, once; so they do for the gradient of what is the same on all of them.

  Args:
    function: of arrays.
    same: a tree of them that all devices have.
    parts: a tree of those that are split, where `tensor` divides them all; otherwise nothing is split here.
    axes: of each of `parts`, the one that is summed over.
  """
  shards = tensor_shards()
  sizes = jax.tree.leaves(jax.tree.map(lambda x, axis: x.shape[axis], parts, axes))
  if shards == 1 or any(size % shards for size in sizes):
    return function(same, parts)
  split = jax.tree.map(lambda axis: PartitionSpec(*[None] * axis, 'tensor'), axes)
  local = lambda same, parts: _summed(function(same, parts))
  return _over_tensor(local, (PartitionSpec(), split), PartitionSpec())(same, parts)


@jax.custom_vjp
def _summed(x):
  """The sum over `tensor`. All devices have its gradient, of which `shard_map` gives each a share: that of
  `psum` would add them up again, at the price of a sum."""
  return jax.lax.psum(x, 'tensor')


_summed.defvjp(lambda x: (_summed(x), None), lambda _, share: (share * jax.lax.axis_size('tensor'),))


def own_columns(x: jax.Array) -> jax.Array:
  """[B, T, ...], whole on every device of `tensor`, of which each of the n devices keeps T / n columns.

  For what only has to be kept: between two blocks of a decoder `tensor` would hold the stream n times. A last
  part that is shorter is filled up with zeros. Where no gradient is taken it is x.
  Source: Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198, sequence parallelism.
  """
  missing = -x.shape[1] % tensor_shards()
  return _own_columns(jnp.pad(x, ((0, 0), (0, missing)) + ((0, 0),) * (x.ndim - 2)))


def whole_columns(x: jax.Array, length: int) -> jax.Array:
  """What `own_columns` made of [B, length, ...], whole again on every device."""
  return _whole_columns(x)[:, :length]


def _cut(x):
  def own(x):
    size = x.shape[1] // jax.lax.axis_size('tensor')
    return jax.lax.dynamic_slice_in_dim(x, jax.lax.axis_index('tensor') * size, size, axis=1)

  return _over_tensor(own, PartitionSpec(), PartitionSpec(None, 'tensor'))(x)


def _gather(x):
  gather = lambda x: jax.lax.all_gather(x, 'tensor', axis=1, tiled=True)
  return _over_tensor(gather, PartitionSpec(None, 'tensor'), PartitionSpec())(x)


# Where no gradient is taken nothing is kept either, and the stream stays as it is. The gradient of a whole
# array is whole on every device, too: it is cut and gathered, and never summed.
_own_columns = jax.custom_vjp(lambda x: x)
_whole_columns = jax.custom_vjp(lambda x: x)
_own_columns.defvjp(lambda x: (_cut(x), None), lambda _, gradient: (_gather(gradient),))
_whole_columns.defvjp(lambda x: (_gather(x), None), lambda _, gradient: (_cut(gradient),))


def _over_tensor(function, in_specs, out_specs):
  """What each device of `tensor` does; other axes are left as they are."""
  return jax.shard_map(
      function, in_specs=in_specs, out_specs=out_specs, axis_names={'tensor'}, check_vma=False
  )


@functools.partial(jax.tree_util.register_dataclass, data_fields=('part',), meta_fields=('spec',))
@dataclasses.dataclass(frozen=True)
class Shard:
  """The part of a weight that a device has, inside `over_rows`.

  Attributes:
    part: an array that is split over `fsdp`.
    spec: mesh axis, or None, of each of its trailing axes.
  """

  part: jax.Array
  spec: tuple[str | None, ...]


def whole(weights: Any, dtype: Any) -> Any:
  """Weights with every `Shard` among them made whole, in the dtype of computation; others as they are.

  The gradient of a whole weight is summed over the devices in the dtype of its parts, and each keeps its own.
  """
  gather = lambda x: _gathered(x, dtype) if is_shard(x) else x
  return jax.tree.map(gather, weights, is_leaf=is_shard)


def is_shard(x: Any) -> bool:
  """Whether this is a weight that has to be made whole."""
  return isinstance(x, Shard)


def _gathered(shard: Shard, dtype: Any) -> jax.Array:
  axis = shard.part.ndim - len(shard.spec) + shard.spec.index('fsdp')
  gather = lambda part: _all_gather(part, axis, jnp.dtype(dtype).name, part.dtype.name)
  tensor = [None if mesh_axis == 'fsdp' else mesh_axis for mesh_axis in shard.spec]
  if not any(tensor):
    return gather(shard.part)
  # The compiler would first make whole over `tensor` what it is told to gather over `fsdp`.
  spec = PartitionSpec(*[None] * (shard.part.ndim - len(tensor)), *tensor)
  return _over_tensor(gather, spec, spec)(shard.part)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def _all_gather(part, axis, dtype, of_parts):
  del of_parts
  return jax.lax.all_gather(part.astype(dtype), 'fsdp', axis=axis, tiled=True)


def makes_whole(how: Mapping[str, Any]) -> bool:
  """Whether a policy of `jax.checkpoint`, which is told `how` of an operation, is asked about `whole`."""
  inner = getattr(how.get('call_jaxpr'), 'eqns', ())
  return any(x.primitive.name == 'all_gather' and 'fsdp' in x.params['axis_name'] for x in inner)


def _scatter_sum(axis, dtype, of_parts, residuals, cotangent):
  del dtype, residuals
  sums = jax.lax.psum_scatter(cotangent.astype(of_parts), 'fsdp', scatter_dimension=axis, tiled=True)
  return (sums,)


_all_gather.defvjp(lambda part, *static: (_all_gather(part, *static), ()), _scatter_sum)


def over_rows(
    function: Callable[[Any, Any], Any],
    params: Any,
    rows: Any,
    *,
    axes: Axes,
    dtype: Any,
    streamed: bool = True,
    out_axes: Any = 0,
) -> Any:
  """`function(params, rows)`, in which each shard of devices computes what becomes of its own rows.

  A row must not depend on others. Loops of the function end when the rows of the shard do, unless it asks
  otherwise (`longest`). Without a mesh, and inside another `over_rows`, the function is simply called.

  Args:
    function: from parameters and rows [N, ...] to arrays with rows.
    params: of a model, laid out for training.
    rows: arrays [B, ...]; numbers of rows that do not divide are filled up with the last row.
    axes: what the axes of the parameters mean.
    dtype: of computation, in which weights are gathered.
    streamed: the function makes the weights of stacked layers whole itself, one layer at a time (`whole`);
      otherwise all are whole from the beginning, as a decoding loop needs them.
    out_axes: which axis of what it returns are rows, a number or a tree of them, as for `jax.vmap`.
  """
  num_shards = row_shards()
  if num_shards == 1:
    return function(params, rows)
  mesh = jax.sharding.get_abstract_mesh()
  specs = _specs(params, mesh, axes)

  def local(params, rows):
    params = jax.tree_util.tree_map_with_path(
        lambda path, leaf, spec: _whole_unless_streamed(path, leaf, spec, dtype, streamed), params, specs
    )
    return function(params, rows)

  num_rows = {leaf.shape[0] for leaf in jax.tree.leaves(rows)}
  spread = jax.tree.map(functools.partial(_filled_up, num_shards=num_shards), rows)
  places = jax.tree.map(lambda spec: PartitionSpec(*(a if a == 'fsdp' else None for a in spec)), specs)
  out_specs = jax.tree.map(lambda axis: PartitionSpec(*[None] * axis, ROWS), out_axes)
  out = jax.shard_map(
      local, in_specs=(places, PartitionSpec(ROWS)), out_specs=out_specs, axis_names=set(ROWS),
      check_vma=False,
  )(params, spread)
  if all(n % num_shards == 0 for n in num_rows):
    return out
  (num_rows,) = num_rows
  cut = lambda axis, tree: jax.tree.map(lambda x: jax.lax.slice_in_dim(x, 0, num_rows, axis=axis), tree)
  return jax.tree.map(cut, out_axes, out)


def longest(length: jax.Array) -> jax.Array:
  """The largest of the shards' numbers [] inside `over_rows`, for loops that gather weights; else its own."""
  manual = set(jax.sharding.get_abstract_mesh().manual_axes) & set(ROWS)
  return jax.lax.pmax(length, tuple(sorted(manual))) if manual else length


def _specs(params, mesh, axes: Axes) -> Any:
  """The `PartitionSpec` of each leaf, of all its axes."""
  def spec(path, leaf):
    found = partition(path, leaf, mesh, axes)
    return PartitionSpec(*found, *[None] * (leaf.ndim - len(found)))

  return jax.tree_util.tree_map_with_path(spec, params)


def _whole_unless_streamed(path, leaf, spec, dtype, streamed):
  """A leaf in `over_rows`: whole, or a `Shard` if it is split and another makes it whole."""
  if 'fsdp' not in spec or jax.sharding.get_abstract_mesh().shape['fsdp'] == 1:
    return leaf
  stacked = any(isinstance(k, jax.tree_util.DictKey) and k.key == LAYERS for k in path)
  shard = Shard(leaf, tuple(spec)[1:] if stacked else tuple(spec))
  return shard if streamed and stacked else _gathered(shard, dtype)


def _filled_up(array: jax.Array, num_shards: int) -> jax.Array:
  """Rows with copies of the last one behind them, up to a number that divides."""
  num_rows = array.shape[0]
  missing = -num_rows % num_shards
  if missing:
    array = array[jnp.minimum(jnp.arange(num_rows + missing), num_rows - 1)]
  return array


def say_what_does_not_divide(num_rows: int, num_shards: int) -> None:
  """Says in the log, once, that rows do not divide over devices, and the nearest numbers that do."""
  if num_rows % num_shards and (num_rows, num_shards) not in _told:
    _told.add((num_rows, num_shards))
    below = num_rows - num_rows % num_shards
    nearest = f'{below} or {below + num_shards}' if below else num_shards
    _LOGGER.warning(
        'rows: %d do not divide over the %d devices of data x fsdp, some of which will idle; nearest: %s',
        num_rows, num_shards, nearest,
    )


class InPlace:
  """A compiled function of a tree, whose arrays stay where they were: left to itself, the compiler may put
  them elsewhere. Then a donated array is copied, and another program runs from there on than in a run that
  is resumed.
  """

  def __init__(self, function: Callable, out: Callable[[Any], Any], **options):
    """Nothing is compiled yet.

    Args:
      function: of a tree of arrays, and of whatever else.
      out: the places of what it returns, None for any, from those of the tree.
      options: of `jax.jit`.
    """
    self._function, self._out, self._options = function, out, options
    self._jitted: dict[Any, Callable] = {}

  def __call__(self, tree: Any, *rest: Any) -> Any:
    return self._at(tree)(tree, *rest)

  def trace(self, tree: Any, *rest: Any) -> Any:
    """As `jax.jit(..).trace`; shapes may have their shardings."""
    return self._at(tree).trace(tree, *rest)

  def _at(self, tree: Any) -> Callable:
    leaves, structure = jax.tree.flatten(tree)
    places = tuple(getattr(leaf, 'sharding', None) for leaf in leaves)
    if (places, structure) not in self._jitted:
      known = {} if None in places else {'out_shardings': self._out(structure.unflatten(places))}
      self._jitted[places, structure] = jax.jit(self._function, **known, **self._options)
    return self._jitted[places, structure]


def bytes_per_device(tree: Any, places: Any) -> int:
  """The largest number of bytes that any device holds of a tree of arrays or shapes at their shardings."""
  placed = zip(jax.tree.leaves(tree), jax.tree.leaves(places), strict=True)
  size = lambda leaf, place: math.prod(place.shard_shape(leaf.shape)) * leaf.dtype.itemsize
  return sum(size(leaf, place) for leaf, place in placed)


def memory_of(device: jax.Device) -> int | None:
  """Bytes that a device has for arrays, or None where it does not say; those of a CPU share the machine's."""
  if device.platform == 'cpu':
    return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') // jax.local_device_count()
  stats = device.memory_stats()
  return None if stats is None else stats.get('bytes_limit')
