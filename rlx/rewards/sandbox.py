"""Runs Python programs that nobody has read, so that they can do nothing but compute and print.

A program runs in a process of its own under a *supervisor*, which starts it, measures it, and ends it with
all that it started. Two tiers keep the two of them apart from everything else:

- `bubblewrap`: fresh namespaces in which there is no network, no other process, no variable of the
  environment and no file but the interpreter, its standard library and the system's shared libraries, all
  read-only, and a small /tmp. The supervisor is process 1 in there: nothing inside can kill it, and the
  kernel kills everything with it. As root, the program gets a user id that nobody has; otherwise a user
  namespace of its own.
- `seccomp`: for machines where namespaces cannot be had (many containers). Landlock leaves the program the
  same files to read and none to write; it cannot start processes, send signals or open sockets. It shares
  the kernel's lists of processes and mounts with everyone, may ask whether a file exists and how large it
  is, and on a kernel without Landlock the tier refuses. Needs no package: the filter is made here.

Both tiers filter system calls (no tracing, no namespaces, no mounts, no memory that limits do not count: no
shared memory, queues or semaphores of System V, no queues of POSIX, no inotify, no asynchronous input and
output by the kernel; no sockets but local ones, in the second tier pairs alone) and set limits on address
space, time, file sizes, open files and processes. Limits hold for each process; the supervisor adds their
memory up twenty times a second, with what their sockets can hold, and ends what is above. Buffers of sockets
stay as large as the system makes them. Those of pipes the kernel limits itself, for each user (64 MiB, where
it was not told otherwise), and they come on top.

A program that takes too long is *wrong*, as is one that prints too much or takes too much memory: it must not
pay to hang. Only where the machine is at fault (`SandboxError`, 'killed') is there no verdict.

What is not defended against: a hole in the kernel, and the side channels of a shared machine (a program can
tell how busy it is). The interpreter is the one that runs this module, without site-packages, with a fixed
hash seed. Workers import this module: no jax. What runs inside is in `rlx/rewards/sent/`.
"""

import ast
from collections.abc import Callable, Iterable, Sequence
import contextlib
import dataclasses
import fcntl
import functools
import marshal
import math
import os
import pathlib
import platform
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from typing import Any

from rlx.rewards import sent
from rlx.rewards.sent import supervisor

TIERS = ('bubblewrap', 'seccomp')

_KEPT_BYTES = 1 << 16  # of the errors, and of what a judged program prints
_MIN_MEMORY_BYTES = 64 << 20  # the interpreter needs half of it
_TMP_BYTES = 64 << 20
_SHARED_MEMORY_BYTES = 16 << 20  # /dev/shm
_MAX_FILES = 10_000  # in /tmp: empty ones cost memory as well
_FILE_BYTES = 32 << 20
_NUM_PROCESSES = 64
_NUM_OPEN_FILES = 256
_NOBODY = 65534
_FIRST_UID = 0x70000000  # nobody hands out ids above it; a thread runs one program at a time
_START_SECONDS = 60.0  # for a sandbox to start, on a busy machine
_PATIENCE = 10.0  # times the limit, for a program that waits for a core of a busy machine
_GRACE_SECONDS = 3.0  # for the supervisor to end a program, before it is ended itself
_ENVIRONMENT = {'HOME': '/tmp', 'PATH': '/usr/bin:/bin', 'PYTHONHASHSEED': '0', 'PYTHONUTF8': '1'} | {
    'MALLOC_ARENA_MAX': '1'  # or every thread reserves address space, which is limited
}
# Defines the functions that were sent, and lets the supervisor begin.
_BOOT = """
import marshal, sys
job = marshal.load(open(int(sys.argv[1]), 'rb'))
space = {'__builtins__': __builtins__}
space.update({name: type(lambda: 0)(code, space) for name, code in job['functions'].items()})
space['supervise'](job)
"""


class SandboxError(RuntimeError):
  """A sandbox does not start here. It says why, and what to do; it is never a program's fault."""


