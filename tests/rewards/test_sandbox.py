"""The sandbox: what hostile programs achieve (nothing), what becomes of programs, what is left of them."""

from concurrent.futures import ThreadPoolExecutor
import ctypes
import math
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import types

from interpreters import readable_interpreter
import pytest

from rlx.rewards import sandbox
from rlx.rewards.sandbox import SandboxError, run_python
from rlx.rewards.sent import supervisor

REPOSITORY = pathlib.Path(__file__).parents[2]
MEBIBYTE = 1 << 20
LIMITS = {'timeout_seconds': 10, 'memory_bytes': 256 * MEBIBYTE}
OUTPUT_BYTES = 1 << 16

needs_bubblewrap = pytest.mark.skipif(shutil.which('bwrap') is None, reason='bubblewrap is not installed')
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason='only root can become another user')


@pytest.fixture(params=[pytest.param('bubblewrap', marks=needs_bubblewrap), 'seccomp'])
def tier(request, monkeypatch):
  """Both tiers; the second with an interpreter that other users can read, as it needs one under root."""
  if request.param == 'seccomp':
    found = readable_interpreter()
    if found is None:
      pytest.skip('no interpreter that every user can read')
    monkeypatch.setattr(sys, 'executable', found[0])
    for name in ('base_prefix', 'base_exec_prefix'):
      monkeypatch.setattr(sys, name, found[1])
  return request.param


@pytest.fixture(autouse=True)
def nothing_is_left():
  """No process and no zombie: while a test runs, what loses its parent becomes a child of this process."""
  set_subreaper = lambda on: ctypes.CDLL(None).prctl(36, on, 0, 0, 0)
  before = descendants(os.getpid())
  set_subreaper(1)
  yield
  set_subreaper(0)
  assert not descendants(os.getpid()) - before


def run(program, tier='bubblewrap', *, stdin='', **limits):
  return run_python(program, stdin=stdin, tier=tier, **{**LIMITS, 'output_bytes': OUTPUT_BYTES, **limits})


def pids():
  return {int(name) for name in os.listdir('/proc') if name.isdigit()}


def parent_of(pid):
  try:
    return int(pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[1])
  except OSError:
    return None


def descendants(pid):
  parents = {child: parent_of(child) for child in pids()}
  found = {pid}
  while more := {child for child, parent in parents.items() if parent in found} - found:
    found |= more
  return found - {pid}


def is_running(pid):
  try:
    return pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0] != 'Z'
  except OSError:
    return False


def assert_soon(condition, seconds=5.0):
  deadline = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < deadline
    time.sleep(0.02)


def clear_orphans():
  """What init does elsewhere."""
  for pid in descendants(os.getpid()):
    os.waitpid(pid, 0)


# --- hostile programs ---------------------------------------------------------------------------------------
#
# Each says 'achieved ...' for what it could do. `attempt` runs one thing that should fail.

ATTEMPT = """
import os, sys, ctypes
libc = ctypes.CDLL(None, use_errno=True)
def attempt(what, function):
  try:
    result = function()
  except (OSError, ImportError) as error:
    print('failed', what, error)
  else:
    print('achieved', what, repr(result)[:200])
def call(name, *arguments):
  if getattr(libc, name)(*arguments) < 0:
    raise OSError(ctypes.get_errno(), name)
def read(path):
  with open(path, 'rb') as file:
    return file.read(1 << 20)
"""


def attempts(program, tier, *, failures, **limits):
  """Runs attempts; all of them have to fail, and there are so many."""
  result = run(ATTEMPT + program, tier, **limits)
  assert result.status == 'ok', result
  assert 'achieved' not in result.stdout, result.stdout
  assert result.stdout.count('failed') == failures, result.stdout
  return result


def test_1_network(tier):
  with socket.create_server(('127.0.0.1', 0)) as server:
    server.setblocking(False)
    port = server.getsockname()[1]
    attempts(
        f"""
import socket
attempt('here', lambda: socket.create_connection(('127.0.0.1', {port}), 1))
attempt('here, version 6', lambda: socket.create_connection(('::1', {port}), 1))
attempt('outside', lambda: socket.create_connection(('1.1.1.1', 53), 1))
attempt('a datagram', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('1.1.1.1', 53)))
attempt('a raw socket', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt('the host of a virtual machine', lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, {port})))
attempt('the kernel', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
attempt('a name', lambda: socket.getaddrinfo('example.com', 80))
""",
        tier,
        failures=8,
    )
    with pytest.raises(BlockingIOError):
      server.accept()


