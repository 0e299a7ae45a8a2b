"""Files of the safetensors format, one tensor at a time.

A file is the length of a header (8 bytes, little-endian), the header (JSON: name -> dtype, shape, first and
last byte) and the bytes of the tensors. The package of that name wants all tensors of a file in memory to
write it, and maps the whole file to read it: behind the last tensor of 403 MB in bfloat16, its `safe_open`
(0.8.0, to numpy) had 398 MB of the file resident, which counts where memory is limited. Here it is the
tensor at hand, 32 MB: neither takes more memory than the largest one.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import json
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import xxhash

FLOATS = {
    'F64': np.dtype(np.float64),
    'F32': np.dtype(np.float32),
    'F16': np.dtype(np.float16),
    'BF16': np.dtype(ml_dtypes.bfloat16),
}
_MAX_HEADER_BYTES = 100_000_000  # the format's own limit


def digest_of(directory: str | Path) -> str:
  """What the weights and settings of a directory are told apart by: xxh3 of its names and bytes."""
  digest = xxhash.xxh3_128()
  for path in sorted(Path(directory).glob('*')):
    if path.suffix in ('.safetensors', '.json'):
      digest.update(path.name.encode())
      with path.open('rb') as file:
        while part := file.read(1 << 24):
          digest.update(part)
  return digest.hexdigest()


@dataclasses.dataclass(frozen=True)
class Stored:
  """A tensor in a file: `shape`, the format's name of its `dtype`, and which bytes of `path` it is."""

  path: Path
  dtype: str
  shape: tuple[int, ...]
  start: int
  stop: int

  def read(self) -> np.ndarray:
    """The tensor.

    Raises:
      ValueError: it holds no floating-point numbers, or some that are infinite or NaN.
    """
    if self.dtype not in FLOATS:
      raise ValueError(f'{self.path} holds a tensor of {self.dtype}; known are {", ".join(FLOATS)}')
    dtype = FLOATS[self.dtype]
    array = np.fromfile(self.path, dtype, (self.stop - self.start) // dtype.itemsize, offset=self.start)
    if not _are_finite(array):
      raise ValueError(f'{self.path} holds {self.dtype} weights that are infinite or NaN; fetch it again')
    return array.reshape(self.shape)

  def equals(self, other: 'Stored') -> bool:
    """Whether two tensors have the same shape, dtype and bytes; a few megabytes are compared at a time."""
    if (self.shape, self.dtype) != (other.shape, other.dtype):
      return False
    step, size = 2**22, self.stop - self.start
    read = lambda tensor, at: np.fromfile(
        tensor.path, np.uint8, min(step, size - at), offset=tensor.start + at
    )
    return all(np.array_equal(read(self, at), read(other, at)) for at in range(0, size, step))


def _are_finite(array: np.ndarray) -> bool:
  """Whether all numbers are; those of 16 bits are looked at as integers, which is several times as fast."""
  if array.dtype.itemsize > 2:
    return bool(np.isfinite(array).all())
  exponent = {'float16': 0x7C00, 'bfloat16': 0x7F80}[array.dtype.name]  # all ones where it is none
  return not ((array.view(np.uint16) & np.uint16(exponent)) == exponent).any()


@dataclasses.dataclass(frozen=True)
class Written:
  """A tensor to be written; `fetch` returns its array when its turn has come."""

  name: str
  shape: tuple[int, ...]
  dtype: np.dtype
  fetch: Callable[[], np.ndarray]

  @property
  def num_bytes(self) -> int:
    """Size in the file."""
    return math.prod(self.shape) * self.dtype.itemsize


def read_header(path: Path) -> tuple[dict[str, Stored], dict[str, str]]:
  """The tensors of a file by name, unread, and its metadata.

  Raises:
    ValueError: it is not of this format, or shorter than its header says.
  """
  size = path.stat().st_size
  with path.open('rb') as file:
    header_size = int.from_bytes(file.read(8), 'little')
    first = 8 + header_size
    try:
      if header_size > min(size, _MAX_HEADER_BYTES):
        raise ValueError
      header = json.loads(file.read(header_size))
      metadata = header.pop('__metadata__', {})
      stored = {name: _stored(path, first, **entry) for name, entry in header.items()}
    except (ValueError, TypeError, AttributeError):
      raise ValueError(f'{path} is not a safetensors file; fetch it again') from None
  last = max((tensor.stop for tensor in stored.values()), default=first)
  if last > size:
    raise ValueError(f'{path} ends after {size} of {last} bytes; fetch it again')
  return stored, metadata


def _stored(path, first, *, dtype, shape, data_offsets):
  start, stop = data_offsets
  if not 0 <= start <= stop:
    raise ValueError
  if dtype in FLOATS and math.prod(shape) * FLOATS[dtype].itemsize != stop - start:
    raise ValueError
  return Stored(path, dtype, tuple(shape), first + start, first + stop)


def write(path: Path, tensors: Sequence[Written], metadata: Mapping[str, str]) -> None:
  """Writes a file; each tensor is fetched when its turn has come, and forgotten.

  Args:
    path: of the new file.
    tensors: in the order of the file.
    metadata: for the header.
  """
  names = {dtype: name for name, dtype in FLOATS.items()}
  header, start = {'__metadata__': dict(metadata)}, 0
  for tensor in tensors:
    stop = start + tensor.num_bytes
    entry = {'dtype': names[tensor.dtype], 'shape': tensor.shape, 'data_offsets': (start, stop)}
    header[tensor.name], start = entry, stop
  text = json.dumps(header, separators=(',', ':')).encode()
  text += b' ' * (-len(text) % 8)  # so that the tensors are aligned
  with path.open('wb') as file:
    file.write(len(text).to_bytes(8, 'little') + text)
    for tensor in tensors:
      np.ascontiguousarray(tensor.fetch(), tensor.dtype).tofile(file)