@dataclasses.dataclass(frozen=True)
class Result:
  """What became of a program.

  Attributes:
    status: 'ok' (exit code 0), 'error' (another one, or a signal), 'timeout', 'memory' (a `MemoryError` that
      nobody caught, or all processes together above the limit), 'disk' (too many files) or 'killed' (the
      system ended the sandbox, as it does where memory is short).
    returncode: exit code, or minus the signal; None where the program was stopped.
    stdout: the first `output_bytes` of what it printed.
    stderr: the last 64 KiB.
    seconds: wall time of the program, without the start of the sandbox.
    overran: it printed more than was kept: `stdout` is not all of it.
  """

  status: str
  returncode: int | None
  stdout: str
  stderr: str
  seconds: float
  overran: bool


def run_python(
    program: str, *, stdin: str, timeout_seconds: float, memory_bytes: int, output_bytes: int, tier: str
) -> Result:
  """Runs a program as `python program.py < stdin` would, in a sandbox. Threads may call it.

  Args:
    program: Python source; only the standard library can be imported.
    stdin: what it can read.
    timeout_seconds: wall time; then everything that it started is killed. What one that starts no processes
      has waited for a core, on a busy machine, does not count, up to ten times the limit.
    memory_bytes: address space of each process, and memory of all together; /tmp comes on top (64 MiB).
    output_bytes: of what it prints, that are kept; more is read and thrown away, and `overran` says so.
    tier: 'bubblewrap', or 'seccomp' where that cannot be had.
  Raises:
    SandboxError: the sandbox does not start.
    ValueError: an argument is out of range.
  """
  job = {'program': program, 'judged': False}
  limits = {'timeout_seconds': timeout_seconds, 'memory_bytes': memory_bytes, 'tier': tier}
  return _run(job, b'', (), stdin=stdin, output_bytes=output_bytes, **limits)[0]


def run_judged(
    program: str,
    functions: Sequence[Callable],
    data: Any,
    *,
    timeout_seconds: float,
    memory_bytes: int,
    tier: str,
) -> tuple[Result, list]:
  """Runs a program, and beside it a judge that can talk to it, in one sandbox.

  They are processes of their own. The program can neither read the judge's memory nor find `data` or the
  report in a file, an argument or a descriptor: they pass through files that the program's process closed.

  Args:
    program: Python source. Its `__name__` is 'program'.
    functions: what is sent inside, by name: functions at the top level of a module, that use no name of the
      module but each other's and import inside. `serve(namespace, fds)` is called in the program's process
      after it ran; `judge(fds, report, data)` in another. `fds` are a pipe to read and one to write; `report`
      is a function that takes a value.
    data: for `judge` alone; None, numbers, strings, code objects, and lists, tuples and dicts of them.
    timeout_seconds: as in `run_python`; the time of the judge counts.
    memory_bytes: as in `run_python`.
    tier: likewise.
  Returns:
    What became of the program ('ok' if it still lived when the judge had finished), and what the judge has
    reported until then, or until both were stopped.
  Raises:
    SandboxError, ValueError: as in `run_python`.
  """
  job = {'program': program, 'judged': True}
  limits = {'timeout_seconds': timeout_seconds, 'memory_bytes': memory_bytes, 'tier': tier}
  return _run(job, marshal.dumps(data), functions, stdin='', output_bytes=_KEPT_BYTES, **limits)


@functools.cache
def check(tier: str) -> None:
  """Runs a small program once in a process, and checks that it was confined.

  Raises:
    SandboxError: sandboxes do not start here, or do not confine. The message says what to do.
    ValueError: there is no such tier.
  """
  limits = {'timeout_seconds': 60, 'memory_bytes': 1 << 28, 'output_bytes': _KEPT_BYTES}
  result = run_python(_SELF_TEST, stdin='6', **limits, tier=tier)
  if result.stdout != '42\n' or result.status != 'ok':
    raise SandboxError(
        f'the {tier} sandbox does not do here what it should: its test said {result.stdout!r} '
        f'({result.status}: {result.stderr[-300:]!r})'
    )