def test_2_the_answers_of_the_grader(tier, tmp_path):
  secret = os.urandom(8).hex()  # in this process, and in a file
  answer = tmp_path / 'answers.txt'
  answer.write_text(secret)
  result = attempts(
      f"""
for path in ({str(answer)!r}, {__file__!r}, {str(REPOSITORY / 'README.md')!r}):
  attempt(path, lambda: read(path))
for process in ('1', str(os.getppid()), '{os.getpid()}', 'thread-self/../../1'):
  for name in ('environ', 'mem', 'maps', 'fd/3', 'fd/4', 'task/1/mem'):
    attempt(name, lambda: open(f'/proc/{{process}}/{{name}}', 'rb'))
  for name in ('root', 'cwd', 'fd'):
    attempt(name, lambda: os.listdir(f'/proc/{{process}}/{{name}}'))
for process in (1, os.getppid(), {os.getpid()}):
  attempt('trace', lambda: call('ptrace', 16, process, 0, 0))
  attempt('read memory', lambda: call('process_vm_readv', process, None, 0, None, 0, 0))
  attempt('take a descriptor', lambda: call('syscall', 438, os.pidfd_open(process), 3, 0))
def names(place):
  try: return [os.path.join(place, name) for name in os.listdir(place)]
  except OSError: return []
processes = [path for path in names('/proc') if path[-1].isdigit()]
print(names('/'), names('/tmp'), names('/root'), [read(path + '/cmdline') for path in processes])
""",
      tier,
      failures=3 + 4 * (6 + 3) + 3 * 3,
  )
  assert secret not in result.stdout and 'pytest' not in result.stdout.splitlines()[-1]


def test_3_the_users_of_the_machine(tier):
  attempts(
      """
for path in ('/etc/passwd', '/etc/shadow', '/etc/hosts', '/var/log/dpkg.log', '/etc/../etc/passwd'):
  attempt(path, lambda: read(path))
attempt('homes', lambda: os.listdir('/home'))
attempt('become root', lambda: os.setuid(0))
attempt('become another', lambda: os.setresuid(1000, 1000, 1000))
""",
      tier,
      failures=8,
  )
  assert run('import os; print(os.getuid())', tier).stdout != f'{os.getuid()}\n' or os.getuid() != 0


def test_4_writing_outside(tier, tmp_path):
  victim = tmp_path / 'victim'
  victim.write_text('untouched')
  victim.chmod(0o666)
  tmp_path.chmod(0o777)
  library = os.path.join(sys.base_prefix, 'lib')
  name = f'rlx-{os.getpid()}'
  folders = [str(tmp_path), str(REPOSITORY), library]
  folders += ['/', '/usr/lib', '/etc', '/dev', '/root', '/proc/sys/kernel']
  result = attempts(
      f"""
for folder in {folders}:
  attempt(folder, lambda: open(os.path.join(folder, {name!r}), 'w'))
for how in ('w', 'a', 'r+'):
  attempt('overwrite', lambda: open({str(victim)!r}, how))
attempt('cut', lambda: os.open({str(victim)!r}, os.O_RDONLY | os.O_TRUNC))
attempt('cut the library', lambda: os.open(os.__file__, os.O_RDONLY | os.O_TRUNC))
for change in (os.unlink, os.rmdir, lambda path: os.chmod(path, 0), lambda path: os.truncate(path, 0),
               lambda path: os.rename(path, path + '2'), lambda path: os.link(path, path + '2'), os.utime):
  attempt('change', lambda: change({str(victim)!r}))
attempt('a file of the library', lambda: os.chmod(os.__file__, 0o777))
""",
      tier,
      failures=len(folders) + 3 + 2 + 7 + 1,
  )
  if tier == 'seccomp':  # also where the library belongs to the user
    assert 'failed cut the library [Errno 1]' in result.stdout
  assert victim.read_text() == 'untouched' and victim.stat().st_mode & 0o777 == 0o666
  assert [path.name for path in tmp_path.iterdir()] == ['victim']
  assert not any(os.path.exists(os.path.join(folder, name)) for folder in folders)


def test_5_secrets_of_the_environment(tier, monkeypatch):
  monkeypatch.setenv('RLX_TOKEN', 'hunter2')
  result = run("""
import os
print(dict(os.environ), os.getenv('RLX_TOKEN'))
for process in ['1', str(os.getppid()), 'self']:
  try: print(open(f'/proc/{process}/environ').read())
  except OSError as error: print(error)
""", tier)  # fmt: skip
  assert result.status == 'ok' and 'PYTHONHASHSEED' in result.stdout
  assert 'hunter2' not in result.stdout and 'RLX' not in result.stdout


def test_6_killing(tier):
  with subprocess.Popen(['sleep', '60']) as witness:
    try:
      result = run(
          ATTEMPT
          + f"""
for target in (os.getppid(), 1, {os.getpid()}, {witness.pid}, -1, -os.getppid(), 0):
  for number in (15, 9, 19) if target else ():
    try: os.kill(target, number)
    except OSError as error: print(error)
attempt('fcntl', lambda: __import__('fcntl').fcntl(0, 8, {witness.pid}))
attempt('limit', lambda: __import__('resource').prlimit({witness.pid}, 0, (0, 0)))
print('alive')
""",
          tier,
      )
      assert result.status == 'ok' and result.stdout.endswith('alive\n'), result
      assert 'achieved limit' not in result.stdout
      assert tier == 'bubblewrap' or 'achieved' not in result.stdout
      assert witness.poll() is None
    finally:
      witness.kill()


