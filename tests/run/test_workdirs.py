"""Whose a working directory is: one process at a time, nothing of others touched, a full disk is a pause."""

import contextlib
import errno
import json
import os
from pathlib import Path
import shutil
import subprocess
import sys
import time

import orbax.checkpoint as ocp
import pytest

from rlx.errors import ConfigError
from rlx.experiments import launch
from rlx.run import lock, writers

# Of 4 steps, 2 a dispatch, a checkpoint behind each; over the eight devices of the tests.
CONFIG = (
    '--config=control/ppo_cartpole:smoke', '--quiet', '--config.evals={}', '--config.updates.epochs=1',
    '--config.log.headline=episode/return', '--config.models.policy.hidden=(4,)',
    '--config.models.value.hidden=(4,)',
)


def run(workdir, *more) -> int:
  return launch.main([*CONFIG, f'--workdir={workdir}', *more])


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """A run that nothing disturbed."""
  workdir = tmp_path_factory.mktemp('whole') / 'run'
  assert run(workdir) == launch.EXIT_DONE
  assert not (workdir / lock.FILE).exists()
  return workdir


def digests(workdir):
  manifest = json.loads((workdir / 'checkpoints/4/manifest.json').read_text())
  return {name: array['digest'] for name, array in manifest['arrays'].items()}


def assert_same(workdir, whole):
  assert (workdir / 'metrics.jsonl').read_bytes() == (whole / 'metrics.jsonl').read_bytes()
  assert digests(workdir) == digests(whole)
  assert {path.name for path in workdir.iterdir()} == {path.name for path in whole.iterdir()}


@pytest.mark.slow
def test_another_mesh_is_no_other_run(whole, tmp_path, capsys):
  shutil.copytree(whole, tmp_path / 'run')
  assert run(tmp_path / 'run', '--config.mesh.data=2') == launch.EXIT_DONE
  assert json.loads((tmp_path / 'run/config.json').read_text())['mesh']['data'] == 2
  last = json.loads((tmp_path / 'run/starts.jsonl').read_text().splitlines()[-1])
  assert last['mesh'] == 'data=2 x fsdp=1 x tensor=1' and digests(tmp_path / 'run') == digests(whole)
  assert run(tmp_path / 'run', '--config.seed=1') == launch.EXIT_DO_NOT_RETRY
  assert '(seed: 0 -> 1)' in capsys.readouterr().err


# --- one process --------------------------------------------------------------------------------------------


HOLD = """
import pathlib, sys, time
from rlx.run import lock
with lock.held(pathlib.Path(sys.argv[1])):
  print('held', flush=True)
  time.sleep(60)
"""


@contextlib.contextmanager
def holder(workdir):
  """Another process, which holds a directory."""
  command = [sys.executable, '-c', HOLD, str(workdir)]
  with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
    assert process.stdout.readline() == 'held\n'
    try:
      yield process
    finally:
      process.kill()


def test_a_second_process_is_refused_and_told_of_the_first(tmp_path, capsys):
  with holder(tmp_path) as process:
    assert run(tmp_path) == launch.EXIT_DO_NOT_RETRY
    error = capsys.readouterr().err
    assert error.count('\n') == 1 and f'process {process.pid} on ' in error and ' since 20' in error
    assert [path.name for path in tmp_path.iterdir()] == [lock.FILE]
  # Killed: what it held is free.
  with lock.held(tmp_path):
    assert json.loads((tmp_path / lock.FILE).read_text())['pid'] == os.getpid()
  assert not list(tmp_path.iterdir())


def test_a_run_is_held_only_while_it_lasts(tmp_path):
  again = lock.held(tmp_path)
  with lock.held(tmp_path), pytest.raises(ConfigError, match=f'process {os.getpid()} on '), again:
    pass
  with lock.held(tmp_path):
    pass


def of_another_machine(path: Path, age: float) -> None:
  who = {'host': 'elsewhere', 'machine': 'another', 'pid': 7, 'since': '2026-01-01T00:00:00+00:00'}
  path.write_text(json.dumps(who))
  os.utime(path, (time.time() - age, time.time() - age))


def test_another_machine_holds_it_as_long_as_it_shows_itself(tmp_path):
  path = tmp_path / lock.FILE
  of_another_machine(path, age=5)
  said = 'process 7 on elsewhere since 2026-01-01.*delete'
  with pytest.raises(ConfigError, match=said), lock.held(tmp_path):
    pass
  assert json.loads(path.read_text())['host'] == 'elsewhere', 'it is left as it was'
  of_another_machine(path, age=lock.FRESH_SECONDS + 5)
  with lock.held(tmp_path) as touch:
    os.utime(path, (0, 0))
    touch()
    assert time.time() - path.stat().st_mtime < 60


def test_a_disk_without_locks_goes_by_the_file_alone(tmp_path, monkeypatch):
  def refuse(*arguments):
    raise OSError(errno.ENOLCK, 'no locks available')

  monkeypatch.setattr(lock.fcntl, 'flock', refuse)
  of_another_machine(tmp_path / lock.FILE, age=5)
  with pytest.raises(ConfigError, match='elsewhere'), lock.held(tmp_path):
    pass


@pytest.mark.slow
def test_those_who_only_look_are_not_refused(whole, tmp_path, capsys):
  shutil.copytree(whole, tmp_path / 'run')
  with holder(tmp_path / 'run'):
    assert launch.main(['report', f'--workdir={tmp_path / "run"}']) == launch.EXIT_DONE
    exported = launch.main(['export', f'--workdir={tmp_path / "run"}', f'--output={tmp_path / "policy"}'])
    assert exported == launch.EXIT_DONE
  assert 'step 4: ' in capsys.readouterr().out