_SELF_TEST = """
import os, socket
print(7 * int(input()))
for attempt in (lambda: open('/etc/passwd'), lambda: open('/made', 'w'), lambda: os.setuid(0),
                lambda: socket.create_connection(('127.0.0.1', 9), 1)):
  try:
    print('possible:', attempt())
  except PermissionError: pass
  except FileNotFoundError: pass
  except OSError as error:
    if error.errno not in (22, 30): print(error)  # no such user in there; a read-only file system
"""


# --- in the caller's process --------------------------------------------------------------------------------


def _run(
    job, data, functions, *, stdin, timeout_seconds, memory_bytes, output_bytes, tier
) -> tuple[Result, list]:
  """Starts a sandbox, follows it to its end, and reads what its supervisor reports."""
  if output_bytes < 0:
    raise ValueError(f'output_bytes={output_bytes}: at least 0')
  limits = {'timeout_seconds': timeout_seconds, 'memory_bytes': memory_bytes, 'tier': tier}
  with contextlib.ExitStack() as stack:
    stdin_fd = _memory_file(stdin.encode('utf-8', 'surrogateescape'), stack)
    process, status_fd, info_fd = started(
        job, stack, stdin_fd, data=data, functions=functions, shown=(), **limits
    )
    with process:
      status, stdout, stderr, was_killed = _follow(process, status_fd, info_fd, timeout_seconds, output_bytes)
  return _outcome(status, stdout, stderr, was_killed, timeout_seconds, output_bytes, tier)


def started(
    job: dict, stack: contextlib.ExitStack, stdin_fd: int, *, data: bytes, functions: Sequence[Callable],
    shown: Sequence[str], timeout_seconds: float, memory_bytes: int, tier: str,
) -> tuple[subprocess.Popen, int, int]:
  """Starts a sandbox, which somebody has to follow.

  Args:
    job: `program`, and whether it is `judged`; what the supervisor has to know is added.
    stack: closes the descriptors that belong to it.
    stdin_fd: what is standard input to the program; its own copy, and the caller's to close.
    data: as for `run_judged`.
    functions: likewise.
    shown: folders that the program finds beside Python's own, to read and execute, in the tier 'bubblewrap'.
    timeout_seconds: as for `run_judged`, like what follows.
    memory_bytes: likewise.
    tier: likewise.
  Returns:
    The process, and descriptors to read the supervisor's status and bubblewrap's information from.
  Raises:
    SandboxError, ValueError: as `run_python`.
  """
  if tier not in TIERS:
    raise ValueError(f'tier={tier!r}: the tiers of the sandbox are {", ".join(TIERS)}')
  if not 0 < timeout_seconds < math.inf or memory_bytes < _MIN_MEMORY_BYTES:
    raise ValueError(
        f'timeout_seconds={timeout_seconds}, memory_bytes={memory_bytes}: need a finite time above 0 and at '
        f'least {_MIN_MEMORY_BYTES} bytes of memory'
    )
  inside = (*sent.functions(supervisor), *functions)
  job |= {'functions': {function.__name__: function.__code__ for function in inside}}
  job |= {'timeout_seconds': timeout_seconds, 'patience': _PATIENCE, 'memory_bytes': memory_bytes}
  job |= {'limits': _limits(timeout_seconds, memory_bytes, tier), 'filter': _filter(tier)}
  job |= {'readable': _readable() if tier == 'seccomp' else None, 'max_files': _MAX_FILES}
  job |= {'alone': tier == 'bubblewrap', 'uids': [_FIRST_UID + threading.get_native_id(), _NOBODY]}
  (status_fd, write_fd), info_fds = os.pipe(), os.pipe()
  for fd in (status_fd, *info_fds):
    stack.callback(os.close, fd)
  job['fds'] = fds = {'status': write_fd, 'data': _memory_file(data, stack), 'stdin': stdin_fd}
  job_fd = _memory_file(marshal.dumps(job), stack)
  try:
    # Both ends of the second pipe: bubblewrap, which writes the id of the supervisor into it, then does not
    # die half-way if its reader does.
    process = _start(_command(tier, job_fd, info_fds[1], shown), [job_fd, *fds.values(), *info_fds])
  finally:
    os.close(write_fd)
  return process, status_fd, info_fds[0]