def test_7_fork_bomb(tier):
  before, began = len(pids()), time.monotonic()
  with ThreadPoolExecutor(1) as thread:
    bomb = 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass'
    result = thread.submit(run, bomb, tier, timeout_seconds=1)
    most = before
    while not result.done():
      most = max(most, len(pids()))
      time.sleep(0.02)
  assert result.result().status == 'timeout'
  assert most < before + 64 + 60 and time.monotonic() - began < 8  # others start processes as well


def test_8_three_gibibytes(tier):
  result = run('x = bytearray(3 << 30)', tier)
  assert (result.status, result.returncode) == ('memory', 1)
  assert run('x = [bytearray(1 << 20) for _ in range(3000)]', tier).status == 'memory'
  mapped = 'import mmap\nx = [mmap.mmap(-1, 1 << 26) for _ in range(48)]\nprint(len(x))'
  assert run(mapped, tier).stdout == ''


@needs_bubblewrap
def test_8_three_gibibytes_in_many_processes_and_files_of_memory():
  shared = """
import os, time
for _ in range(40):
  if not os.fork():
    x = bytearray(b'x') * (75 << 20)
    time.sleep(60)
time.sleep(60)
"""
  began = time.monotonic()
  assert run(shared, timeout_seconds=30).status == 'memory'
  assert time.monotonic() - began < 20
  attempts(
      """
attempt('memfd', lambda: os.memfd_create('x'))
attempt('shmget', lambda: call('shmget', 1, 1 << 30, 1023))
""",
      'bubblewrap',
      failures=2,
  )


SOCKETS = """
import os, socket, time
def fill():
  kept = []
  while True:
    try: kept.append(socket.socketpair())
    except OSError: break
    for one in kept[-1]:
      one.setblocking(False)
      try:
        while True: one.send(bytes(1 << 16))
      except OSError: pass
  return kept
for _ in range(PROCESSES):
  if not os.fork(): break
kept = fill()
more = bytearray(b'x') * MORE
time.sleep(60)
"""


def test_8_memory_in_sockets_counts(tier):
  """A program held 1.5 GB in them under a limit of 128 MiB, which looked at processes alone."""
  # The second tier starts no processes: those of one, 53 MB, and what else it has.
  processes, more = {'bubblewrap': (30, 0), 'seccomp': (0, 85 * MEBIBYTE)}[tier]
  program = SOCKETS.replace('PROCESSES', str(processes)).replace('MORE', str(more))
  result = run(program, tier, timeout_seconds=20, memory_bytes=128 * MEBIBYTE)
  assert (result.status, result.returncode) == ('memory', None) and result.seconds < 10, result


def test_8_buffers_of_sockets_stay_small_and_pairs_work(tier):
  attempts(
      """
import socket
a, b = socket.socketpair()
for option in (7, 8, 32, 33):
  attempt(option, lambda: a.setsockopt(socket.SOL_SOCKET, option, 1 << 22))
attempt('a pair of another kind', lambda: socket.socketpair(socket.AF_INET))
""",
      tier,
      failures=5,
  )
  program = 'import asyncio\nasync def f():\n  await asyncio.sleep(0.01)\n  return 5\nprint(asyncio.run(f()))'
  assert run(program, tier).stdout == '5\n'


def test_8_parts_of_the_kernel_that_hold_memory_or_speak_to_others(tier):
  """Of System V also what others have made, by its number; with calls by number, for all of them."""
  names = [
      *('shmget', 'shmat', 'shmctl', 'msgget', 'msgsnd', 'msgrcv', 'msgctl', 'semget', 'semop', 'semctl'),
      *('semtimedop', 'mq_open', 'mq_unlink', 'mq_timedsend', 'mq_timedreceive', 'mq_notify'),
      *('mq_getsetattr', 'inotify_init1', 'inotify_add_watch', 'fanotify_init', 'io_setup', 'io_submit'),
      *('io_getevents', 'io_pgetevents', 'io_uring_setup', 'io_uring_enter', 'io_uring_register'),
      'memfd_create',
  ]
  _, column = sandbox._MACHINES[sandbox.platform.machine()]
  numbers = {name: sandbox._FORBIDDEN[name][column] for name in names}
  result = attempts(
      f"""
for name, number in {numbers}.items():
  attempt(name, lambda: call('syscall', number, 0, 0, 0, 0, 0, 0))
""",
      tier,
      failures=len(names),
  )
  assert result.stdout.count('[Errno 1]') == len(names), result.stdout  # the filter's, not of wrong arguments


FILL = """
import os, errno
total = 0
for folder in ('/tmp', '/dev/shm', '/var/tmp', '/dev', '/'):
  try:
    for i in range(1000):
      with open(f'{folder}/{i}', 'wb', buffering=0) as file:
        for _ in range(8):
          total += file.write(bytes(1 << 20))
  except OSError as error:
    print(folder, errno.errorcode[error.errno])
print(total >> 20)
"""


