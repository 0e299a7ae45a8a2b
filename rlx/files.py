"""Files that a reader, or a killed run, sees in their old or their new state, and never between."""

from collections.abc import Iterator
import contextlib
import os
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
  """An opened file that takes a path's place once it is whole; after an error nothing has changed."""
  path = Path(path)
  temporary = path.with_name(f'{path.name}.tmp')
  try:
    with temporary.open('wb') as file:
      yield file
      file.flush()
      os.fsync(file.fileno())  # the rename may reach the disk before the data do
    temporary.replace(path)
  except BaseException:
    temporary.unlink(missing_ok=True)  # half of it would only take room
    raise


def write_atomically(path: str | Path, data: bytes) -> None:
  """Writes a file, all of it or nothing."""
  with replacing(path) as file:
    file.write(data)
