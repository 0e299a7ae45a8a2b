"""A sandbox that stays: cells of Python, one after the other, in one process that remembers.

It is the sandbox of `sandbox.py`, with the same limits and both tiers. Its program is ours: it reads a cell
from a socket, runs it, and writes back what it printed. What a cell does to that program hurts its own
session alone, which is ended where a cell takes too long, too much memory, or answers with what is no answer.
"""

from collections.abc import Sequence
import contextlib
import os
import select
import socket
import time
from typing import NamedTuple

from rlx.rewards import sandbox
from rlx.rewards.sandbox import SandboxError

_START_SECONDS = 60.0  # for a sandbox to start, on a busy machine
_KEPT_BYTES = 1 << 14  # of what is printed past the socket: why a sandbox did not start
_SIZE = 8  # bytes of a length

# What runs inside. A last line that is an expression is shown, as in a notebook. What it imports is in the
# interpreter already: `ast`, `contextlib` and `traceback` take as long as a quarter of all the rest.
_PROGRAM = '''
import _ast, io, os, sys

def _read(size):
  data = b''
  while len(data) < size:
    part = os.read(0, min(size - len(data), 1 << 16))
    if not part:
      os._exit(0)
    data += part
  return data

def _run(code, space):
  tree = compile(code, 'cell', 'exec', _ast.PyCF_ONLY_AST)
  last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
  exec(compile(tree, 'cell', 'exec'), space)
  if last is not None:
    value = eval(compile(_ast.Expression(last.value), 'cell', 'eval'), space)
    if value is not None:
      print(repr(value))

def _told(error):
  try:
    import traceback
    return ''.join(traceback.format_exception_only(error)).strip()
  except BaseException:  # the cell has left no memory, or no file, to import with
    return type(error).__name__

def _serve(most):
  space = {'__name__': '__main__', '__builtins__': __builtins__}
  while True:
    code = _read(int.from_bytes(_read(8), 'little')).decode('utf-8', 'replace')
    out, status, streams = io.StringIO(), b'1', (sys.stdout, sys.stderr)
    sys.stdout = sys.stderr = out
    try:
      _run(code, space)
    except BaseException as error:
      status = b'0'
      print(_told(error))
    sys.stdout, sys.stderr = streams
    data = status + out.getvalue().encode('utf-8', 'replace')[:most]
    data = len(data).to_bytes(8, 'little') + data
    while data:
      data = data[os.write(0, data):]

_serve(MOST)
'''


class Cell(NamedTuple):
  """What became of a cell.

  Attributes:
    status: 'ok', 'error' (it raised), 'timeout' or 'ended' (its process did: memory, or its own doing).
    text: what it printed, and the value of a last expression; of one that raised, the error at the end.
  """

  status: str
  text: str


