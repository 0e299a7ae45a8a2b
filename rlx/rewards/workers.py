"""Processes that run Python functions for a run, and that can be killed at any moment.

The run holds `Workers`: one thread a worker hands it one call at a time and waits no longer than the time
limit. Or it holds `Sessions`, workers that remember something and are somebody's own. They are forked by the
*keeper*, a small process with one thread that has imported the functions and nothing else: not the main
module of the run, and so neither its JAX nor its threads. A killed worker is replaced in milliseconds,
however much the functions import.

Nothing is shared between workers. Each has its own socket, so that no lock and no half-written message of one
that dies can hold up another (pools that share a queue break here), and its own process group, which is
killed with it: programs that a function started do not outlive the call that hung in them. What leaves the
group on purpose (`setsid`) escapes; code that is not trusted belongs into a sandbox.

When the run ends, even by SIGKILL, the keeper notices and kills all groups. When the keeper is killed, Linux
kills the workers with it, and the run their groups. POSIX only.
"""

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
import contextlib
import ctypes
import os
import pickle
import queue
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple
import warnings

Handler = Callable[[bytes], bytes]

_NUMBER = struct.Struct('<q')
_HEADER = struct.Struct('<qq')  # number of the call, and of the bytes that follow
_ATTEMPTS = 3  # to hand a call to a worker, before the machine is to blame
_PAUSE_SECONDS = 0.5  # before a process is asked for again that the system refused
_START_SECONDS = 120.0  # for the imports of the keeper, on a busy machine
_ASK_SECONDS = 10.0  # for the keeper to start or kill a worker
_PR_SET_PDEATHSIG = 1
_NO_STATUS = 1 << 32  # a process that has not ended yet
_KEEPER = 'import sys; sys.path[:] = {path!r}; from rlx.rewards import workers; workers.keep({fd}, {run})'


class Reply(NamedTuple):
  """What became of a call.

  Attributes:
    data: what the handler returned; empty if it did not.
    fault: empty, or what became of the worker: 'timeout', 'died'.
    text: the fault in words.
  """

  data: bytes
  fault: str = ''
  text: str = ''


class Workers:
  """Runs calls in processes, each call for a limited time. A context manager; threads may share it."""

  def __init__(
      self,
      prepare: Callable[[Any], Handler],
      setup: Any,
      *,
      num_workers: int,
      timeout_seconds: float,
  ):
    """Starts the keeper, and returns once it has prepared; workers start with their first call.

    Args:
      prepare: `setup -> handler`, run once, in the keeper. The handler turns the bytes of a call into those
        of its result, in a worker, and raises nothing.
      setup: picklable.
      num_workers: processes that work at the same time.
      timeout_seconds: for one call, from when its worker has it.
    Raises:
      ValueError: `prepare` raised.
    """
    self._setup = pickle.dumps((prepare, setup))
    self._timeout_seconds = timeout_seconds
    self._lock = threading.Lock()
    self._closed = False
    self._keeper = _Keeper(self._setup)
    self._calls: queue.SimpleQueue[tuple[bytes, Future] | None] = queue.SimpleQueue()
    self._threads = [
        threading.Thread(target=self._serve, name=f'rlx-worker-{i}', daemon=True) for i in range(num_workers)
    ]
    for thread in self._threads:
      thread.start()

  def submit(self, call: bytes) -> Future[Reply]:
    """Queues a call. Its future raises `RuntimeError` if no worker can be started, and this one if closed."""
    future = Future()
    with self._lock:
      if self._closed:
        raise RuntimeError('the workers are closed')
      self._calls.put((call, future))
    return future

  def close(self) -> None:
    """Kills the workers; calls that are not done raise `CancelledError`. Closing again is nothing."""
    with self._lock:
      self._closed = True
      self._keeper.close()
    for _ in self._threads:
      self._calls.put(None)
    for thread in self._threads:
      thread.join()

  def __enter__(self) -> 'Workers':
    return self

  def __exit__(self, *_) -> None:
    self.close()

  def _serve(self) -> None:
    """The thread of one worker: takes calls off the queue until it is closed."""
    worker = None
    while (item := self._calls.get()) is not None:
      call, future = item
      if not future.set_running_or_notify_cancel():
        continue
      try:
        worker, reply = self._answer(worker, call)
      except BaseException as error:  # whoever waits for the future learns it; the thread goes on
        worker, reply = None, error
      if self._closed:
        future.set_exception(CancelledError('the workers were closed'))
      elif isinstance(reply, BaseException):
        future.set_exception(reply)
      else:
        future.set_result(reply)
    if worker is not None:
      worker.stop()

  def _answer(self, worker: '_Worker | None', call: bytes) -> tuple['_Worker | None', Reply]:
    """The reply to a call, and the worker for the next one, if it lives."""
    worker = self._hand_over(worker, call)
    try:
      return worker, Reply(worker.give())
    except TimeoutError:
      worker.stop()
      return None, Reply(b'', 'timeout', f'no result after {self._timeout_seconds:g} s')
    except (EOFError, OSError):
      return None, Reply(b'', 'died', worker.stop())

  def _hand_over(self, worker: '_Worker | None', call: bytes) -> '_Worker':
    """A worker that has the call. One that died or got stuck since its last call is replaced."""
    problem = None
    for _ in range(_ATTEMPTS):
      try:
        if worker is None:
          worker = self._start()
        worker.take(call, self._timeout_seconds)
        return worker
      except (EOFError, OSError) as error:
        problem = error
        if worker is not None:
          worker.stop()
        worker = None
    raise RuntimeError(f'a worker process for reward functions cannot be started: {problem!r}')

  def _start(self) -> '_Worker':
    with self._lock:
      if self._closed:
        raise CancelledError('the workers were closed')
      if not self._keeper.is_alive():
        self._keeper.close()
        self._keeper = _Keeper(self._setup)
      return self._keeper.start()