def _memory_file(data: bytes, stack: contextlib.ExitStack) -> int:
  """A file that is nowhere and that nobody can change, at its beginning."""
  fd = os.memfd_create('rlx', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
  stack.callback(os.close, fd)
  with open(fd, 'wb', closefd=False) as file:
    file.write(data)
  os.lseek(fd, 0, os.SEEK_SET)
  fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
  return fd


def _limits(timeout_seconds: float, memory_bytes: int, tier: str) -> dict[str, int]:
  limits = {'AS': memory_bytes, 'CPU': math.ceil(timeout_seconds) + 1, 'CORE': 0, 'FSIZE': _FILE_BYTES}
  limits |= {'NOFILE': _NUM_OPEN_FILES, 'MEMLOCK': 0, 'MSGQUEUE': 0}
  # Where neither the namespace nor the user is the program's own, all processes of the user would count.
  alone = tier == 'bubblewrap' or os.geteuid() == 0
  return limits | ({'NPROC': _NUM_PROCESSES} if alone else {})


def _command(tier: str, job_fd: int, info_fd: int, shown: Sequence[str]) -> list[str]:
  # -I without -E: the environment is ours, and fixes the hash seed.
  python = [_executable(), '-s', '-P', '-S', '-B', '-c', _BOOT, str(job_fd)]
  if tier == 'seccomp':
    _check_seccomp()
    return python
  bwrap = shutil.which('bwrap')
  if bwrap is None:
    raise SandboxError(
        'bubblewrap, in which model-written code runs, is not installed: `apt-get install bubblewrap` '
        "(or `dnf`, `pacman -S`); tier='seccomp' needs no package"
    )
  return [bwrap, *_bubble(shown), '--info-fd', str(info_fd), '--', *python]


def _bubble(shown: Sequence[str]) -> list[str]:
  """What the program finds: options of bubblewrap. The supervisor is process 1."""
  options = ['--unshare-ipc', '--unshare-pid', '--unshare-net', '--unshare-uts', '--unshare-cgroup-try']
  # No --die-with-parent: bubblewrap that dies while it starts leaves a process behind that waits for ever.
  # The supervisor notices when nobody waits for it any more, and ends all.
  options += ['--new-session', '--as-pid-1', '--hostname', 'sandbox']
  if os.geteuid() == 0:  # the supervisor takes another id and loses these with it
    options += ['--cap-drop', 'ALL', '--cap-add', 'CAP_SETUID', '--cap-add', 'CAP_SETGID']
  else:
    options += ['--unshare-user', '--uid', str(_NOBODY), '--gid', str(_NOBODY)]
  # First, or it would hide an interpreter, or a folder to show, that is itself in /tmp.
  options += ['--perms', '1777', '--size', str(_TMP_BYTES), '--tmpfs', '/tmp']
  paths = [*_system_paths(), *(path for path in shown if os.path.exists(path))]
  folders = {str(folder) for path in paths for folder in pathlib.Path(path).parents}
  for folder in sorted(folders - {'/', '/tmp'}):
    options += ['--perms', '0755', '--dir', folder]  # or it would be as closed as the one outside
  for path in paths:
    if os.path.islink(path):
      options += ['--symlink', os.readlink(path), path]
    else:
      options += ['--ro-bind', path, path]
  for path in _site_packages():
    options += ['--size', '4096', '--tmpfs', path, '--remount-ro', path]
  options += ['--proc', '/proc', '--dev', '/dev']
  options += ['--perms', '1777', '--size', str(_SHARED_MEMORY_BYTES), '--tmpfs', '/dev/shm']
  return [*options, '--remount-ro', '/dev', '--remount-ro', '/', '--chdir', '/tmp']


def _executable() -> str:
  """The interpreter behind the virtual environment."""
  path = os.path.realpath(sys.executable)
  if not os.access(path, os.X_OK):
    raise SandboxError(f'there is no interpreter to run programs with: sys.executable is {sys.executable!r}')
  return path


def _library() -> str:
  return os.path.join(sys.base_prefix, sys.platlibdir, 'python{}.{}'.format(*sys.version_info))


def _system_paths() -> list[str]:
  """What Python needs of the file system, and what is there of it."""
  libraries = [os.path.join(root, name) for root in ('/', '/usr') for name in ('lib', 'lib64')]
  prefixes = [sys.base_prefix, sys.base_exec_prefix, os.path.realpath(sys.base_prefix)]
  own = [os.path.join(prefix, name) for prefix in prefixes for name in ('lib', sys.platlibdir)]
  paths = [*libraries, *own, _executable(), '/etc/ld.so.cache', '/usr/share/zoneinfo']
  return [path for path in dict.fromkeys(paths) if os.path.exists(path)]


def _site_packages() -> list[str]:
  paths = [os.path.join(_library(), 'site-packages'), os.path.join(_library(), 'dist-packages')]
  return [path for path in [*paths, '/usr/lib/python3/dist-packages'] if os.path.isdir(path)]


def _start(command: list[str], fds: Iterable[int]) -> subprocess.Popen:
  """Its standard input stays open for as long as this process lives; the supervisor watches it.

  It is in a group of its own, so that what kills the group of this process does not kill it half-way.
  """
  options = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.PIPE)
  options |= {'bufsize': 0, 'pass_fds': list(fds), 'env': _ENVIRONMENT, 'cwd': '/', 'process_group': 0}
  try:
    return subprocess.Popen(command, **options)
  except OSError as error:
    raise SandboxError(f'the sandbox does not start: {error}') from None