def test_9_filling_the_disk(tier):
  result = run(FILL, tier)
  assert result.status == 'ok' and 'ENOSPC' in result.stdout or tier == 'seccomp'
  most = {'bubblewrap': (sandbox._TMP_BYTES + sandbox._SHARED_MEMORY_BYTES) / MEBIBYTE, 'seccomp': 0}[tier]
  assert 0.9 * most <= int(result.stdout.split()[-1]) <= most


@needs_bubblewrap
def test_9_one_large_file_and_many_small_ones():
  result = run("""
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open('/tmp/x', 'wb', buffering=0) as file:
  for _ in range(64):
    file.write(bytes(1 << 20))
""")
  assert 'File too large' in result.stderr
  assert run("for i in range(10 ** 9): open(f'/tmp/{i}', 'w').close()", timeout_seconds=30).status == 'disk'


def test_10_mounting(tier):
  before = pathlib.Path('/proc/self/mounts').read_text()
  attempts(
      """
attempt('tmpfs', lambda: call('mount', b'none', b'/tmp', b'tmpfs', 0, None))
attempt('bind', lambda: call('mount', b'/', b'/tmp', None, 4096, None))
attempt('writable', lambda: call('mount', b'none', b'/', None, 32, None))
attempt('unmount', lambda: call('umount2', b'/proc', 2))
attempt('chroot', lambda: os.chroot('/tmp'))
attempt('pivot', lambda: call('syscall', 155, b'/tmp', b'/tmp'))
""",
      tier,
      failures=6,
  )
  assert pathlib.Path('/proc/self/mounts').read_text() == before


def test_11_namespaces(tier):
  attempts(
      """
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x80):
  attempt(f'unshare {flag:x}', lambda: call('unshare', flag))
attempt('clone', lambda: call('syscall', 56, 0x10000000 | 17, 0, 0, 0, 0))
attempt('clone3', lambda: call('syscall', 435, (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17), 88))
attempt('setns', lambda: call('setns', 0, 0))
""",
      tier,
      failures=11,
  )


@needs_bubblewrap
def test_11_a_program_is_alone_and_has_no_rights():
  said = run("""
import os
for name in ('net', 'pid', 'ipc', 'uts', 'mnt'):
  print(os.readlink(f'/proc/self/ns/{name}'))
print(open('/proc/self/status').read())
""").stdout.splitlines()  # fmt: skip
  outside = {os.readlink(f'/proc/self/ns/{name}') for name in ('net', 'pid', 'ipc', 'uts', 'mnt')}
  assert len(outside | set(said[:5])) == 10
  status = dict(line.split(':\t') for line in said[5:] if ':\t' in line)
  assert {status[name] for name in ('CapPrm', 'CapEff', 'CapAmb')} == {'0' * 16}
  assert (status['NoNewPrivs'], status['Seccomp']) == ('1', '2')
  assert not {'0', str(os.getuid())} & set(status['Uid'].split() + status['Gid'].split())


DAEMON = """
import os, signal, sys, time
if not os.fork():
  os.setsid()
  if os.fork():
    os._exit(0)
  for number in (1, 2, 3, 15):
    signal.signal(number, signal.SIG_IGN)
  for fd in range(3):
    os.close(fd)
  while True:
    open('/tmp/alive', 'w').close()
    time.sleep(0.01)
while not os.path.exists('/tmp/alive'):
  time.sleep(0.01)
print(os.readlink('/proc/self/ns/pid'))
"""


@needs_bubblewrap
def test_12_daemons():
  result = run(DAEMON)
  assert result.status == 'ok' and result.stdout.startswith('pid:[')

  def namespace(pid):
    try:
      return os.readlink(f'/proc/{pid}/ns/pid')
    except OSError:
      return ''

  assert result.stdout.strip() not in map(namespace, pids())


def test_12_daemons_cannot_start_in_the_seccomp_tier(tier):
  if tier == 'seccomp':
    attempts(
        """
attempt('fork', os.fork)
attempt('vfork', lambda: call('syscall', 58))
attempt('spawn', lambda: os.posix_spawn('/bin/true', ['true'], {}))
attempt('exec', lambda: os.execv(sys.executable, ['python']))
""",
        tier,
        failures=4,
    )
  threads = 'import threading\nt = threading.Thread(target=print, args=(1,))\nt.start()\nt.join()'
  assert run(threads, tier).stdout == '1\n'


@pytest.mark.parametrize('end', ["while True: sys.stdout.write('x' * 9999)", 'sys.exit(3)', 'time.sleep(60)'])
def test_13_floods_and_closed_outputs(tier, end):
  began = time.monotonic()
  result = run(
      f"""
import os, signal, sys, time
for number in (1, 2, 13, 15):
  signal.signal(number, signal.SIG_IGN)
for _ in range(300):
  sys.stdout.write('out ' * 1000)
  sys.stderr.write('err ' * 1000)
sys.stderr.write('the end')
sys.stderr.flush()
{'' if 'write' in end else 'sys.stdout.flush(); os.close(1); os.close(2)'}
{end}
""",
      tier,
      timeout_seconds=1,
  )
  assert result.status == ('error' if 'exit' in end else 'timeout')
  assert time.monotonic() - began < 1 + 6
  assert len(result.stdout) == len(result.stderr) == 1 << 16 and result.overran
  assert result.stdout.startswith('out out') and result.stderr.endswith('err the end')


