"""A folder in the sandbox as a world: files are written, read and edited there, and commands run on them.

It is the sandbox of a Python session (`python.py`), and cells of Python see the same files. The tools work
inside of it (`folder_inside.py`): nothing on the machine opens a file that a model has named. What fails is
said in words, and the folder stays; what takes the session's own process along takes the folder with it.

In the tier 'bubblewrap' commands are those of the machine's /usr/bin, read-only, without network, environment
or files of the machine, and nothing that one starts outlives it. In the tier 'seccomp' no other process may
be started and no disk written: files are then the dict `files` of the cells (name -> text), and the shell
says that it is not there.
"""

from collections.abc import Mapping
import inspect

from rlx.envs.host import folder_inside
from rlx.envs.host.python import Python
from rlx.errors import ConfigError
from rlx.rewards.sandbox import SandboxError
from rlx.rewards.sandbox_session import PythonSession

_COMMANDS = ('/bin', '/usr/bin', '/etc/alternatives')  # where they are, and links to them
_FOLDERS = {'bubblewrap': ('/tmp/work', '/tmp/bin'), 'seccomp': ('', '')}
_MODULE = 'rlx_folder'  # in there
_BEGIN = """
import sys, types
_made = sys.modules[{name!r}] = types.ModuleType({name!r})
exec(compile({source!r}, {name!r}, 'exec'), vars(_made))
_made.tools = _made.Tools(*{arguments!r})
for _path, _text in {files!r}.items():
  _made.tools.write(_path, _text)
files = getattr(_made.tools.place, 'files', None)
del _made, sys, types
"""


class Folder(Python):
  """Files in a sandbox, and how they are reached. Nothing of it is a tool: what a world inherits is none."""

  _gone = 'variables and files are gone'

  def __init__(
      self, *, cell_seconds: float, shell_seconds: float, session_seconds: float, memory_bytes: int,
      file_bytes: int, output_bytes: int, tier: str
  ):
    """Nothing is started yet.

    Args:
      cell_seconds: as for `python.Python`.
      shell_seconds: of a command, which is ended then while the session goes on; below `cell_seconds`.
      session_seconds: as for `python.Python`.
      memory_bytes: likewise; all files together come on top (64 MiB).
      file_bytes: of a file that a tool reads or writes.
      output_bytes: of what a tool says.
      tier: as for `python.Python`.
    Raises:
      ConfigError: a command would have no less time than a cell.
    """
    if not 0 < shell_seconds < cell_seconds:
      raise ConfigError(
          f'shell_seconds={shell_seconds}, cell_seconds={cell_seconds}: a command has to be ended before its '
          'session would be; lower shell_seconds'
      )
    spare = 1 << 10  # for what is said of a result
    super().__init__(
        cell_seconds=cell_seconds, session_seconds=session_seconds, memory_bytes=memory_bytes,
        output_bytes=output_bytes + spare, tier=tier,
    )
    self._shell_seconds, self._inside = shell_seconds, (*_FOLDERS[tier], file_bytes, output_bytes)
    self._files: dict[str, str] = {}

  def reset(self, files: Mapping[str, str] | None = None, **columns) -> None:
    """A fresh folder, which is made with the first call.

    Args:
      files: column of the row, if it has one: path -> text of what is there from the beginning.
      columns: mean nothing here.
    """
    super().reset(**columns)
    self._files = dict(files or {})

  def text_of(self, path: str) -> str | None:
    """A file for who grades it, whole; None where none can be read. What it says is the model's doing."""
    if self._session is None:
      return self._files.get(path)
    *_, file_bytes, output_bytes = self._inside
    data, step = b'', output_bytes // 2  # of hexadecimal digits
    try:
      while len(data) <= file_bytes:
        part = f'{len(data)}:{len(data) + step}'
        shown = self._run(f'print(__import__({_MODULE!r}).tools.place.read({path!r})[{part}].hex(), end="")')
        data += (read := bytes.fromhex(shown.text))  # of an error, no digits
        if len(read) < step:
          return data.decode('utf-8', 'replace')
    except (RuntimeError, ValueError):
      pass
    return None

  def _start(self) -> PythonSession:
    """A fresh folder."""
    session = PythonSession(shown=_COMMANDS, **self._limits)
    source = inspect.getsource(folder_inside)
    begin = _BEGIN.format(name=_MODULE, source=source, arguments=self._inside, files=self._files)
    cell = session.run(begin, timeout_seconds=self._cell_seconds)
    if cell.status != 'ok':
      session.close()
      raise SandboxError(f'the folder of a session cannot be made: {cell.text}')
    return session

  def _do(self, tool: str, *arguments: str | int | float) -> str:
    """What a tool inside says. Raises `ValueError` with its words where it fails."""
    cell = self._run(f'print(__import__({_MODULE!r}).tools.{tool}(*{arguments!r}), end="")')
    if cell.status != 'ok':
      raise ValueError(cell.text.strip().removeprefix('ValueError: '))
    return cell.text


class Workspace(Folder):
  """Files in a sandbox, and a shell and Python beside them."""

  def read_file(self, path: str, first_line: int = 1, lines: int = 200) -> str:
    """Reads lines of a file.

    Args:
      path: of the file, below the folder.
      first_line: number of the first line, from 1.
      lines: how many at most.
    """
    return self._do('read', path, first_line, lines)

  def write_file(self, path: str, text: str) -> str:
    """Writes a file, in place of one that is there. Folders are made.

    Args:
      path: of the file, below the folder.
      text: all that is in it afterwards.
    """
    return self._do('write', path, text)

  def edit_file(self, path: str, old: str, new: str) -> str:
    """Replaces a text in a file, where it is there exactly once.

    Args:
      path: of the file, below the folder.
      old: the text, with as much around it as makes it the only one.
      new: what stands there afterwards.
    """
    return self._do('edit', path, old, new)

  def list_files(self, path: str = '.') -> str:
    """Lists a folder.

    Args:
      path: of the folder.
    """
    return self._do('listed', path)

  def shell(self, command: str) -> str:
    """Runs a command in the folder and returns what it prints. Nothing that it starts runs on.

    Args:
      command: for /bin/sh.
    """
    return self._do('shell', command, self._shell_seconds)

  def python(self, code: str) -> str:
    """Runs a cell of Python in the folder and returns what it prints, and the value of its last line.

    Variables stay for the next cell. Only the standard library and files of the folder can be imported.

    Args:
      code: the cell.
    """
    return super().python(code)