class Sessions:
  """Starts workers that are somebody's own: what one remembers from call to call lives as long as it does.

  A context manager; threads may share it.
  """

  def __init__(self, prepare: Callable[[Any], Handler], setup: Any):
    """Starts the keeper, and returns once it has prepared.

    Args:
      prepare: as for `Workers`.
      setup: likewise.
    Raises:
      ValueError: `prepare` raised.
    """
    self._setup = pickle.dumps((prepare, setup))
    self._lock = threading.Lock()
    self._keeper = _Keeper(self._setup)
    self._closed = False
    self._alive: set[Session] = set()

  def start(self) -> 'Session':
    """A worker of one's own. Raises `RuntimeError` if none can be started, `CancelledError` if closed."""
    problem = None
    for _ in range(_ATTEMPTS):
      with self._lock:
        if self._closed:
          raise CancelledError('the sessions were closed')
        try:
          if not self._keeper.is_alive():
            self._keeper.close()
            self._keeper = _Keeper(self._setup)
          session = Session(self._keeper.start(), self._alive.discard)
          self._alive.add(session)
          return session
        except OSError as error:
          problem = error
    raise RuntimeError(f'a worker process cannot be started: {problem!r}')

  def close(self) -> None:
    """Kills all workers. Closing again is nothing."""
    with self._lock:
      self._closed = True
      alive = [*self._alive]
    for session in alive:
      session.stop()
    with self._lock:
      self._keeper.close()

  def __enter__(self) -> 'Sessions':
    return self

  def __exit__(self, *_) -> None:
    self.close()


class Session:
  """A worker of one's own, for one thread at a time."""

  def __init__(self, worker: '_Worker', gone: Callable[['Session'], None]):
    """Made by `Sessions.start`.

    Args:
      worker: its process.
      gone: is told when that is stopped.
    """
    self._worker: _Worker | None = worker
    self._gone = gone

  @property
  def is_alive(self) -> bool:
    """Whether it can be called: not behind a fault, and not when it was stopped."""
    return self._worker is not None

  def call(self, data: bytes, timeout_seconds: float) -> Reply:
    """Runs a call, and waits for it; behind a fault the session is over."""
    try:
      self._worker.take(data, timeout_seconds)
      return Reply(self._worker.give())
    except TimeoutError:
      self.stop()
      return Reply(b'', 'timeout', f'no result after {timeout_seconds:g} s')
    except (EOFError, OSError):
      return Reply(b'', 'died', self.stop())

  def stop(self) -> str:
    """Kills it, if it lives; returns in words how it had ended."""
    worker, self._worker = self._worker, None
    self._gone(self)
    return worker.stop() if worker is not None else ''


