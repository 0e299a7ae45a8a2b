"""Damage to files, as disks and people do it: bits that flip, ends that are missing, files that are gone."""

from collections.abc import Sequence
import os
from pathlib import Path
import random

DAMAGES = ('flip', 'truncate', 'delete')


def data_files(directory: Path) -> list[Path]:
  """The files below a directory that hold something, in order."""
  return sorted(path for path in directory.rglob('*') if path.is_file() and path.stat().st_size)


def flip_bit(path: Path, bit: int) -> None:
  """Flips one bit of a file, counted from its first byte's lowest."""
  data = bytearray(path.read_bytes())
  data[bit // 8] ^= 1 << bit % 8
  path.write_bytes(data)


def damage(directory: Path, rng: random.Random, kinds: Sequence[str] = DAMAGES) -> str:
  """Damages one file below a directory; returns what was done, for a person to read.

  Half of the time files are drawn by their size, else each with the same chance: most are small.
  """
  files = data_files(directory)
  weights = [path.stat().st_size for path in files] if rng.random() < 0.5 else None
  (path,) = rng.choices(files, weights)
  kind, size = rng.choice(kinds), path.stat().st_size
  if kind == 'flip':
    bit = rng.randrange(8 * size)
    flip_bit(path, bit)
    kind = f'flip bit {bit} of'
  elif kind == 'truncate':
    left = rng.randrange(size)
    os.truncate(path, left)
    kind = f'leave {left} of {size} bytes of'
  else:
    path.unlink()
  return f'{kind} {path.relative_to(directory)}'