class PythonSession:
  """A process that runs cells, for one thread at a time. A context manager."""

  def __init__(
      self, *, shown: Sequence[str], session_seconds: float, memory_bytes: int, output_bytes: int, tier: str
  ):
    """Starts it.

    Args:
      shown: folders that it finds beside Python's own, as for `sandbox.started`.
      session_seconds: for all cells, the time between them included; then it is ended.
      memory_bytes: as for `sandbox.run_python`.
      output_bytes: of what a cell prints, that are kept.
      tier: as for `sandbox.run_python`.
    Raises:
      SandboxError: the sandbox does not start.
      ValueError: an argument is out of range.
    """
    self._output_bytes, self._tier, self._said = output_bytes, tier, b''
    self._stack = contextlib.ExitStack()
    self._here, there = socket.socketpair()
    self._stack.callback(self._here.close)
    with there:
      self._process, self._status_fd, self._info_fd = sandbox.started(
          {'program': f'MOST = {output_bytes:d}\n{_PROGRAM}', 'judged': False}, self._stack, there.fileno(),
          data=b'', functions=(), shown=shown, timeout_seconds=session_seconds, memory_bytes=memory_bytes,
          tier=tier,
      )
    self._is_open = True
    try:
      self._await_start()
    except BaseException:
      self.close()
      raise

  @property
  def is_open(self) -> bool:
    """Whether it can run a cell."""
    return self._is_open

  def run(self, code: str, *, timeout_seconds: float) -> Cell:
    """Runs a cell; behind 'timeout' and 'ended' the session is over.

    Args:
      code: Python source.
      timeout_seconds: wall time of the cell.
    """
    if not self._is_open:
      return Cell('ended', 'the session is over')
    data, deadline = code.encode('utf-8', 'replace'), time.monotonic() + timeout_seconds
    try:
      self._send(len(data).to_bytes(_SIZE, 'little') + data, deadline)
      size = int.from_bytes(self._receive(_SIZE, deadline), 'little')
      if not 1 <= size <= self._output_bytes + 1:
        raise EOFError
      reply = self._receive(size, deadline)
    except TimeoutError:
      self.close()
      return Cell('timeout', f'no result after {timeout_seconds:g} s; the session was ended')
    except (EOFError, OSError):
      self.close()
      return Cell('ended', 'the process of the session ended')
    return Cell('ok' if reply[:1] == b'1' else 'error', reply[1:].decode('utf-8', 'replace'))

  def close(self) -> None:
    """Ends it, with all that it started. Closing again is nothing."""
    if not self._is_open:
      return
    self._is_open = False
    sandbox.kill(self._process, self._info_fd)
    for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
      pipe.close()
    self._process.wait()
    self._stack.close()

  def __enter__(self) -> 'PythonSession':
    return self

  def __exit__(self, *_) -> None:
    self.close()

  def _await_start(self) -> None:
    deadline, said = time.monotonic() + _START_SECONDS, b''
    while b'started' not in said:
      try:
        ready = self._poll(select.POLLIN, deadline)
      except TimeoutError:
        raise SandboxError(sandbox.why_not(self._tier, self._said.decode('utf-8', 'replace'), True)) from None
      part = os.read(self._status_fd, 1 << 10) if self._status_fd in ready else b''
      if self._status_fd in ready and not part:
        self._drain(ready)
        raise SandboxError(sandbox.why_not(self._tier, self._said.decode('utf-8', 'replace'), False))
      said += part

  def _send(self, data: bytes, deadline: float) -> None:
    self._here.setblocking(False)
    while data:
      if self._here.fileno() in self._poll(select.POLLOUT, deadline):
        data = data[self._here.send(data) :]

  def _receive(self, size: int, deadline: float) -> bytes:
    """Exactly so many bytes. Raises `TimeoutError`, or `EOFError` where the sandbox has ended."""
    data = b''
    while len(data) < size:
      ready = self._poll(select.POLLIN, deadline)
      if self._here.fileno() in ready:
        part = self._here.recv(min(size - len(data), 1 << 16))
        if not part:
          raise EOFError
        data += part
      elif self._status_fd in ready:  # nothing is left in the socket, and the supervisor has spoken
        raise EOFError
    return data

  def _poll(self, event: int, deadline: float) -> set[int]:
    """What can be read or written; what is printed past the socket is read and thrown away."""
    poll, here = select.poll(), self._here.fileno()
    poll.register(here, event)
    for fd in (self._status_fd, self._process.stdout.fileno(), self._process.stderr.fileno()):
      poll.register(fd, select.POLLIN)
    seconds = deadline - time.monotonic()
    if seconds <= 0:
      raise TimeoutError
    ready = {fd for fd, _ in poll.poll(1000 * seconds)}
    self._drain(ready)
    if not ready:
      raise TimeoutError
    return ready

  def _drain(self, ready: set[int]) -> None:
    for pipe in (self._process.stdout, self._process.stderr):
      if pipe.fileno() in ready:
        self._said = (self._said + os.read(pipe.fileno(), 1 << 16))[-_KEPT_BYTES:]
