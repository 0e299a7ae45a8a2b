"""Where arrays live on a device mesh: one table of logical axes, one table of rules.

A parameter's *name* says what its trailing axes mean (`PARAMETER_AXES`); the rules say over which mesh axes
a meaning is split. Because optimizer moments, moving averages and adapters keep the names of the parameters
they belong to, one function (`shardings`) places a whole `State`. Leading axes that the name does not
explain (stacked layers, a population) are not split. The mesh is ambient (`jax.set_mesh`): without one, the
functions below that constrain a layout return their argument.
"""

import math
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
import numpy as np

MESH_AXES = ('data', 'fsdp', 'tensor')

# Name of a parameter -> meaning of its trailing axes.
PARAMETER_AXES = {
    'embedding': ('vocab', 'embed'),
    'position_embedding': (None, 'embed'),
    'unembedding': ('vocab', 'embed'),
    'query': ('embed', 'heads', None),
    'key': ('embed', 'heads', None),
    'value': ('embed', 'heads', None),
    'attention_out': ('heads', None, 'embed'),
    'gate': ('embed', 'mlp'),
    'up': ('embed', 'mlp'),
    'down': ('mlp', 'embed'),
    'router': ('embed', None),
    'expert_gate': (None, 'embed', 'mlp'),
    'expert_up': (None, 'embed', 'mlp'),
    'expert_down': (None, 'mlp', 'embed'),
    'query_bias': ('heads', None),
    'key_bias': ('heads', None),
    'value_bias': ('heads', None),
    'gate_bias': ('mlp',),
    'up_bias': ('mlp',),
    **dict.fromkeys(('query_lora_a', 'key_lora_a', 'value_lora_a'), ('embed', None)),
    **dict.fromkeys(('query_lora_b', 'key_lora_b', 'value_lora_b'), (None, 'heads', None)),
    'attention_out_lora_a': ('heads', None, None),
    'attention_out_lora_b': (None, 'embed'),
    **dict.fromkeys(('gate_lora_a', 'up_lora_a'), ('embed', None)),
    **dict.fromkeys(('gate_lora_b', 'up_lora_b'), (None, 'mlp')),
    'down_lora_a': ('mlp', None),
    'down_lora_b': (None, 'embed'),
}

# Meaning -> mesh axis for training (weights spread over `fsdp`) and for sampling (gathered over it).
TRAINING_RULES = {'vocab': 'tensor', 'embed': 'fsdp', 'heads': 'tensor', 'mlp': 'tensor', None: None}
SAMPLING_RULES = {**TRAINING_RULES, 'embed': None}
ROWS = ('data', 'fsdp')


def make_mesh(*, data: int, fsdp: int, tensor: int) -> Mesh:
  """A device mesh of `data * fsdp * tensor` devices.

  Args:
    data: replicas of the weights; -1 takes the devices that the other two leave.
    fsdp: devices over which weights and rows are both split.
    tensor: devices over which heads, hidden units and the vocabulary are split.
  Raises:
    ValueError: the sizes need more devices than there are, or -1 would leave some idle.
  """
  num_devices = jax.device_count()
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
        f'mesh data={data} x fsdp={fsdp} x tensor={tensor} needs {size} devices, {num_devices} are here; '
        'lower config.mesh, or start with more devices'
    )
  devices = np.array(jax.devices()[:size]).reshape(data, fsdp, tensor)
  return Mesh(devices, MESH_AXES, axis_types=(AxisType.Auto,) * 3)


def partition(path, leaf, mesh, rules=TRAINING_RULES) -> PartitionSpec:
  """How a leaf is split, from the last name on its path; an axis that does not divide is kept whole."""
  name = next((k.key for k in reversed(path) if isinstance(k, jax.tree_util.DictKey)), None)
  axes = PARAMETER_AXES.get(name, ())
  if len(axes) > leaf.ndim:
    return PartitionSpec()
  padding = leaf.ndim - len(axes)
  spec = [None] * padding + [rules[axis] for axis in axes]
  fits = lambda size, axis: axis is not None and size % mesh.shape[axis] == 0
  return PartitionSpec(*(a if fits(n, a) else None for n, a in zip(leaf.shape, spec, strict=True)))


def shardings(tree: Any, mesh: Mesh) -> Any:
  """A `NamedSharding` for every leaf of a tree of arrays or `ShapeDtypeStruct`s."""
  place = lambda path, leaf: NamedSharding(mesh, partition(path, leaf, mesh))
  return jax.tree_util.tree_map_with_path(place, tree)


def gather(models: Any) -> Any:
  """Weights in the sampling layout: whole over `fsdp`, so that a decoding loop gathers nothing."""
  mesh = jax.sharding.get_abstract_mesh()
  if mesh.empty:
    return models
  constrain = lambda path, leaf: jax.lax.with_sharding_constraint(
      leaf, partition(path, leaf, mesh, SAMPLING_RULES)
  )
  return jax.tree_util.tree_map_with_path(constrain, models)


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


def bytes_per_device(tree: Any, mesh: Mesh) -> int:
  """The largest number of bytes that any device holds of a tree of arrays or shapes placed by `shardings`."""
  placed = zip(jax.tree.leaves(tree), jax.tree.leaves(shardings(tree, mesh)), strict=True)
  size = lambda leaf, place: math.prod(place.shard_shape(leaf.shape)) * leaf.dtype.itemsize
  return sum(size(leaf, place) for leaf, place in placed)
