"""Says where every thread is when a section of a run takes too long; nothing is ended.

A run that hangs says nothing by itself: in a reward, in a file system, in a collective that waits for ever.
`watching` starts a thread; `section` marks what is watched. A section that has taken the limit is told once,
on standard error, with the stacks of all threads of the process, and goes on; sections inside of each other
that were entered almost at once are told together. Where Python itself is held up, so that the thread cannot
tell either, `faulthandler` prints the stacks behind twice the limit.

Outside of `watching` a section costs nothing. Like standard error, it is one for the process.
"""

from collections.abc import Iterator
import contextlib
import faulthandler
import os
import threading
import time

_TOGETHER = 0.1  # of the limit, by which a section is told late, with those that are late by then
_STANDARD_ERROR = 2  # itself, whatever `sys.stderr` is at the moment: it is written to without Python
_watch: '_Watch | None' = None


@contextlib.contextmanager
def watching(seconds: float) -> Iterator[None]:
  """Inside, a section that takes longer is told.

  Args:
    seconds: the limit; 0 watches nothing.
  """
  global _watch
  if seconds <= 0 or _watch is not None:
    yield
    return
  _watch = _Watch(seconds)
  try:
    yield
  finally:
    watch, _watch = _watch, None
    watch.close()


@contextlib.contextmanager
def section(name: str) -> Iterator[None]:
  """Marks what is watched, in any thread; sections may be inside of each other.

  Args:
    name: for people.
  """
  watch = _watch
  if watch is None:
    yield
    return
  mark = watch.enter(name)
  try:
    yield
  finally:
    watch.leave(mark)


class _Watch:
  """The sections that are open, and the thread that looks at them."""

  def __init__(self, seconds: float):
    self._seconds = seconds
    self._open: dict[object, tuple[str, float]] = {}  # name, and when it has taken too long
    self._lock, self._closed = threading.Lock(), threading.Event()
    self._thread = threading.Thread(target=self._look, name='rlx-watchdog', daemon=True)
    self._thread.start()

  def enter(self, name: str) -> object:
    mark = object()
    with self._lock:
      self._open[mark] = name, time.monotonic() + self._seconds
    return mark

  def leave(self, mark: object) -> None:
    with self._lock:
      self._open.pop(mark, None)

  def close(self) -> None:
    self._closed.set()
    self._thread.join()
    faulthandler.cancel_dump_traceback_later()

  def _look(self) -> None:
    """Sleeps until a section may have taken too long; one that is entered meanwhile has later to be told."""
    wait = self._seconds
    while not self._closed.wait(wait):
      faulthandler.dump_traceback_later(2 * self._seconds, file=_STANDARD_ERROR)
      now, late = time.monotonic(), []
      told = now - _TOGETHER * self._seconds
      with self._lock:
        if any(due <= told for _, due in self._open.values()):
          late = [name for name, due in self._open.values() if due <= now]
          for mark, (name, due) in self._open.items():
            self._open[mark] = name, due if due > now else float('inf')  # told once
        wait = min([self._seconds, *(due - told for _, due in self._open.values())])
      if late:
        self._tell(late)

  def _tell(self, names: list[str]) -> None:
    text = (
        f'rlx: {" in ".join(reversed(names))} has taken more than {self._seconds:g} s (log.stuck_seconds), '
        'and goes on; where every thread is, the innermost call first:\n'
    )
    os.write(_STANDARD_ERROR, text.encode())
    faulthandler.dump_traceback(file=_STANDARD_ERROR)