def test_13_the_supervisor_is_out_of_reach(tier):
  """A stopped parent cannot be starved, closed or talked to; what looks like a report is output."""
  result = run(
      """
import os, resource
for fd in range(3, 64):
  try: os.write(fd, b"started\\n('ok', 0, 0.0, [True])\\n"); print('achieved', fd)
  except OSError: pass
for process in (os.getppid(), 1):
  try: resource.prlimit(process, resource.RLIMIT_NOFILE, (0, 0)); print('achieved', process)
  except OSError: pass
print("started\\n('ok', 0, 0.0, [])", flush=True)
os._exit(7)
""",
      tier,
  )
  assert (result.status, result.returncode) == ('error', 7) and 'achieved' not in result.stdout


LIST_DESCRIPTORS = """
import os, stat
def is_open(fd):
  try: os.fstat(fd)
  except OSError: return False
  return True
print([fd for fd in range(4096) if is_open(fd)], flush=True)
"""


def test_no_other_descriptor_is_open(tier):
  """However many the caller has: those of the sandbox then lie behind the limit of the program."""
  files = [open(os.devnull) for _ in range(sandbox._NUM_OPEN_FILES + 20)]  # noqa: SIM115
  try:
    assert run(LIST_DESCRIPTORS, tier).stdout == '[0, 1, 2]\n'
    functions = [types.FunctionType(wait.__code__, {}, 'judge'), serve]
    result, _ = sandbox.run_judged(LIST_DESCRIPTORS, functions, 'secret', **LIMITS, tier=tier)
    assert len(result.stdout.split()) == 5, result  # and two pipes to the judge
  finally:
    for file in files:
      file.close()


def wait(channel, report, data):
  """Until the program has ended."""
  import os

  os.read(channel[0], 1)


# --- programs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('program', 'status', 'returncode', 'stdout'),
    [
        ("print(input()[::-1], 'ü', __name__)", 'ok', 0, 'cba ü __main__\n'),
        ('import sys; print(len(sys.stdin.read()))', 'ok', 0, '7\n'),
        ('import sys; print(1); sys.exit(3)', 'error', 3, '1\n'),
        ('import sys; sys.exit()', 'ok', 0, ''),
        ('import atexit; atexit.register(print, 2); print(1)', 'ok', 0, '1\n2\n'),
        ('1 / 0', 'error', 1, ''),
        ('def f(:', 'error', 1, ''),
        ('\0', 'error', 1, ''),
        ('raise KeyboardInterrupt', 'error', 1, ''),
        ('import os; os.kill(os.getpid(), 11)', 'error', -11, ''),
        ('def f(): f()\nf()', 'error', 1, ''),
        ("import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))", 'ok', 0, '[1, 2]\n'),
        ("import subprocess as s, sys; s.run([sys.executable, '-c', 'print(5)'])", 'ok', 0, '5\n'),
        ('print(list({"a", "b", "c", "d"}) == list({"a", "b", "c", "d"}), hash("rlx"))', 'ok', 0, None),
        ("import json, sqlite3, decimal, zoneinfo; print(zoneinfo.ZoneInfo('Europe/Berlin'))", 'ok', 0, None),
        ('import numpy', 'error', 1, ''),
        ("open('/tmp/x', 'w').write('hi'); print(open('x').read())", 'ok', 0, 'hi\n'),
    ],
)  # fmt: skip
@needs_bubblewrap
def test_programs(program, status, returncode, stdout):
  result = run(program, stdin='abc\ndef')
  assert result.status == status, result
  assert result.returncode == returncode
  assert result.stdout == stdout or stdout is None
  assert 'supervisor.py' not in result.stderr and 0 < result.seconds < 10
  assert stdout is not None or run(program).stdout == result.stdout  # the same in every run


@needs_bubblewrap
def test_installed_packages_are_not_there():
  folders = sandbox._site_packages()
  said = run(f'import os\nfor folder in {folders}: print(os.listdir(folder))').stdout
  assert said == '[]\n' * len(folders)


@needs_bubblewrap
def test_a_traceback_shows_the_program_alone():
  result = run('def f(x):\n  return 1 / x\nprint(1)\nf(0)')
  lines = [line.strip() for line in result.stderr.splitlines()]
  assert lines[1:] == [
      'File "program.py", line 4, in <module>',
      'File "program.py", line 2, in f',
      'ZeroDivisionError: division by zero',
  ]


def test_time_is_wall_time_of_everything(tier):
  began = time.monotonic()
  result = run('import time; print(1, flush=True); time.sleep(60)', tier, timeout_seconds=0.5)
  assert (result.status, result.returncode, result.stdout) == ('timeout', None, '1\n')
  assert 0.5 <= result.seconds < 2 and time.monotonic() - began < 5