# --- of others ----------------------------------------------------------------------------------------------


OF_OTHERS = {
    'numbers': {'metrics.jsonl': '{"step": 1, "loss": 2.0}\n'},
    'checkpoints': {'checkpoints/7/weights.bin': 'theirs', 'checkpoints/7.partial/x': 'theirs'},
    'a model': {'config.json': '{"model_type": "llama"}', 'model.safetensors': 'theirs'},
    'a broken config': {'config.json': '{', 'metrics.jsonl': ''},
    'another config': {'config.json': '{"log": {"headline": "loss"}}', 'metrics.jsonl': ''},
    'samples': {'samples/step_00000009.jsonl': '{}\n', 'notes.txt': 'theirs'},
    'a folder of that name': {'metrics.jsonl/x': 'theirs'},
}


def contents(folder):
  return {path.relative_to(folder): path.read_bytes() for path in folder.rglob('*') if path.is_file()}


@pytest.mark.parametrize('name', OF_OTHERS)
def test_what_others_made_is_refused_and_left_as_it_was(name, tmp_path, capsys):
  for path, text in OF_OTHERS[name].items():
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
  before = contents(tmp_path)
  assert run(tmp_path) == launch.EXIT_DO_NOT_RETRY
  assert capsys.readouterr().err.count('\n') == 1
  assert contents(tmp_path) == before


@pytest.mark.slow
def test_files_of_other_names_may_be_there(whole, tmp_path):
  (tmp_path / 'notes.txt').write_text('mine')
  assert run(tmp_path) == launch.EXIT_DONE
  assert (tmp_path / 'notes.txt').read_text() == 'mine'
  assert digests(tmp_path) == digests(whole)


@pytest.mark.parametrize(('config', 'model', 'words'), [
    ('control/ppo_cartpole', 'value', "unroll() needs a Policy, and 'policy' is a Network"),
    ('control/sac_pendulum', 'policy', 'was trained on observations (4,) and Discrete(num=2); this run has'),
    ('quickstart/arithmetic', 'policy', "needs a Speaker, and 'policy' is a Policy"),
    ('control/ppo_cartpole', 'polciy', "has no model 'polciy'"),
])
def test_a_model_of_another_run_is_of_the_kind_asked_for(config, model, words, whole, tmp_path, capsys):
  section = f"{{'name': 'run', 'directory': '{whole}', 'model': '{model}'}}"
  argv = [f'--config={config}:smoke', f'--workdir={tmp_path / "run"}', f'--config.models.policy={section}']
  assert launch.main(argv) == launch.EXIT_DO_NOT_RETRY
  error = capsys.readouterr().err
  assert words in error and error.count('\n') == 1 and not (tmp_path / 'run').exists()


# --- a full disk --------------------------------------------------------------------------------------------


def full(at: int, error: Exception):
  """Wraps a function, which raises at its `at`th call and at all later ones."""
  def wrap(function):
    calls = iter(range(1, 1000))

    def called(*arguments, **keywords):
      if next(calls) >= at:
        raise error
      return function(*arguments, **keywords)

    return called

  return wrap


NO_ROOM = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
AS_LIBRARIES_SAY = ValueError("RESOURCE_EXHAUSTED: writing: No space left on device [os_error_code='28']")


WHERE = {
    'metrics of the second dispatch': (writers._RowFile, 'flush', 4, NO_ROOM),
    'the second checkpoint': (ocp.Checkpointer, 'save', 2, AS_LIBRARIES_SAY),
    'config.json': (os, 'fsync', 1, NO_ROOM),
    'the end of metrics': (writers._RowFile, 'close', 1, OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))),
    'the first checkpoint': (ocp.Checkpointer, 'save', 1, AS_LIBRARIES_SAY),
    'the report': (os, 'replace', 2, NO_ROOM),
}


@pytest.mark.slow
@pytest.mark.figures
@pytest.mark.parametrize(('where', 'name', 'at', 'error'), [
    pytest.param(*row, id=what) for what, row in WHERE.items()
])
def test_a_full_disk_is_a_pause(where, name, at, error, whole, tmp_path, capsys):
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(where, name, full(at, error)(getattr(where, name)))
    assert run(tmp_path) == launch.EXIT_REQUEUE
  said = capsys.readouterr().err
  assert said.count('\n') == 1 and error.args[-1].split('[')[0].split(': ')[-1].strip() in said
  assert 'the same command goes on' in said
  assert not list(tmp_path.rglob('*.partial')) and not list(tmp_path.rglob('*.tmp'))
  assert run(tmp_path) == launch.EXIT_DONE
  assert_same(tmp_path, whole)


@pytest.mark.slow
@pytest.mark.parametrize('kilobytes', [4, 60, 200, 400])
def test_a_disk_that_is_really_full(kilobytes, whole, tmp_path):
  mount = ['mount', '-t', 'tmpfs', '-o', f'size={kilobytes}k', 'tmpfs', str(tmp_path)]
  if subprocess.run(mount, capture_output=True, check=False).returncode:
    pytest.skip('needs the right to mount')
  try:
    command = [sys.executable, '-m', 'rlx.experiments.launch', *CONFIG, f'--workdir={tmp_path / "run"}']
    eight = {**os.environ, 'JAX_NUM_CPU_DEVICES': '8'}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=eight)
    assert ended.returncode == launch.EXIT_REQUEUE and 'rlx: No space left on device' in ended.stderr
    subprocess.run(['mount', '-o', 'remount,size=64m', str(tmp_path)], check=True)
    assert run(tmp_path / 'run') == launch.EXIT_DONE
    assert_same(tmp_path / 'run', whole)
  finally:
    subprocess.run(['umount', str(tmp_path)], check=True)
