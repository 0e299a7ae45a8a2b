"""A sandbox from inside: the program is started, confined and measured, and ended with all that it started.

`supervise` is the first process in there. It forks the program, which gives away in `confine` what it must
not have before `run_program` runs a line of it, and the judge beside it, where there is one; then it waits
for the end, or makes one. The job, a dict, comes from `rlx/rewards/sandbox.py`, which also reads the report.
"""


def supervise(job):
  """The life of the supervisor: starts the program, waits for the end or makes one, and reports."""
  import _signal  # not `signal`, whose enums take longer to import than all the rest
  import ctypes
  import os
  import time

  libc = ctypes.CDLL(None, use_errno=True)
  if os.geteuid() == 0:
    take_uid(job['uids'])
  libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: the program, though of the same user, cannot read this process
  libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG
  _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGCHLD])
  to_program, to_judge, to_supervisor = os.pipe(), os.pipe(), os.pipe()
  program = os.fork()
  if not program:
    channel = [to_program[0], to_judge[1]]
    confine(job, libc, channel)
    return run_program(job, channel)

  os.close(to_program[0])
  os.close(to_judge[1])
  if not os.read(to_judge[0], 1):  # it could not be confined, and said why
    os.waitpid(program, 0)
    os._exit(1)
  os.write(job['fds']['status'], b'started\n')
  began = time.monotonic()
  awaited = os.fork() if job['judged'] else program
  if not awaited:
    return run_judge(job, libc, [to_judge[0], to_program[1]], to_supervisor[1])

  os.close(to_supervisor[1])
  os.set_blocking(to_supervisor[0], False)
  ended, report, kind = {}, b'', ''
  look = watcher(job, {program, awaited}, began, ended)
  while not kind and awaited not in ended:
    _signal.sigtimedwait([_signal.SIGCHLD], 0.05)
    kind = look()
    try:  # noqa: SIM105 (takes an import)
      report += os.read(to_supervisor[0], 1 << 16)
    except BlockingIOError:
      pass
  if not kind:
    kind = 'ok' if not ended[awaited] and (program == awaited or program not in ended) else 'error'
  final = repr((kind, ended.get(program), time.monotonic() - began, report)).encode() + b'\n'
  for pid in {program, awaited} - ended.keys():
    os.kill(pid, 9)
    os.waitpid(pid, 0)
  while final:
    final = final[os.write(job['fds']['status'], final) :]
  os._exit(0)  # as process 1, it takes along all that is left


def take_uid(uids):
  """Becomes, for good, a user that root has nothing to do with."""
  import os

  os.setgroups([])
  for uid in uids:
    try:
      os.setresgid(uid, uid, uid)
      os.setresuid(uid, uid, uid)
      return
    except OSError as error:  # a container may know few ids
      problem = error
  raise OSError(f'root cannot become one of the users {uids}: {problem}')


def lower(name, value):
  """Sets a limit of this process, or leaves one that is lower already."""
  import resource

  limit = getattr(resource, f'RLIMIT_{name}')
  highest = resource.getrlimit(limit)[1]
  value = value if highest == resource.RLIM_INFINITY else min(value, highest)
  resource.setrlimit(limit, (value, value))


def watcher(job, pids, began, ended):
  """A function that enters exit codes into `ended`, and returns why everything has to be stopped, or ''."""
  import os
  import select
  import time

  page = os.sysconf('SC_PAGE_SIZE')
  next_look = 0.0
  try:
    with open('/proc/sys/net/core/wmem_default') as file:
      buffer = int(file.read())
  except (OSError, ValueError):  # not in every namespace
    buffer = 212992

  def resident(process):
    with open(f'/proc/{process}/statm') as file:
      _, pages, shared, *_ = file.read().split()
    return (int(pages) - int(shared)) * page

  def proportional(process):
    """Divides what a process shares with those that it was forked from; takes longer to find out."""
    with open(f'/proc/{process}/smaps_rollup') as file:
      return 1024 * next(int(line.split()[1]) for line in file if line.startswith('Pss:'))

  def memory(measures):
    total = 0
    for process in [name for name in os.listdir('/proc') if name.isdigit()] if job['alone'] else pids:
      for measure in measures:
        try:
          total += measure(process)
          break
        except OSError:  # it has just ended, or hides
          continue
    return total

  def socket_memory():
    """The most that sockets can hold: alone, those of the namespace; else of the one process."""
    if job['alone']:
      with open('/proc/net/unix') as file:
        return buffer * (sum(1 for _ in file) - 1)
    count = 0
    for process in pids:
      try:
        entries = [entry.path for entry in os.scandir(f'/proc/{process}/fd')]
        count += sum(os.readlink(path).startswith('socket:') for path in entries)
      except OSError:  # it has just ended, or closed one
        continue
    return buffer * count

  def is_late(seconds):
    """Whether the time is over: without what a single process has waited for a core of a busy machine, which
    is not the program's doing, but no later than `patience` times the limit."""
    limit = job['timeout_seconds']
    if seconds <= limit:
      return False
    waited = 0.0
    for process in pids:
      try:
        with open(f'/proc/{process}/schedstat') as file:
          waited += 1e-9 * int(file.read().split()[1])
      except (OSError, IndexError, ValueError):  # it has just ended; a kernel that does not count it
        continue
    others = {name for name in os.listdir('/proc') if name.isdigit()} - {str(pid) for pid in pids} - {'1'}
    is_single = not (job['alone'] and others)
    return seconds - waited * is_single > limit or seconds > job['patience'] * limit

  def look():
    nonlocal next_look
    while pids - ended.keys():
      pid, status = os.waitpid(-1, os.WNOHANG)
      if not pid:
        break
      ended[pid] = os.waitstatus_to_exitcode(status)
    now = time.monotonic()
    if now < next_look or not pids - ended.keys():
      return ''
    next_look = now + 0.04
    if is_late(now - began):
      return 'timeout'
    if select.select([0], [], [], 0)[0]:  # nobody waits for the result any more
      os._exit(1)
    limit = job['memory_bytes'] - socket_memory()
    if memory([resident]) > limit and memory([proportional, resident]) > limit:
      return 'memory'
    files = os.statvfs('/tmp')
    return 'disk' if job['alone'] and files.f_files - files.f_ffree > job['max_files'] else ''

  return look