@pytest.mark.slow
def test_waiting_for_a_core_is_not_the_programs_doing(tier):
  """Three programs a core, each of which needs three quarters of its time on one."""
  needed = 'import time\nwhile time.process_time() < 0.75: pass\nprint(1)'
  cores = len(os.sched_getaffinity(0))
  with ThreadPoolExecutor(3 * cores) as threads:
    results = list(threads.map(lambda _: run(needed, tier, timeout_seconds=1), range(3 * cores)))
  # Where others have nearly all of the machine, patience may end; nothing ends before.
  early = [result for result in results if result.seconds < 0.95 * sandbox._PATIENCE]
  assert {result.status for result in early} <= {'ok'}
  began = time.monotonic()
  assert run('while True: pass', tier, timeout_seconds=0.5).status == 'timeout'
  assert time.monotonic() - began < 0.5 * sandbox._PATIENCE + 5


@needs_bubblewrap
def test_one_program_after_another_sees_nothing_of_it():
  assert run("import os; open('/tmp/x', 'w'); open('/dev/shm/x', 'w')").status == 'ok'
  assert run("import os; print(os.listdir('/tmp'), os.listdir('/dev/shm'))").stdout == '[] []\n'


def judge(channel, report, data):
  """Reports, and goes on for ever."""
  report(data)
  while True:
    pass


def serve(namespace, channel):
  """Ends, and the program with it."""


@needs_bubblewrap
def test_a_judge_that_hangs_is_stopped_and_has_reported():
  limits = {**LIMITS, 'timeout_seconds': 0.5, 'tier': 'bubblewrap'}
  result, report = sandbox.run_judged('', [judge, serve], (1, 'two'), **limits)
  assert (result.status, result.returncode, report) == ('timeout', 0, [(1, 'two')])


@pytest.mark.slow
def test_a_supervisor_that_hangs_is_killed_from_outside(tier, monkeypatch):
  monkeypatch.setattr(sandbox, '_GRACE_SECONDS', 0.3)
  monkeypatch.setattr(supervisor, 'watcher', types.FunctionType(endless.__code__, {}, 'watcher'))
  result = run('import time; time.sleep(60)', tier, timeout_seconds=0.3)
  assert (result.status, result.returncode) == ('timeout', None)
  if tier == 'seccomp':  # bubblewrap clears everything away itself
    assert_soon(lambda: not any(map(is_running, descendants(os.getpid()))))
    clear_orphans()


def endless(job, pids, began, ended):
  while True:
    pass


# --- what is left -------------------------------------------------------------------------------------------


def run_many(count):
  """Runs programs of all kinds, two at a time; returns what became of them. Nothing may be left."""
  programs = [
      ('print(1)', 'ok'),
      ('1 / 0', 'error'),
      ('import os; os.fork() and os._exit(5)', 'error'),
      ('import os, time\nif os.fork() == 0: os.setsid(); os.fork(); time.sleep(60)', 'ok'),
      ('import subprocess as s; [s.Popen(["/proc/self/exe", "-c", "while 1: 0"]) for _ in range(3)]', 'ok'),
  ]
  with ThreadPoolExecutor(2) as threads:
    picked = [programs[i % len(programs)] for i in range(count)]
    results = list(threads.map(lambda pick: run(pick[0], timeout_seconds=60).status, picked))
    assert not descendants(os.getpid())
  assert results == [status for _, status in picked]


@needs_bubblewrap
@pytest.mark.slow
def test_64_programs_in_flight_keep_their_limits_and_leave_nothing():
  """Of all kinds that want too much, at once: each gets its own verdict, and nothing stays."""
  programs = [
      ('print(sum(range(10 ** 5)))', 'ok'),
      ('x = [bytearray(1 << 20) for _ in range(3000)]', 'memory'),
      ('while True: pass', 'timeout'),
      ('import os\nwhile True:\n  try: os.fork()\n  except OSError: pass', 'timeout'),
      (SOCKETS.replace('PROCESSES', '30').replace('MORE', '0'), 'memory'),
      ("while True: print('x' * 9999)", 'timeout'),
      ("for i in range(10 ** 9): open(f'/tmp/{i}', 'w').close()", 'disk'),
      ('import socket; s = socket.create_connection(("127.0.0.1", 9))', 'error'),
  ]
  open_files = lambda: len(os.listdir('/proc/self/fd'))
  before, mounts = open_files(), pathlib.Path('/proc/self/mounts').read_text()
  picked = [programs[i % len(programs)] for i in range(64)]
  with ThreadPoolExecutor(64) as threads:
    results = list(threads.map(lambda pick: run(pick[0], timeout_seconds=4), picked))
  # On a busy machine what should run out of memory or files may run out of time before.
  wrong = [
      (wanted, result) for (_, wanted), result in zip(picked, results, strict=True)
      if result.status not in (wanted, 'timeout' if wanted in ('memory', 'disk') else wanted)
  ]
  assert not wrong
  assert not descendants(os.getpid())
  assert open_files() == before and pathlib.Path('/proc/self/mounts').read_text() == mounts


@needs_bubblewrap
@pytest.mark.slow
def test_120_programs_leave_no_zombie_and_all_start():
  run_many(120)


