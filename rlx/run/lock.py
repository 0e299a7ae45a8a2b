"""One process at a time in a working directory.

Two that write the same files would leave neither run. The kernel's lock on `run.lock` (`flock`) tells them
apart and goes with its process, however that ends, so that a killed run is simply started again. It does not
reach other machines on every shared disk; there the file itself speaks: it says who holds it, and the
train loop touches it at each dispatch. A file of another machine that was touched a short while ago is held.
"""

from collections.abc import Callable, Iterator
import contextlib
import datetime
import errno
import fcntl
import json
import os
from pathlib import Path
import socket
import time

from rlx.errors import ConfigError

FILE = 'run.lock'
FRESH_SECONDS = 180  # a holder on another machine that was silent for longer is taken to be gone

_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of disks that know none


@contextlib.contextmanager
def held(workdir: Path) -> Iterator[Callable[[], None]]:
  """Holds a directory for as long as the context lasts.

  Args:
    workdir: is there, and can be written to.
  Yields:
    What shows other machines that the run is at work; to be called every minute or so.
  Raises:
    ConfigError: another process holds it; says which, where and since when.
    OSError: the file cannot be written.
  """
  path = workdir / FILE
  descriptor = _locked(path, workdir)
  try:
    if _read(path) is None and path.stat().st_size:
      raise ConfigError(f'{path} was not made by rlx; move it, or choose another directory')
    _refuse_other_machines(path, workdir)
    who = {'host': socket.gethostname(), 'machine': _machine(), 'pid': os.getpid(), 'since': _now()}
    try:
      os.ftruncate(descriptor, 0)
      os.pwrite(descriptor, json.dumps(who).encode(), 0)
      yield lambda: os.utime(descriptor)
    finally:
      path.unlink(missing_ok=True)  # while it is held: nobody else's
  finally:
    os.close(descriptor)


def _locked(path: Path, workdir: Path) -> int:
  """The file, open and locked."""
  while True:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
      fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
      if _is_still(path, descriptor):
        return descriptor
    except BlockingIOError:
      os.close(descriptor)
      raise _refused(path, workdir) from None
    except OSError as error:
      if error.errno in _NO_LOCKS_HERE:
        return descriptor
      os.close(descriptor)
      raise
    os.close(descriptor)  # its holder has just let go of it, and removed it


def _is_still(path: Path, descriptor: int) -> bool:
  """Whether the open file is the one of that name."""
  try:
    return os.path.samestat(path.stat(), os.fstat(descriptor))
  except FileNotFoundError:
    return False


def _refuse_other_machines(path: Path, workdir: Path) -> None:
  who, age = _read(path), time.time() - path.stat().st_mtime
  if who and who['machine'] != _machine() and age < FRESH_SECONDS:
    raise _refused(path, workdir, f' (it was there {age:.0f} s ago; if it was killed, wait or delete {path})')


def _refused(path: Path, workdir: Path, more: str = '') -> ConfigError:
  who = _read(path)
  named = f'process {who["pid"]} on {who["host"]} since {who["since"]}' if who else 'another process'
  return ConfigError(
      f'--workdir={workdir} is in use by {named}{more}: let it end, or choose another directory'
  )


def _read(path: Path) -> dict | None:
  """Who holds the file; None where it has only just been made."""
  try:
    who = json.loads(path.read_bytes())
    return {name: who[name] for name in ('host', 'machine', 'pid', 'since')}
  except (OSError, ValueError, TypeError, KeyError):
    return None


def _machine() -> str:
  """What tells machines apart, and is the same in all containers of one: there the kernel's lock holds."""
  boot = Path('/proc/sys/kernel/random/boot_id')
  return boot.read_text().strip() if boot.exists() else socket.gethostname()


def _now() -> str:
  return datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')
