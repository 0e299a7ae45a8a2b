"""Runs of the launcher in processes of their own, forked from this one, which has imported what they need.

A fork saves the seconds that imports take; nothing of JAX is started before it. The launcher then does in the
child what it does behind `rlx`: same arguments, same working folder, signals and exit codes.
"""

from collections.abc import Callable, Sequence
import contextlib
import ctypes
import dataclasses
import os
from pathlib import Path
import signal
import sys
import threading
import time
import traceback

import jax

from rlx.experiments import launch
from rlx.run import build, report, train  # noqa: F401 (imported before the fork, so that no child has to)

_PR_SET_PDEATHSIG = 1


@dataclasses.dataclass(frozen=True)
class Ended:
  """How a process ended: its exit code (minus the signal), and what it printed."""

  code: int
  out: str
  errors: str

  @property
  def is_refusal(self) -> bool:
    """Exit code 2, and one line behind `rlx:` as the last that was said."""
    lines = self.errors.strip().splitlines() or ['']
    return self.code == launch.EXIT_DO_NOT_RETRY and lines[-1].startswith('rlx: ') and not self.is_crash

  @property
  def is_crash(self) -> bool:
    """Whether a traceback was printed."""
    return 'Traceback (most recent call last)' in self.errors


class Process:
  """A run of the launcher."""

  def __init__(self, arguments: Sequence[str], said: Path, hook: Callable[[], None] | None = None):
    """Starts it.

    Args:
      arguments: of the command line.
      said: folder for what it prints.
      hook: called in the process before the launcher.
    """
    if threading.active_count() > 1:
      names = [thread.name for thread in threading.enumerate()]
      raise RuntimeError(f'processes are forked from one with a single thread; this one has {names}')
    said.mkdir(parents=True, exist_ok=True)
    self._paths = said / 'out.txt', said / 'errors.txt'
    sys.stdout.flush()
    sys.stderr.flush()
    self._pid, self._status = os.fork(), None
    if not self._pid:
      _live(arguments, self._paths, hook)

  def poll(self) -> int | None:
    """The exit code, or minus the signal; None while it runs."""
    if self._status is None:
      pid, status = os.waitpid(self._pid, os.WNOHANG)
      self._status = os.waitstatus_to_exitcode(status) if pid else None
    return self._status

  def send(self, number: int) -> None:
    """Sends a signal, if it still runs."""
    if self.poll() is None:
      os.kill(self._pid, number)

  def wait(self, seconds: float) -> Ended:
    """Waits for the end, and makes one when the time is over (exit code -9, and said)."""
    deadline, late = time.monotonic() + seconds, ''
    while self.poll() is None:
      if time.monotonic() > deadline:
        self.send(signal.SIGKILL)
        late = f'\nnot ended after {seconds:g} s'
        deadline += seconds
      time.sleep(0.01)
    out, errors = (path.read_text(errors='replace') for path in self._paths)
    return Ended(self._status, out, errors + late)


def _live(arguments: Sequence[str], paths: tuple[Path, Path], hook: Callable[[], None] | None) -> None:
  """The life of a child."""
  code = 1
  try:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # or it would run on where nobody expects it
    for fd, path in enumerate(paths, start=1):
      os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), fd)
    sys.stdout, sys.stderr = (open(fd, 'w', buffering=1, closefd=False) for fd in (1, 2))  # noqa: SIM115
    # Processes are many and short here: small programs are kept too, and none is optimised for long.
    jax.config.update('jax_disable_most_optimizations', True)
    jax.config.update('jax_persistent_cache_min_entry_size_bytes', 0)
    launch.use_compilation_cache = lambda: jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
    if hook is not None:
      hook()
    code = launch.main(list(arguments))
  except SystemExit as ended:  # of a run in several processes
    code = ended.code
  except BaseException:
    traceback.print_exc()
  finally:
    with contextlib.suppress(Exception):
      sys.stdout.flush()
    os._exit(code)