class _Keeper:
  """The run's side of the keeper: starts and stops workers."""

  def __init__(self, setup: bytes):
    here, there = socket.socketpair()
    code = _KEEPER.format(path=[str(path) for path in sys.path], fd=there.fileno(), run=os.getpid())
    with there:
      self._process = subprocess.Popen(
          [sys.executable, '-c', code],
          stdin=subprocess.DEVNULL,
          stdout=subprocess.DEVNULL,
          pass_fds=[there.fileno()],
          start_new_session=True,  # Ctrl-C in the terminal is for the run alone
          env={**os.environ, 'PYTHONHASHSEED': '0'},  # the order of a set is the same in every run
      )
    self._control = here
    self._lock = threading.Lock()
    try:
      _send(here, 0, setup, _START_SECONDS)
      problem = _receive(here, time.monotonic() + _START_SECONDS)[1].decode()
    except (EOFError, OSError) as error:
      self.close()
      raise RuntimeError(f'the keeper of the reward workers does not start: {error!r}') from None
    if problem:
      self.close()
      raise ValueError(problem)

  def is_alive(self) -> bool:
    return self._process.poll() is None

  def start(self) -> '_Worker':
    here, there = socket.socketpair()
    try:
      with there:
        pid = self._ask(0, [there.fileno()])
      if not pid:
        time.sleep(_PAUSE_SECONDS)
        raise OSError('the system refuses another process')
    except OSError:
      here.close()
      raise
    return _Worker(self, pid, here)

  def stop(self, pid: int) -> int | None:
    """Kills a worker and its group; returns its exit status, or None if that is not known."""
    try:
      status = self._ask(pid, [])
    except OSError:  # Linux killed the worker with the keeper, but not what the worker had started
      _kill(pid)
      return None
    return status if status != _NO_STATUS else None

  def close(self) -> None:
    with contextlib.suppress(OSError):
      self._control.shutdown(socket.SHUT_RDWR)
    try:
      self._process.wait(10)
    except subprocess.TimeoutExpired:
      self._process.kill()
      self._process.wait()
    with self._lock:
      self._control.close()

  def _ask(self, number: int, fds: list[int]) -> int:
    try:
      with self._lock:
        self._control.settimeout(_ASK_SECONDS)
        socket.send_fds(self._control, [_NUMBER.pack(number)], fds)
        return _NUMBER.unpack(self._control.recv(_NUMBER.size))[0]
    except (OSError, struct.error) as error:  # it is gone or stuck; the next call gets a new one
      self._process.kill()
      self._process.wait()
      raise OSError('the keeper of the workers does not answer') from error


class _Worker:
  """The run's side of one worker."""

  def __init__(self, keeper: _Keeper, pid: int, connection: socket.socket):
    self._keeper = keeper
    self._pid = pid
    self._connection = connection
    self._number = 0  # of the call that it has
    self._deadline = 0.0

  def take(self, call: bytes, timeout_seconds: float) -> None:
    """Gives it a call, and returns as soon as it begins. Raises `EOFError` or `OSError` if it does not."""
    self._number += 1
    self._deadline = time.monotonic() + timeout_seconds
    _send(self._connection, self._number, call, timeout_seconds)
    self.give()
    self._deadline = time.monotonic() + timeout_seconds

  def give(self) -> bytes:
    """The result. Raises `TimeoutError` when the time is over, `EOFError` or `OSError` when it dies."""
    number, data = _receive(self._connection, self._deadline)
    if number != self._number:  # something wrote into files that are not its own
      raise EOFError
    return data

  def stop(self) -> str:
    """Kills it and its group; returns in words how it had ended. Call it once."""
    self._connection.close()
    status = self._keeper.stop(self._pid)
    if status is None:
      return 'its process was killed'
    return f'its process was killed by {_signal_name(-status)}' if status < 0 else f'exit status {status}'


def _signal_name(number: int) -> str:
  try:
    return signal.Signals(number).name
  except ValueError:
    return f'signal {number}'


def keep(control_fd: int, run: int) -> None:
  """The life of the keeper: forks and kills workers as it is told, until the run is gone.

  Args:
    control_fd: socket to the run. First comes the setup, then 0 and a socket (start a worker for it) or the
      id of a process (kill it and its group).
    run: id of the run's process.
  """
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  control = socket.socket(fileno=control_fd)
  handler, problem = _prepare(_receive(control, None)[1])
  _send(control, 0, problem.encode('utf-8', 'replace'), None)
  pids, stopped = set(), set()
  try:
    # A process that the run forked may hold the other end open, so the run itself is looked for as well.
    while not problem and os.getppid() == run:
      stopped = {pid for pid in stopped if not os.waitpid(pid, os.WNOHANG)[0]}
      if not _readable(control, 1.0):
        continue
      message, fds, *_ = socket.recv_fds(control, _NUMBER.size, 1)
      if not message:
        break
      (pid,) = _NUMBER.unpack(message)
      if pid:
        answer = _stop(pid)
        pids.discard(pid)
        stopped |= {pid} if answer == _NO_STATUS else set()
      else:
        answer = _start(handler, control, fds[0])
        pids |= {answer} - {0}
      control.sendall(_NUMBER.pack(answer))
  except OSError:  # the run is gone
    pass
  finally:
    for pid in pids:
      _kill(pid)


