"""What the processes of a run do together, one on each host; of one process all of this is nothing.

Every process runs the same program on the same arrays, a part of which lies on its own devices. The first one
alone touches the working directory: what it reads or decides, and what goes wrong there, it tells the others
(`first_says`). Each of these functions is called by all processes, in the same order; one that is missing
makes the others wait.
"""

from collections.abc import Callable
import pickle
from typing import Any

import jax
from jax.experimental import multihost_utils
import numpy as np

_PART_BYTES = 1 << 26  # that are on a device at a time


def several() -> bool:
  """Whether the run has more than one process."""
  return jax.process_count() > 1


def is_first() -> bool:
  """Whether this is the process that reads and writes."""
  return jax.process_index() == 0


def to_host(tree: Any) -> Any:
  """Arrays on the host, whole, of every process; as `jax.device_get`, which sees what is on own devices."""

  def whole(leaf):
    if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable or leaf.is_fully_replicated:
      return leaf
    return multihost_utils.process_allgather(leaf, tiled=True)

  return jax.device_get(jax.tree.map(whole, tree) if several() else tree)


def put(tree: Any, sharding: Any) -> Any:
  """Arrays that are the same in every process, on the devices; as `jax.device_put`.

  Args:
    tree: of arrays on the host, or on devices of this process.
    sharding: of all of them; that of keys is without the axis of their data.
  """
  if not several():
    return jax.device_put(tree, sharding)

  def place(leaf):
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
      return jax.random.wrap_key_data(place(jax.random.key_data(leaf)), impl=jax.random.key_impl(leaf))
    array = np.asarray(leaf)
    return jax.make_array_from_callback(array.shape, sharding, array.__getitem__)

  return jax.tree.map(place, tree)


def first_says(function: Callable[..., Any], *arguments: Any) -> Any:
  """What a function returns to the first process, who alone calls it; what it raises, all raise.

  Args:
    function: what it returns, and raises, can be pickled.
    arguments: of the first process.
  """
  if not several():
    return function(*arguments)
  said = None
  if is_first():
    try:
      said = (function(*arguments), None)
    except Exception as error:
      said = (None, error)
  value, error = pickle.loads(_of_first(pickle.dumps(said)))
  if error is not None:
    raise error
  return value


def any_says(flag: bool) -> bool:
  """Whether the flag of any process is up."""
  return bool(multihost_utils.process_allgather(np.array(flag)).any()) if several() else flag


def gathered(value: Any) -> list:
  """What each process has, in their order; values can be pickled."""
  if not several():
    return [value]
  own = np.frombuffer(pickle.dumps(value), np.uint8)
  sizes = multihost_utils.process_allgather(np.array(own.size, np.int32))
  padded = np.zeros(_rounded(sizes.max()), np.uint8)
  padded[: own.size] = own
  parts = multihost_utils.process_allgather(padded)
  return [pickle.loads(part[:size].tobytes()) for part, size in zip(parts, sizes, strict=True)]


def _of_first(data: bytes) -> bytes:
  """The bytes of the first process."""
  own = np.frombuffer(data, np.uint8)
  size = multihost_utils.broadcast_one_to_all(np.frombuffer(np.int64(own.size).tobytes(), np.uint8))
  left, parts = int(size.view(np.int64)[0]), []
  while left:
    part = np.zeros(_rounded(min(left, _PART_BYTES)), np.uint8)
    sent = own[len(parts) * _PART_BYTES :][: part.size] if is_first() else own[:0]
    part[: sent.size] = sent
    parts.append(multihost_utils.broadcast_one_to_all(part)[: min(left, _PART_BYTES)])
    left -= parts[-1].size
  return b''.join(part.tobytes() for part in parts)


def _rounded(size: int) -> int:
  """A power of two that holds so many bytes: few sizes, few programs."""
  return 1 << max(int(size) - 1, 1).bit_length()