def _follow(
    process: subprocess.Popen, status_fd: int, info_fd: int, timeout_seconds: float, output_bytes: int
) -> tuple[bytes, bytes, bytes, bool]:
  """Reads everything until the end: status, outputs (of the first a byte too many, where there is one), and
  whether the sandbox had to be killed.

  What is printed beyond the limit is read and thrown away, so that the program does not wait for it.
  """
  out, err = process.stdout.fileno(), process.stderr.fileno()
  kept = {status_fd: bytearray(), out: bytearray(), err: bytearray()}
  poll = select.poll()
  for fd in kept:
    poll.register(fd, select.POLLIN)
  waiting, was_started, was_killed = set(kept), False, False
  deadline = time.monotonic() + _START_SECONDS
  try:
    while waiting:
      for fd, _ in poll.poll(1000 * max(0, deadline - time.monotonic())):
        data = os.read(fd, 1 << 16)
        kept[fd] += data if fd != out else data[: output_bytes + 1 - len(kept[out])]
        if fd == err:
          del kept[err][:-_KEPT_BYTES]
        if not data:
          poll.unregister(fd)
          waiting.discard(fd)
      if not was_started and b'started' in kept[status_fd]:
        was_started, deadline = True, time.monotonic() + _PATIENCE * timeout_seconds + _GRACE_SECONDS
      if waiting and time.monotonic() > deadline:
        if was_killed:
          raise SandboxError(f'a sandbox cannot be killed: process {process.pid}')
        kill(process, info_fd)
        was_killed, deadline = True, time.monotonic() + _START_SECONDS
  except BaseException:
    kill(process, info_fd)
    raise
  process.wait()
  return bytes(kept[status_fd]), bytes(kept[out]), bytes(kept[err]), was_killed


def kill(process: subprocess.Popen, info_fd: int) -> None:
  """Kills the supervisor, and so all; bubblewrap clears it away and ends."""
  os.set_blocking(info_fd, False)
  try:
    match = re.search(rb'"child-pid": (\d+)', os.read(info_fd, 1 << 12))
  except BlockingIOError:
    match = None
  with contextlib.suppress(ProcessLookupError):
    if process.poll() is None and match:
      os.kill(int(match[1]), signal.SIGKILL)
    elif process.poll() is None:  # bubblewrap that has not come far, or the supervisor itself
      os.killpg(process.pid, signal.SIGKILL)


