"""Kernels on meshes: the compiler cannot cut them, so each device is given what is its own."""

from collections.abc import Callable
import math
from typing import Any

import jax
from jax.sharding import PartitionSpec

from rlx.kernels.switch import OF_HEADS


def over_rows_and_heads(function: Callable, heads: tuple[jax.Array, ...], rows: Any) -> Any:
  """`function(*heads, rows)`, in which each device computes its own rows and heads. Where a mesh does not
  divide the rows, or the heads of any of them, each device computes all.

  Args:
    function: from arrays with fewer rows and heads to a tree of arrays [B, T, heads, ..].
    heads: arrays [B, T, heads, H]; where no axis of the mesh splits rows, of any number of rows.
    rows: a tree of arrays [B, ..].
  """
  mesh = jax.sharding.get_abstract_mesh()
  free = [] if mesh.empty else [axis for axis in mesh.axis_names if axis not in mesh.manual_axes]
  if not free:
    return function(*heads, rows)
  over = tuple(axis for axis in free if axis != OF_HEADS)
  over = over if heads[0].shape[0] % math.prod(mesh.shape[axis] for axis in over) == 0 else None
  divided = OF_HEADS in free and all(x.shape[2] % mesh.shape[OF_HEADS] == 0 for x in heads)
  of_heads = PartitionSpec(over, None, OF_HEADS if divided else None)
  return jax.shard_map(
      function, in_specs=(of_heads,) * len(heads) + (PartitionSpec(over),), out_specs=of_heads,
      axis_names=set(free), check_vma=False,
  )(*heads, rows)
