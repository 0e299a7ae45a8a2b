"""Files and a shell in the sandbox: what the tools say, what nobody gets out of them, and what stays."""

import os
import shutil
import sys

from interpreters import readable_interpreter
import pytest

from rlx.envs.host import folder_inside
from rlx.envs.host.tools import tools_of
from rlx.envs.host.workspace import Workspace
from rlx.errors import ConfigError

needs_bubblewrap = pytest.mark.skipif(shutil.which('bwrap') is None, reason='bubblewrap is not installed')
LIMITS = {
    'cell_seconds': 20.0, 'shell_seconds': 10.0, 'session_seconds': 300.0, 'memory_bytes': 1 << 28,
    'file_bytes': 2000, 'output_bytes': 400,
}
FILES = {'src/sums.py': 'def add(x, y):\n  return x - y\n', 'notes.txt': 'one\ntwo\nthree\n'}


def workspace(tier='bubblewrap', **changes):
  made = Workspace(tier=tier, **{**LIMITS, **changes})
  made.reset(files=FILES, question='?')
  return made


def said(tool, *arguments):
  """What the model reads of a call, whether it fails or not."""
  try:
    return tool(*arguments)
  except (ValueError, RuntimeError) as error:
    return str(error)


@pytest.fixture(scope='module')
def shared():
  """A folder that many tests write into, each what is its own."""
  world = workspace()
  yield world
  world.reset()


@needs_bubblewrap
def test_a_program_is_read_mended_run_and_seen_by_cells(shared):
  assert shared.list_files() == 'notes.txt (14 bytes)\nsrc/'
  assert shared.read_file('notes.txt', 2, 1) == 'two\n[more lines: 1]'
  assert shared.shell('cd src && python -c "import sums; print(sums.add(1, 2))"') == '-1'
  assert shared.edit_file('src/sums.py', 'x - y', 'x + y') == '30 bytes written'
  assert shared.python('from src import sums\nsums.add(1, 2)') == '3\n'
  assert shared.write_file('deep/er/new.txt', 'ä') == '2 bytes written'
  assert shared.python('open("deep/er/new.txt").read()') == "'ä'\n"
  assert shared.shell('echo said; echo both >&2; exit 3') == 'said\nboth\n[exit code 3]'


def check_words(world):
  """What both kinds of places say of calls that cannot be made."""
  assert 'is there 0 times' in said(world.edit_file, 'notes.txt', 'four', 'five')
  assert 'is there 3 times' in said(world.edit_file, 'notes.txt', '\n', ' ')
  assert 'old is empty' in said(world.edit_file, 'notes.txt', '', 'five')
  assert 'has 3000 bytes' in said(world.write_file, 'large', 'x' * 3000)
  assert 'is a folder' in said(world.read_file, 'src') and 'is a folder' in said(world.write_file, 'src', 'x')
  assert 'begin with 1' in said(world.read_file, 'notes.txt', 0)
  for path in ('../x', '/etc/passwd', 'src/../../x', '..', '/proc/self/environ'):
    for call in ((world.read_file, path), (world.write_file, path, 'x'), (world.list_files, path)):
      assert 'leads out of the folder' in said(*call)
  for path in ('missing', 'a\0b', 'ä' * 9999):
    assert said(world.read_file, path)
  assert said(world.write_file, 'notes.txt/x', 'x') != '1 bytes written'
  assert said(world.write_file, '\ud800', 'x') and world.python('1 + 1') == '2\n'


@needs_bubblewrap
def test_wrong_calls_are_answered_in_words(shared):
  check_words(shared)


def test_without_a_disk_files_are_a_dict_with_the_same_words(monkeypatch):
  tools = folder_inside.Tools('', '', LIMITS['file_bytes'], LIMITS['output_bytes'])

  class Inside:  # the tools as a world has them, without a sandbox
    read_file = staticmethod(lambda path, first=1, lines=200: tools.read(path, first, lines))
    list_files = staticmethod(lambda path='.': tools.listed(path))
    write_file, edit_file = tools.write, tools.edit
    python = staticmethod(lambda code: f'{eval(code)}\n')

  for path, text in FILES.items():
    tools.write(path, text)
  assert Inside.list_files() == 'notes.txt (14 bytes)\nsrc/' and tools.place.files.keys() == FILES.keys()
  assert Inside.read_file('./src/../notes.txt', 2, 1) == 'two\n[more lines: 1]'
  tools.edit('src/sums.py', 'x - y', 'x + y')
  assert 'x + y' in tools.place.files['src/sums.py']
  check_words(Inside)
  with pytest.raises(ValueError, match='no shell in here'):
    tools.shell('true', 1.0)
  monkeypatch.setattr(folder_inside, '_STORE_BYTES', 1000)
  with pytest.raises(ValueError, match='no room'):
    tools.write('more', 'x' * 990)


def test_what_ends_other_processes_does_not_begin_outside_of_the_sandbox(tmp_path):
  with pytest.raises(RuntimeError, match='in the sandbox alone'):
    folder_inside.Tools(str(tmp_path / 'work'), str(tmp_path / 'bin'), 10, 10)


