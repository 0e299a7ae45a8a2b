"""What file tools and the shell do inside the sandbox of a session. The source of this file is sent there.

Nothing in here keeps anybody in: the sandbox does, and what a cell changes in here hurts its own session
alone. The checks are for words: a model that mistypes a path is told so, where the system would have handed
out a file of its own. So this file imports the standard library, and nothing outside calls it.

In the tier 'bubblewrap' files are on the sandbox's own disk, in memory and gone with it, and commands run
beside the session's process, which outlives them: what they leave running is ended. In the tier 'seccomp'
there is no disk that may be written and no other process, so that files are values of a dict.
"""

import os
import posixpath
import select
import signal
import stat
import subprocess
import sys
import time

_MAX_FILES = 10_000
_STORE_BYTES = 64 << 20  # of files in a dict: as many as the disk has


class Disk:
  """Files below a folder."""

  def __init__(self, folder, file_bytes):
    self.folder, self.file_bytes = folder, file_bytes

  def place(self, path):
    """The place that a path means. Raises where it is none below the folder, through links too."""
    place = os.path.realpath(os.path.join(self.folder, path))
    if place != self.folder and not place.startswith(self.folder + '/'):
      raise ValueError(f'{path!r:.200} leads out of the folder of the session')
    return place

  def read(self, path):
    place = self.place(path)
    if os.path.isdir(place):
      raise ValueError(f'{path!r:.200} is a folder')
    fd = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, 'rb') as file:
      _check_plain(os.fstat(fd), path)
      data = file.read(self.file_bytes + 1)
    if len(data) > self.file_bytes:
      raise ValueError(f'{path!r:.200} has more than {self.file_bytes} bytes, the most that are read')
    return data

  def write(self, path, data):
    place = self.place(path)
    if place == self.folder or os.path.isdir(place):
      raise ValueError(f'{path!r:.200} is a folder')
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if os.path.exists(place):
      _check_plain(os.stat(place), path)
    with open(place, 'wb') as file:
      file.write(data)

  def listed(self, path):
    """(name, bytes or None, what it is) of each thing in a folder."""
    found = []
    with os.scandir(self.place(path)) as entries:
      for entry in entries:
        about = entry.stat(follow_symlinks=False)
        kind = ' -> ' + os.readlink(entry.path) if entry.is_symlink() else _kind(about.st_mode)
        found.append((entry.name, about.st_size if stat.S_ISREG(about.st_mode) else None, kind))
    return found


class Store:
  """Files in a dict, name -> text: where no disk may be written."""

  def __init__(self, file_bytes):
    self.files, self.file_bytes = {}, file_bytes

  def place(self, path):
    """The name that a path means. Raises where it is none below the folder."""
    place = posixpath.normpath(posixpath.join('/', path)).lstrip('/')
    if path.startswith('/') or posixpath.normpath(path).startswith('..') or '\0' in path:
      raise ValueError(f'{path!r:.200} leads out of the folder of the session')
    return place

  def read(self, path):
    place = self.place(path)
    if place not in self.files:
      problem = 'is a folder' if self._is_folder(place) else 'is not there'
      raise ValueError(f'{path!r:.200} {problem}')
    return str(self.files[place]).encode('utf-8', 'replace')

  def write(self, path, data):
    place = self.place(path)
    parents = {posixpath.join(*place.split('/')[:i]) for i in range(1, place.count('/') + 1)}
    if self._is_folder(place) or len(place) > 4096:
      raise ValueError(f'{path!r:.200} is a folder, or too long a name')
    if inside := sorted(parents & self.files.keys()):
      raise ValueError(f'{inside[0]!r:.200} is a file, and no folder')
    size = sum(len(str(text)) for name, text in self.files.items() if name != place)
    if size + len(data) > _STORE_BYTES or len(self.files) >= _MAX_FILES:
      raise ValueError(f'there is no room: {len(self.files)} files have {size} bytes')
    self.files[place] = data.decode('utf-8', 'replace')

  def listed(self, path):
    """As of `Disk`."""
    place = self.place(path)
    if not self._is_folder(place):
      raise ValueError(f'{path!r:.200} is no folder')
    start = place + '/' if place else ''
    found = {}
    for name, text in self.files.items():
      if name.startswith(start):
        head, inside, _ = name[len(start) :].partition('/')
        found[head] = (head, None, '/') if inside else (head, len(str(text).encode('utf-8', 'replace')), '')
    return list(found.values())

  def _is_folder(self, place):
    return not place or any(name.startswith(place + '/') for name in self.files)