@pytest.mark.slow  # 2,000 programs of which every fifth starts children that outlive it
@needs_bubblewrap
def test_2000_programs_leave_no_zombie_and_all_start():
  run_many(2000)


WORKER = """
import sys
import tempfile
sys.path.insert(0, {path!r})
from rlx.rewards.sandbox import check, run_python
limits = dict(stdin='', timeout_seconds=60, memory_bytes=1 << 28, output_bytes=1 << 16, tier={tier!r})
assert not [name for name in sys.modules if name.partition('.')[0] in ('jax', 'numpy')]
print('here', flush=True)
print(run_python({program!r}, **limits), flush=True)
"""


@pytest.mark.parametrize('when', ['starting', 'running'])
def test_a_worker_that_is_killed_takes_its_programs_along(tier, when):
  program = 'import time\ntry:\n  import os; os.fork()\nexcept OSError: pass\ntime.sleep(60)'
  code = WORKER.format(path=str(REPOSITORY), tier=tier, program=program)
  command = [sys.executable, '-c', code]
  with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as worker:
    assert worker.stdout.readline() == 'here\n'
    enough = {'starting': 1, 'running': {'bubblewrap': 4, 'seccomp': 2}[tier]}[when]
    assert_soon(lambda: len(descendants(worker.pid)) >= enough, 30)
    worker.kill()
  assert_soon(lambda: not any(map(is_running, descendants(os.getpid()))))
  clear_orphans()


# --- sandboxes that do not start ----------------------------------------------------------------------------


def test_check(tier):
  sandbox.check.cache_clear()
  sandbox.check(tier)