def _prepare(message: bytes) -> tuple[Handler | None, str]:
  """The handler, or why there is none."""
  try:
    prepare, setup = pickle.loads(message)
    handler = prepare(setup)
  except BaseException as error:
    return None, describe(error) if not isinstance(error, ValueError) else str(error)
  if threading.active_count() > 1:
    names = [thread.name for thread in threading.enumerate()[1:]]
    return None, f'importing the reward functions started threads ({names}); start them inside the functions'
  return handler, ''


def _start(handler: Handler, control: socket.socket, fd: int) -> int:
  """Forks a worker that serves the socket `fd`; returns its id, or 0 if the system refuses."""
  keeper = os.getpid()
  try:
    with warnings.catch_warnings():
      warnings.simplefilter('ignore')  # JAX and Python warn of threads; there are none
      pid = os.fork()
  except OSError:
    pid = 0
  else:
    if pid == 0:
      try:
        control.close()
        _work(handler, socket.socket(fileno=fd), keeper)
      finally:
        os._exit(1)
    with contextlib.suppress(OSError):  # the worker does the same; whoever comes first
      os.setpgid(pid, pid)
  os.close(fd)
  return pid


def _work(handler: Handler, connection: socket.socket, keeper: int) -> None:
  """The life of a worker: answers calls until the run closes the connection."""
  with contextlib.suppress(OSError):
    os.setpgid(0, 0)
  _die_with_parent(keeper)
  null = os.open(os.devnull, os.O_RDWR)  # takes any amount of output, and blocks nobody
  for fd in range(3):
    os.dup2(null, fd)
  os.close(null)
  with contextlib.suppress(EOFError):
    while True:
      number, call = _receive(connection, None)
      _send(connection, number, b'', None)  # from here on, what becomes of the call is its own doing
      _send(connection, number, handler(call), None)
  os._exit(0)


def _die_with_parent(parent: int) -> None:
  """Lets Linux kill this process when its parent ends; elsewhere it ends when its connection closes."""
  with contextlib.suppress(OSError, AttributeError):
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
  if os.getppid() != parent:  # it ended before this was said
    os._exit(1)


def _stop(pid: int) -> int:
  """Kills a worker's group and clears it away; its exit status, or `_NO_STATUS` if it takes long to end."""
  _kill(pid)
  deadline = time.monotonic() + 0.2
  while time.monotonic() < deadline:
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
      return os.waitstatus_to_exitcode(status)
    time.sleep(0.001)
  return _NO_STATUS


def _kill(pid: int) -> None:
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(pid, signal.SIGKILL)


def describe(error: BaseException) -> str:
  """Type and first line of an error, whatever its `str` does."""
  try:
    lines = str(error).splitlines()
  except BaseException:
    lines = []
  return ': '.join([type(error).__name__, *lines[:1]])[:300]


def _readable(connection: socket.socket, seconds: float) -> bool:
  poll = select.poll()  # select() refuses large file numbers
  poll.register(connection, select.POLLIN)
  return bool(poll.poll(1000 * seconds))


def _send(connection: socket.socket, number: int, data: bytes, seconds: float | None) -> None:
  connection.settimeout(seconds)
  connection.sendall(_HEADER.pack(number, len(data)) + data)


def _receive(connection: socket.socket, deadline: float | None) -> tuple[int, bytes]:
  number, size = _HEADER.unpack(_read(connection, _HEADER.size, deadline))
  return number, _read(connection, size, deadline)


def _read(connection: socket.socket, size: int, deadline: float | None) -> bytes:
  """Exactly `size` bytes. Raises `TimeoutError` at the deadline, `EOFError` if the other end closed."""
  data = bytearray()
  while len(data) < size:
    seconds = None if deadline is None else deadline - time.monotonic()
    if seconds is not None and seconds <= 0:
      raise TimeoutError
    connection.settimeout(seconds)
    part = connection.recv(min(size - len(data), 1 << 20))
    if not part:
      raise EOFError
    data += part
  return bytes(data)