def _outcome(
    status: bytes, stdout: bytes, stderr: bytes, was_killed: bool, timeout_seconds: float, output_bytes: int,
    tier: str,
) -> tuple[Result, list]:
  _, started, final = status.partition(b'started\n')
  overran = len(stdout) > output_bytes
  out, err = (text.decode('utf-8', 'replace') for text in (stdout[:output_bytes], stderr))
  if not started:
    raise SandboxError(why_not(tier, err, was_killed))
  if not final.endswith(b'\n'):  # the supervisor was ended: by us, or by the system
    seconds = _PATIENCE * timeout_seconds if was_killed else 0.0
    return Result('timeout' if was_killed else 'killed', None, out, err, seconds, overran), []
  kind, returncode, seconds, reported = ast.literal_eval(final.decode())
  report = [ast.literal_eval(line) for line in reported.decode().splitlines()]
  if kind == 'error' and err.rstrip().rpartition('\n')[2] == 'MemoryError':
    kind = 'memory'
  return Result(kind, returncode, out, err, seconds, overran), report


def why_not(tier: str, stderr: str, was_killed: bool) -> str:
  said = stderr.strip().rpartition('\n')[2] or 'it said nothing'
  if was_killed:
    return f'the {tier} sandbox did not start in {_START_SECONDS:g} s; is the machine overloaded? ({said})'
  advice = next((advice for part, advice in _ADVICE.items() if part in said), 'see the message')
  return f'the {tier} sandbox does not start ({said}): {advice}'


_NO_NAMESPACES = (
    'unprivileged user namespaces are off: `sysctl -w kernel.unprivileged_userns_clone=1`, on Ubuntu 24.04 '
    '`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, and start a container with `--security-opt '
    "seccomp=unconfined --cap-add SYS_ADMIN`; or take tier='seccomp'"
)
_ADVICE = {
    'Creating new namespace failed': _NO_NAMESPACES,
    'No permissions to create': _NO_NAMESPACES,
    'setting up uid map': _NO_NAMESPACES,
    'RTM_NEWADDR': _NO_NAMESPACES,
    'mount proc': "start the container with `--security-opt systempaths=unconfined`; or take tier='seccomp'",
    'Unknown option': 'bubblewrap is too old; 0.7 or newer is needed',
    'Landlock': "the kernel needs Landlock (5.13 or newer, `lsm=landlock`); or take tier='bubblewrap'",
}


def _check_seccomp() -> None:
  """Raises `SandboxError` if the interpreter is hidden from the id that root's programs get."""
  if os.geteuid() != 0:
    return
  for path in (_executable(), os.path.join(_library(), 'os.py')):
    while path != '/':
      if not os.stat(path).st_mode & 0o001 and not (os.path.isfile(path) and os.stat(path).st_mode & 0o004):
        raise SandboxError(
            f'as root, programs run under another user id, which cannot read the interpreter: {path} is '
            f"closed to it; `chmod o+rx {path}`, take tier='bubblewrap', or be an ordinary user"
        )
      path = os.path.dirname(path)


def _readable() -> list[tuple[str, int]]:
  """What Landlock leaves: (path, rights): a file may be read and executed, a folder also listed."""
  paths = [path for path in _system_paths() if not os.path.islink(path)]
  return [(path, 0b1101 if os.path.isdir(path) else 0b0101) for path in paths]


# --- the filter of system calls -----------------------------------------------------------------------------

_EPERM, _ENOSYS = 1, 38
_LOAD, _EQUAL, _ABOVE, _BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions of classic BPF
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_OFFSET, _MACHINE_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16  # in struct seccomp_data

# AUDIT_ARCH of the machine, and the column of its numbers below.
_MACHINES = {'x86_64': (0xC000003E, 0), 'aarch64': (0xC00000B7, 1)}
_NEW_NAMESPACES = 0x7E020000  # the CLONE_NEW* flags
_CLONE_THREAD, _AF_UNIX, _O_TRUNC, _SET_OWNER, _SET_SIGNAL, _SET_OWNER_EX = 0x10000, 1, 0o1000, 8, 10, 15
_IOCTL_SET_OWNER, _IOCTL_SET_GROUP, _IOCTL_TYPE = 0x8901, 0x8902, 0x5412  # the last types on a terminal