def test_check_notices_a_sandbox_that_does_not_confine(monkeypatch, tmp_path):
  """A bubblewrap that starts its command without any wrapping."""
  fake_bubblewrap(tmp_path, monkeypatch, 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
  monkeypatch.setattr(sandbox, '_FORBIDDEN_AMONG_OTHERS', {})
  if (found := readable_interpreter()) is None:
    pytest.skip('no interpreter that every user can read')
  monkeypatch.setattr(sys, 'executable', found[0])
  # Without walls every process and file of the machine counts as the program's: no limit must end it first.
  monkeypatch.setattr(sandbox, '_MAX_FILES', 1 << 60)
  run_as_told = sandbox.run_python
  roomy = lambda *args, **limits: run_as_told(*args, **{**limits, 'memory_bytes': 1 << 44})
  monkeypatch.setattr(sandbox, 'run_python', roomy)
  sandbox.check.cache_clear()
  with pytest.raises(SandboxError, match='does not do here what it should.*possible'):
    sandbox.check('bubblewrap')


def fake_bubblewrap(folder, monkeypatch, script):
  path = folder / 'bwrap'
  path.write_text(f'#!/bin/sh\n{script}\n')
  path.chmod(0o755)
  monkeypatch.setenv('PATH', str(folder))


def test_without_bubblewrap_it_says_what_to_install(monkeypatch, tmp_path):
  monkeypatch.setenv('PATH', str(tmp_path))
  sandbox.check.cache_clear()
  for attempt in (lambda: run('print(1)'), lambda: sandbox.check('bubblewrap')):
    with pytest.raises(SandboxError, match="`apt-get install bubblewrap`.*tier='seccomp'"):
      attempt()


@pytest.mark.parametrize(
    ('script', 'message'),
    [
        ('echo "bwrap: Creating new namespace failed: Operation not permitted" >&2; exit 1', 'sysctl -w'),
        ("echo \"bwrap: Can't mount proc on /newroot/proc: not permitted\" >&2; exit 1", 'systempaths'),
        ('echo "bwrap: Unknown option --size" >&2; exit 1', '0.7 or newer'),
        ('exit 0', 'it said nothing'),
        ('echo "something else" >&2; kill -9 $$', 'does not start .something else.'),
        ('exec sleep 60', 'did not start in 0.3 s'),
    ],
)
def test_a_sandbox_that_does_not_start_is_an_error(monkeypatch, tmp_path, script, message):
  monkeypatch.setattr(sandbox, '_START_SECONDS', 0.3)
  path = os.environ['PATH']
  fake_bubblewrap(tmp_path, monkeypatch, f'PATH={path}; {script}')
  with pytest.raises(SandboxError, match=message):
    run('print(1)')


@needs_bubblewrap
def test_what_a_program_says_is_not_taken_for_a_sandbox_that_does_not_start():
  said = 'import sys; print("bwrap: Creating new namespace failed", file=sys.stderr); sys.exit(1)'
  assert run(said).status == 'error'


@needs_bubblewrap
def test_an_interpreter_in_the_folder_for_temporary_files_is_found(monkeypatch):
  with tempfile.TemporaryDirectory(dir='/tmp') as folder:
    path = shutil.copy(os.path.realpath(sys.executable), folder)
    monkeypatch.setattr(sys, 'executable', path)
    said = 'import os, sys; print(sys.executable); open("/tmp/own", "w"); print(sorted(os.listdir("/tmp")))'
    found = run(said)
  assert found.status == 'ok', found
  assert found.stdout.split('\n')[:2] == [path, str(sorted([os.path.basename(folder), 'own']))]


def test_an_interpreter_that_the_program_may_not_read_is_an_error(monkeypatch, tmp_path):
  if os.geteuid() == 0:
    hidden, interpreter = tmp_path / 'hidden', os.path.realpath(sys.executable)
    shutil.copytree(os.path.dirname(interpreter), hidden / 'bin', symlinks=True)
    hidden.chmod(0o700)
    monkeypatch.setattr(sys, 'executable', str(hidden / 'bin' / os.path.basename(interpreter)))
    with pytest.raises(SandboxError, match=f'{hidden} is closed to it; `chmod o.rx'):
      run('print(1)', 'seccomp')
  monkeypatch.setattr(sys, 'executable', str(tmp_path / 'nothing'))
  with pytest.raises(SandboxError, match='there is no interpreter'):
    run('print(1)', 'seccomp')


def test_a_program_that_cannot_be_confined_is_an_error(tier, monkeypatch):
  with monkeypatch.context() as patch:
    patch.setattr(sandbox, '_filter', lambda tier: b'no filter at all')
    with pytest.raises(SandboxError, match='does not start .*prctl.* failed'):
      run('print(1)', tier)
  monkeypatch.setattr(sandbox, '_readable', lambda: [('/nothing', 1)])
  if tier == 'seccomp':
    with pytest.raises(SandboxError, match='does not start .*No such file'):
      run('print(1)', tier)


def test_a_machine_of_another_kind_is_an_error(monkeypatch):
  monkeypatch.setattr(sandbox.platform, 'machine', lambda: 'riscv64')
  sandbox._filter.cache_clear()
  with pytest.raises(SandboxError, match='no system calls of riscv64'):
    run('print(1)')


@pytest.mark.parametrize(
    ('name', 'value'),
    [
        ('tier', 'docker'), ('timeout_seconds', 0), ('timeout_seconds', math.inf), ('memory_bytes', 1 << 20),
        ('output_bytes', -1),
    ],
)
def test_wrong_arguments(name, value):
  with pytest.raises(ValueError, match=f'{name}={value!r}'):
    run('print(1)', **{name: value})


# --- an ordinary user ---------------------------------------------------------------------------------------


@needs_root
def test_an_ordinary_user_gets_the_same(tier):
  """Both tiers need no rights; this process is root's, so it becomes somebody else."""
  if not os.stat(REPOSITORY).st_mode & 0o001 or (found := readable_interpreter()) is None:
    pytest.skip('the repository or the interpreter is closed to other users')
  probes = ATTEMPT + f"""
import socket, time
def bomb():
  for _ in range(1000):
    if not os.fork(): time.sleep(60)
attempt('network', lambda: socket.create_connection(('127.0.0.1', 9), 1))
attempt('users', lambda: read('/etc/passwd'))
attempt('repository', lambda: read({__file__!r}))
attempt('fork bomb', bomb)
attempt('namespace', lambda: call('unshare', 0x10000000))
for name in ('mem', 'environ', 'maps', 'fd/3'):
  attempt('supervisor', lambda: open(f'/proc/{{os.getppid()}}/{{name}}', 'rb'))
for folder in ('/', '/dev', '/etc', '/usr', '/var/tmp', '/proc/sys/kernel', os.path.dirname(os.__file__)):
  attempt('write', lambda: open(folder + '/rlx', 'w'))
print(os.getuid())
"""
  command = [found[0], '-c', WORKER.format(path=str(REPOSITORY), tier=tier, program=probes)]
  user = {'user': 65533, 'group': 65533, 'extra_groups': []}
  said = subprocess.run(command, capture_output=True, text=True, cwd='/', check=True, **user).stdout
  assert "status='ok'" in said and 'achieved' not in said and said.count('failed') == 5 + 4 + 7, said


# --- the filter ---------------------------------------------------------------------------------------------


def test_the_filter_has_the_numbers_of_this_machine():
  """Against the kernel's own header, where it is installed."""
  _, column = sandbox._MACHINES[sandbox.platform.machine()]
  header = pathlib.Path('/usr/include/x86_64-linux-gnu/asm/unistd_64.h')
  if column or not header.exists():
    pytest.skip('no header with the numbers of system calls')
  known = {name: int(n) for name, n in re.findall(r'#define __NR_(\w+) (\d+)', header.read_text())}
  ours = sandbox._FORBIDDEN | sandbox._FORBIDDEN_AMONG_OTHERS
  others = ('clone', 'clone3', 'socket', 'open', 'openat', 'openat2', 'prlimit64', 'fcntl', 'ioctl')
  others += ('socketpair', 'setsockopt')
  ours |= {name: getattr(sandbox, f'_{name.upper()}') for name in (*others, 'sched_setaffinity')}
  assert {name: n[0] for name, n in ours.items() if name in known} == {
      name: known[name] for name in ours if name in known
  }
  assert len(ours.keys() & known.keys()) > 0.95 * len(ours)
