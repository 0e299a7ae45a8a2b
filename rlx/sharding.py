"""Where arrays live on a device mesh: what the axes of a model's parameters mean, and one table of rules.

Each model says what the trailing axes of its parameters mean, by their names (`Axes`, such as
`transformer.AXES`); the rules say over which mesh axes a meaning is split. Because optimizer moments, moving
averages and copies keep the names of the models and parameters they belong to, one function
(`state_shardings`) places a whole `State`. Leading axes that the name does not explain (stacked layers, a
population) are not split, nor is what belongs to no model. The mesh is ambient (`jax.set_mesh`): without one,
the functions below that constrain a layout return their argument.
"""

from collections.abc import Mapping
import math
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
import numpy as np

MESH_AXES = ('data', 'fsdp', 'tensor')

Axes = Mapping[str, tuple]  # name of a parameter -> meaning of its trailing axes

# Meaning -> mesh axis for training (weights spread over `fsdp`) and for sampling (gathered over it).
TRAINING_RULES = {'vocab': 'tensor', 'embed': 'fsdp', 'heads': 'tensor', 'mlp': 'tensor', None: None}
SAMPLING_RULES = {**TRAINING_RULES, 'embed': None}
ROWS = ('data', 'fsdp')


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
  fits = lambda size, axis: axis is not None and size % mesh.shape[axis] == 0
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


def gather(models: Mapping[str, Any], axes: Mapping[str, Axes]) -> Mapping[str, Any]:
  """Weights in the sampling layout: whole over `fsdp`, so that a decoding loop gathers nothing."""
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty:
    return models
  constrain = lambda path, leaf: jax.lax.with_sharding_constraint(
      leaf, partition(path, leaf, mesh, _axes_at(path, axes), SAMPLING_RULES)
  )
  known = {name: model for name, model in models.items() if name in axes}
  return {**models, **jax.tree_util.tree_map_with_path(constrain, known)}


def shard_rows(batch: Any) -> Any:
  """Rows spread over the `data` and `fsdp` axes, where they divide; otherwise left to the compiler."""
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty:
    return batch
  num_shards = math.prod(mesh.shape[axis] for axis in ROWS)
  constrain = lambda leaf: (
      jax.lax.with_sharding_constraint(leaf, PartitionSpec(ROWS))
      if leaf.ndim and leaf.shape[0] % num_shards == 0 else leaf
  )
  return jax.tree.map(constrain, batch)


def bytes_per_device(tree: Any, places: Any) -> int:
  """The largest number of bytes that any device holds of a tree of arrays or shapes at their shardings."""
  placed = zip(jax.tree.leaves(tree), jax.tree.leaves(places), strict=True)
  size = lambda leaf, place: math.prod(place.shard_shape(leaf.shape)) * leaf.dtype.itemsize
  return sum(size(leaf, place) for leaf, place in placed)