# name: number on x86_64, on aarch64 (None: there is none). Other processes, other namespaces, memory that no
# limit counts, and parts of the kernel that programs do not need.
_FORBIDDEN = {
    'ptrace': (101, 117), 'process_vm_readv': (310, 270), 'process_vm_writev': (311, 271),
    'kcmp': (312, 272), 'pidfd_getfd': (438, 438), 'unshare': (272, 97), 'setns': (308, 268),
    'mount': (165, 40), 'umount2': (166, 39), 'pivot_root': (155, 41), 'chroot': (161, 51),
    'open_tree': (428, 428), 'move_mount': (429, 429), 'fsopen': (430, 430), 'mount_setattr': (442, 442),
    'memfd_create': (319, 279), 'memfd_secret': (447, 447), 'userfaultfd': (323, 282),
    # Of System V, also those that take what another process has made, by its number.
    'shmget': (29, 194), 'shmat': (30, 196), 'shmctl': (31, 195), 'msgget': (68, 186), 'msgsnd': (69, 189),
    'msgrcv': (70, 188), 'msgctl': (71, 187), 'semget': (64, 190), 'semop': (65, 193), 'semctl': (66, 191),
    'semtimedop': (220, 192), 'mq_open': (240, 180), 'mq_unlink': (241, 181), 'mq_timedsend': (242, 182),
    'mq_timedreceive': (243, 183), 'mq_notify': (244, 184), 'mq_getsetattr': (245, 185),
    'inotify_init': (253, None), 'inotify_init1': (294, 26), 'inotify_add_watch': (254, 27),
    'fanotify_init': (300, 262), 'io_setup': (206, 0), 'io_submit': (209, 2), 'io_getevents': (208, 4),
    'io_pgetevents': (333, 292), 'io_uring_setup': (425, 425), 'io_uring_enter': (426, 426),
    'io_uring_register': (427, 427),
    'bpf': (321, 280), 'perf_event_open': (298, 241), 'add_key': (248, 217), 'request_key': (249, 218),
    'keyctl': (250, 219),
}  # fmt: skip
# Beside that, where the program is not alone: starting processes, signals, changing files that are there, and
# sending descriptors, which nobody counts on their way.
_FORBIDDEN_AMONG_OTHERS = {
    'fork': (57, None), 'vfork': (58, None), 'execve': (59, 221), 'execveat': (322, 281), 'kill': (62, 129),
    'tkill': (200, 130), 'tgkill': (234, 131), 'rt_sigqueueinfo': (129, 138),
    'rt_tgsigqueueinfo': (297, 240), 'pidfd_open': (434, 434), 'pidfd_send_signal': (424, 424),
    'process_madvise': (440, 440), 'process_mrelease': (448, 448), 'setpriority': (141, 140),
    'sched_setscheduler': (144, 119), 'sched_setattr': (314, 274), 'sched_setparam': (142, 118),
    'ioprio_set': (251, 30), 'creat': (85, None), 'truncate': (76, 45), 'chmod': (90, None),
    'fchmod': (91, 52), 'fchmodat': (268, 53), 'fchmodat2': (452, 452), 'chown': (92, None),
    'fchown': (93, 55), 'lchown': (94, None), 'fchownat': (260, 54), 'setxattr': (188, 5),
    'lsetxattr': (189, 6), 'fsetxattr': (190, 7), 'removexattr': (197, 14), 'lremovexattr': (198, 15),
    'fremovexattr': (199, 16), 'utime': (132, None), 'utimes': (235, None), 'futimesat': (261, None),
    'utimensat': (280, 88), 'sendmsg': (46, 211), 'sendmmsg': (307, 269),
}  # fmt: skip
_CLONE, _CLONE3, _SOCKET, _FCNTL, _IOCTL = (56, 220), (435, 435), (41, 198), (72, 25), (16, 29)
_OPEN, _OPENAT, _OPENAT2 = (2, None), (257, 56), (437, 437)
_PRLIMIT64, _SCHED_SETAFFINITY, _SETSOCKOPT, _SOCKETPAIR = (302, 261), (203, 122), (54, 208), (53, 199)
_BUFFER_SIZES = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF, and those of root