def confine(job, libc, channel):
  """Takes from this process what a program must not have, and tells the supervisor that it did."""
  import _signal
  import ctypes
  import os

  def call(function, *arguments):
    result = function(*[x if isinstance(x, ctypes.Array) else ctypes.c_long(x) for x in arguments])
    if result < 0:
      raise OSError(ctypes.get_errno(), f'{function.__name__}{arguments} failed')
    return result

  _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
  os.dup2(job['fds']['stdin'], 0)
  close_others([0, 1, 2, *channel])
  call(libc.prctl, 1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG
  for name, value in job['limits'].items():
    lower(name, value)
  call(libc.prctl, 38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
  if job['readable'] is not None:
    all_rights = ctypes.create_string_buffer((0x1FFF).to_bytes(8, 'little'), 8)
    try:
      ruleset = call(libc.syscall, 444, all_rights, 8, 0)
    except OSError as error:
      raise OSError(f'no Landlock: {error}') from None
    for path, rights in job['readable']:
      fd = os.open(path, os.O_PATH)
      rule = ctypes.create_string_buffer(rights.to_bytes(8, 'little') + fd.to_bytes(4, 'little'), 12)
      call(libc.syscall, 445, ruleset, 1, rule, 0)
      os.close(fd)
    call(libc.syscall, 446, ruleset, 0)
    os.close(ruleset)
  rules = ctypes.create_string_buffer(job['filter'], len(job['filter']))
  program = (ctypes.c_uint64 * 2)(len(rules) // 8, ctypes.addressof(rules))
  call(libc.prctl, 22, 2, program, 0, 0)  # PR_SET_SECCOMP
  call(libc.prctl, 4, 1, 0, 0, 0)  # PR_SET_DUMPABLE
  os.write(channel[1], b'.')
  for fd in channel if not job['judged'] else []:
    os.close(fd)


def close_others(kept):
  """Closes all descriptors but these. Call it before the number of descriptors is limited."""
  import os

  kept = sorted(kept)
  for low, high in zip(kept, [*kept[1:], os.sysconf('SC_OPEN_MAX')], strict=True):
    os.closerange(low + 1, high)


def run_program(job, channel):
  """Runs the program in a module of its own, and lets it answer the judge if there is one."""
  import sys

  module = type(sys)('program' if job['judged'] else '__main__')
  sys.modules[module.__name__] = module
  sys.argv = ['program.py']
  try:
    exec(compile(job['program'], 'program.py', 'exec', dont_inherit=True), vars(module))
  except SystemExit:
    raise
  except BaseException as error:
    sys.excepthook(type(error), error.with_traceback(error.__traceback__.tb_next), None)
    sys.exit(1)
  if job['judged']:
    serve(vars(module), channel)  # noqa: F821 (sent along)


def run_judge(job, libc, channel, report_fd):
  """Lets the judge work; what it reports goes to the supervisor at once."""
  import marshal
  import os

  libc.prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG
  lower('AS', job['memory_bytes'])
  close_others([0, 1, 2, *channel, report_fd, job['fds']['data']])
  with open(job['fds']['data'], 'rb') as file:
    data = marshal.load(file)
  judge(channel, lambda x: os.write(report_fd, repr(x).encode() + b'\n'), data)  # noqa: F821 (sent along)
  os._exit(0)