HOSTILE = {  # command -> what must not be in the answer
    'network': 'python -c "import socket; socket.create_connection((\'127.0.0.1\', 22), 1)" && echo reached',
    'password file': 'cat /etc/passwd && echo reached',
    'this file': f'cat {__file__} && echo reached',
    'environment': 'env | grep RLX_SECRET && echo reached',
    "another's environment": 'cat /proc/*/environ 2>/dev/null | grep -a RLX_SECRET && echo reached',
    'writes': 'echo x > /made && echo reached; echo x > /usr/bin/made && echo reached',
    'kill': f'kill -0 {os.getpid()} && echo reached',
    'the supervisor': 'kill -9 1; sleep 0.1; kill -0 1 2>/dev/null && cat /proc/1/environ && echo reached',
    'devices': 'mknod disk b 8 0 && echo reached',
    'mount': 'mount -t tmpfs x /tmp && echo reached',
    'another user': 'su -c "echo reached" < /dev/null; sudo -n echo reached',
    'namespaces': 'unshare -r echo reached',
}


@needs_bubblewrap
@pytest.mark.parametrize('probe', HOSTILE)
def test_hostile_commands_reach_nothing(shared, monkeypatch, probe):
  monkeypatch.setenv('RLX_SECRET', 'RLX_SECRET')
  assert 'reached\n' not in shared.shell(HOSTILE[probe]) + '\n'
  assert shared.shell('echo here') == 'here'


@needs_bubblewrap
def test_links_pipes_and_devices_are_no_files(shared):
  shared.shell(
      'mkdir odd; cd odd; mkfifo pipe; ln -s /usr/lib out; ln -s loop loop; ln -s /dev/zero zero; '
      'ln -s ../notes.txt in; python -c "open(b\'\\xff\', \'w\')"'
  )
  for name in ('out', 'zero', 'out/os.py'):
    assert 'leads out of the folder' in said(shared.read_file, f'odd/{name}')
    assert 'leads out of the folder' in said(shared.write_file, f'odd/{name}', 'x')
  assert 'no plain file' in said(shared.read_file, 'odd/pipe')
  assert 'no plain file' in said(shared.write_file, 'odd/pipe', 'x')
  assert 'symbolic links' in said(shared.read_file, 'odd/loop')
  assert shared.read_file('odd/in', 1, 1) == 'one\n[more lines: 2]'
  assert 'pipe (no plain file)' in shared.list_files('odd') and 'out -> /usr/lib' in shared.list_files('odd')


@needs_bubblewrap
def test_what_is_too_much_is_cut_and_said(shared):
  shown = shared.shell('seq 9999')
  assert shown.startswith('1\n2\n') and shown.endswith('[cut: 48888 bytes in all]') and len(shown) < 450
  assert 'more than 2000 bytes' in said(shared.read_file, shared.shell('seq 999 > long; echo long'))
  assert shared.read_file(shared.shell('seq 200 > wide; echo wide')).endswith('[cut: 691 bytes in all]')
  full = 'for i in 1 2 3; do head -c 30000000 /dev/zero > full$i; done; rm full*'
  assert 'No space left' in shared.shell(full) and shared.write_file('after', 'x') == '1 bytes written'


@needs_bubblewrap
def test_commands_are_ended_with_all_that_they_started_and_the_session_goes_on():
  world = workspace(shell_seconds=0.3)
  world.python('x = 3')
  for forever in ('yes', 'sleep 60', 'bomb() { bomb | bomb & }; bomb; while :; do :; done'):
    assert world.shell(forever).endswith('[killed after 0.3 s]')
  assert world.shell('(setsid sleep 60 &) ; echo gone') == 'gone'
  living = 'import os\nsum(name.isdigit() for name in os.listdir("/proc")) < 40 and x'
  assert world.python(living) == '3\n'
  world.shell('sleep 60 > /dev/null 2>&1 & echo')
  assert 'sleep' not in world.shell('cat /proc/*/comm')
  world.write_file('mine', 'x')
  with pytest.raises(RuntimeError, match='variables and files are gone'):
    world.shell('kill -9 $PPID')
  assert world.list_files() == 'notes.txt (14 bytes)\nsrc/' and 'NameError' in world.python('x')
  world.reset()
  assert world.list_files() == 'nothing'
  world.reset()


def test_the_other_tier_has_files_and_no_shell(monkeypatch):
  if (found := readable_interpreter()) is None:
    pytest.skip('no interpreter that every user can read')
  monkeypatch.setattr(sys, 'executable', found[0])
  for name in ('base_prefix', 'base_exec_prefix'):
    monkeypatch.setattr(sys, name, found[1])
  world = workspace(tier='seccomp')
  assert world.edit_file('src/sums.py', 'x - y', 'x + y') == '30 bytes written'
  assert world.python('exec(files["src/sums.py"])\nadd(1, 2)') == '3\n'
  assert 'no shell in here' in said(world.shell, 'true')
  world.reset()


def test_a_command_has_less_time_than_the_session_and_a_model_is_told_all_tools():
  with pytest.raises(ConfigError, match='lower shell_seconds'):
    workspace(shell_seconds=20.0)
  tools = tools_of(Workspace)
  assert tools.keys() == {'read_file', 'write_file', 'edit_file', 'list_files', 'shell', 'python'}
  assert tools['edit_file'].required == ('path', 'old', 'new') and tools['read_file'].required == ('path',)