@functools.cache
def _filter(tier: str) -> bytes:
  """The program that the kernel runs at each system call: a `struct sock_filter[]`."""
  machine = platform.machine()
  if machine not in _MACHINES or sys.byteorder != 'little':
    raise SandboxError(f'the sandbox knows no system calls of {machine}, only of {", ".join(_MACHINES)}')
  architecture, column = _MACHINES[machine]
  rules = [(numbers, 'always', 0, 0) for numbers in _FORBIDDEN.values()]
  rules += [(_CLONE, 'any of', 0, _NEW_NAMESPACES), (_IOCTL, 'is', 1, _IOCTL_TYPE)]
  rules += [(_SOCKET, 'is not', 0, _AF_UNIX), (_PRLIMIT64, 'is not', 0, 0)]  # vsock knows no namespaces
  rules += [(_SOCKETPAIR, 'is not', 0, _AF_UNIX)]
  rules += [(_SETSOCKOPT, 'is', 2, option) for option in _BUFFER_SIZES]
  if tier == 'seccomp':
    rules += [(numbers, 'always', 0, 0) for numbers in _FORBIDDEN_AMONG_OTHERS.values()]
    rules += [(_CLONE, 'none of', 0, _CLONE_THREAD), (_SOCKET, 'always', 0, 0)]
    rules += [(_SCHED_SETAFFINITY, 'is not', 0, 0)]
    rules += [(_OPEN, 'any of', 1, _O_TRUNC), (_OPENAT, 'any of', 2, _O_TRUNC)]
    # A descriptor can be told to send a signal, even SIGKILL, to a process.
    rules += [(_FCNTL, 'is', 1, command) for command in (_SET_OWNER, _SET_SIGNAL, _SET_OWNER_EX)]
    rules += [(_IOCTL, 'is', 1, command) for command in (_IOCTL_SET_OWNER, _IOCTL_SET_GROUP)]
  missing = [(_CLONE3, 'always', 0, 0)] + ([(_OPENAT2, 'always', 0, 0)] if tier == 'seccomp' else [])

  code = [(_LOAD, 0, 0, _MACHINE_OFFSET), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
  code += [(_LOAD, 0, 0, _NUMBER_OFFSET), (_ABOVE, 0, 1, 0x40000000), (_RETURN, 0, 0, _FAIL | _ENOSYS)]
  for errno, group in ((_EPERM, rules), (_ENOSYS, missing)):  # C libraries do without what is missing
    for numbers, test, argument, operand in group:
      if numbers[column] is not None:
        code += _rule(numbers[column], test, argument, operand, errno)
  code += [(_RETURN, 0, 0, _ALLOW)]
  return b''.join(struct.pack('<HBBI', *instruction) for instruction in code)


def _rule(number: int, test: str, argument: int, operand: int, errno: int) -> list[tuple[int, int, int, int]]:
  """Lets a call fail if its argument passes the test; otherwise the next rule looks at it.

  Only the lower half of an argument is looked at. All that are tested here are `int`, or flags in it.
  """
  fail = (_RETURN, 0, 0, _FAIL | errno)
  if test == 'always':
    return [(_EQUAL, 0, 1, number), fail]
  instruction, when_true = {
      'any of': (_BITS, True), 'none of': (_BITS, False), 'is': (_EQUAL, True), 'is not': (_EQUAL, False)
  }[test]
  jump = (0, 1) if when_true else (1, 0)
  load = (_LOAD, 0, 0, _ARGUMENTS_OFFSET + 8 * argument)
  return [(_EQUAL, 0, 4, number), load, (instruction, *jump, operand), fail, (_LOAD, 0, 0, _NUMBER_OFFSET)]