class Tools:
  """The tools of a session.

  Attributes:
    place: of the files.
  """

  def __init__(self, folder, bin_folder, file_bytes, output_bytes):
    """In the tier 'bubblewrap', two folders that are made; in 'seccomp', ''.

    Args:
      folder: of the session.
      bin_folder: where commands find this interpreter as `python`.
      file_bytes: of a file that a tool reads or writes.
      output_bytes: of what a tool says.
    """
    self.folder, self.output_bytes = folder, output_bytes
    self.place = Disk(folder, file_bytes) if folder else Store(file_bytes)
    if not folder:
      return
    if os.uname().nodename != 'sandbox' or os.getppid() != 1:  # or `_end_others` would end somebody else's
      raise RuntimeError('this runs in the sandbox alone')
    os.makedirs(folder)
    os.makedirs(bin_folder)
    for name in ('python', 'python3'):
      os.symlink(sys.executable, f'{bin_folder}/{name}')
    os.chdir(folder)
    sys.path.insert(0, folder)
    self._variables = {'PATH': f'{bin_folder}:/usr/bin:/bin', 'HOME': folder, 'LANG': 'C.UTF-8'}
    self._variables |= {'PYTHONHASHSEED': '0', 'PYTHONUTF8': '1', 'PYTHONDONTWRITEBYTECODE': '1'}

  def read(self, path, first_line, lines):
    if first_line < 1 or lines < 1:
      raise ValueError(f'first_line={first_line}, lines={lines}: both begin with 1')
    whole = self.place.read(path).decode('utf-8', 'replace').removesuffix('\n').split('\n')
    shown = whole[first_line - 1 : first_line - 1 + lines]
    behind = len(whole) - (first_line - 1 + len(shown))
    return self._cut('\n'.join(shown).encode()) + (f'\n[more lines: {behind}]' if behind > 0 else '')

  def write(self, path, text):
    data = text.encode('utf-8', 'replace')
    if len(data) > self.place.file_bytes:
      raise ValueError(f'the text has {len(data)} bytes; a file has at most {self.place.file_bytes}')
    self.place.write(path, data)
    return f'{len(data)} bytes written'

  def edit(self, path, old, new):
    text = self.place.read(path).decode()
    if not old:
      raise ValueError('old is empty; it has to be a text of the file')
    if (times := text.count(old)) != 1:
      raise ValueError(f'old is there {times} times, and it has to be there once')
    return self.write(path, text.replace(old, new))

  def listed(self, path):
    """A line for each thing in a folder."""
    found = sorted(self.place.listed(path))
    lines = [f'{name}{kind}' + (f' ({size} bytes)' if size is not None else '') for name, size, kind in found]
    return self._cut('\n'.join(lines).encode('utf-8', 'replace')) or 'nothing'

  def shell(self, command, seconds):
    """What a command prints, and its exit code where that is not 0."""
    if not self.folder:
      raise ValueError('there is no shell in here, for no other process may be started; use Python')
    deadline, kept, size, was_killed = time.monotonic() + seconds, b'', 0, False
    process = subprocess.Popen(
        ['/bin/sh', '-c', command], cwd=self.folder, env=self._variables, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )
    fd, is_open = process.stdout.fileno(), True
    while is_open or process.poll() is None:
      if is_open and select.select([fd], [], [], 0.02)[0]:
        part = os.read(fd, 1 << 16)
        kept, size, is_open = kept + part[: self.output_bytes - len(kept)], size + len(part), bool(part)
      elif process.poll() is not None:
        is_open = False  # what it left behind still has the pipe
      if time.monotonic() > deadline:
        was_killed = True
        break
      if not is_open:
        time.sleep(0.001)
    process.stdout.close()
    _end_others()
    code = process.wait()
    said = kept.decode('utf-8', 'replace').rstrip('\n')
    notes = [f'[cut: {size} bytes in all]'] if size > len(kept) else []
    notes += [f'[killed after {seconds:g} s]'] if was_killed else [f'[exit code {code}]'] if code else []
    return '\n'.join([said, *notes] if said else notes)

  def _cut(self, data):
    most = self.output_bytes
    text = data[:most].decode('utf-8', 'replace')
    return text if len(data) <= most else f'{text}\n[cut: {len(data)} bytes in all]'


def _end_others():
  """Ends all that is in the sandbox but its supervisor and this process."""
  own = {'1', str(os.getpid())}
  while True:
    try:
      os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
      return
    if not any(_lives(name) for name in os.listdir('/proc') if name.isdigit() and name not in own):
      return
    time.sleep(0.001)


def _lives(process):
  try:
    with open(f'/proc/{process}/stat') as file:
      return file.read().rpartition(')')[2].split()[0] != 'Z'
  except OSError:  # it has just ended
    return False


def _check_plain(about, path):
  """Raises for what is no plain file: reading a pipe would wait for ever."""
  if not stat.S_ISREG(about.st_mode):
    raise ValueError(f'{path!r:.200} is no plain file')


def _kind(mode):
  return '/' if stat.S_ISDIR(mode) else '' if stat.S_ISREG(mode) else ' (no plain file)'
