"""A disk that is full, for one writer of a run: from some call on it is told so by the system."""

from collections.abc import Callable
import errno
import os

from rlx.run import checkpoint, writers

WRITERS = ('checkpoint', 'metrics', 'row')


def hook(writer: str, calls: int) -> Callable[[], None]:
  """What `processes.Process` calls first, in a process that will have no space left.

  Args:
    writer: one of `WRITERS`.
    calls: how many succeed before.
  """
  return lambda: _no_space(writer, calls)


def _no_space(writer: str, calls: int) -> None:
  owner, name = {
      'checkpoint': (checkpoint.Checkpoints, '_write'),
      'metrics': (writers.MetricsWriter, 'flush'),
      'row': (writers.MetricsWriter, 'write'),
  }[writer]
  whole, left = getattr(owner, name), [calls]

  def write(self, *arguments, **keywords):
    left[0] -= 1
    if left[0] < 0:
      raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return whole(self, *arguments, **keywords)

  setattr(owner, name, write)
