"""A run is made longer, measured, played, reported, exported and begun from: all as a user does it."""

import json
from pathlib import Path
import shutil
import subprocess
import sys

import jax
import numpy as np
from PIL import Image
import pytest

from rlx.envs.control import cartpole
from rlx.experiments import launch, play
from rlx.run.writers import read_metrics

ROOT = Path(__file__).parent.parent
CONFIG = 'experiments/configs/control/ppo_cartpole.py:smoke'


@pytest.fixture(scope='module', autouse=True)
def _here():
  with pytest.MonkeyPatch.context() as patch:
    patch.chdir(ROOT)
    yield


def start(workdir, *arguments):
  return launch.main([f'--config={CONFIG}', f'--workdir={workdir}', '--config.mesh.data=1', *arguments])


@pytest.fixture(scope='module')
def run(tmp_path_factory):
  """The workdir of a finished run of 4 steps, with what a save that is under way has written so far."""
  workdir = tmp_path_factory.mktemp('run')
  assert start(workdir, '--quiet') == launch.EXIT_DONE
  (workdir / 'checkpoints/6.partial').mkdir()
  return workdir


@pytest.fixture(autouse=True)
def _undisturbed(run):
  """Nothing that looks at a run may change it."""
  looked_at = lambda: {
      path: path.read_bytes() if path.is_file() else None for path in run.rglob('*')
      if path.name not in ('report.html', 'curve.png', 'play.gif')
  }
  before = looked_at()
  yield
  assert looked_at() == before


def copied(run, workdir):
  shutil.copytree(run, workdir)
  (workdir / 'checkpoints/6.partial').rmdir()
  return workdir


def one_line(capsys) -> str:
  error = capsys.readouterr().err
  assert error.count('\n') == 1, error
  return error


def row_at(run, step):
  return next(row for row in read_metrics(run / 'metrics.jsonl') if row['step'] == step)


# --- longer -------------------------------------------------------------------------------------------------


def final_digests(workdir):
  manifest = json.loads((workdir / 'checkpoints/8/manifest.json').read_text())
  return {name: array['digest'] for name, array in manifest['arrays'].items()}


@pytest.mark.slow
def test_extended_is_the_run_that_was_longer_from_the_beginning(run, tmp_path, capfd):
  extended = copied(run, tmp_path / 'extended')
  assert start(extended, '--config.steps=8') == launch.EXIT_DONE
  assert 'goes on from steps=4 to 8; the rate keeps its schedule (optimizer.decay_steps=3200' in (
      capfd.readouterr().err
  )
  assert start(tmp_path / 'whole', '--config.steps=8', '--quiet') == launch.EXIT_DONE
  metrics = lambda workdir: (workdir / 'metrics.jsonl').read_bytes()
  assert metrics(extended) == metrics(tmp_path / 'whole') != metrics(run)
  assert final_digests(extended) == final_digests(tmp_path / 'whole')
  config = lambda workdir: json.loads((workdir / 'config.json').read_text())
  assert config(extended) == config(tmp_path / 'whole')


@pytest.mark.slow
@pytest.mark.parametrize(('arguments', 'words'), [
    (['--config.steps=2'], 'holds a run of steps=4, and 2 are fewer'),
    (['--config.steps=8', '--config.optimizer.decay_steps=7'], 'decay_steps: 3200 -> 7); keep'),
    (['--config.seed=1'], 'a run of another config (seed: 0 -> 1)'),
])
def test_only_more_steps_can_be_asked_of_a_run(run, capsys, arguments, words):
  assert start(run, *arguments) == launch.EXIT_DO_NOT_RETRY
  assert words in one_line(capsys)


# --- measured and reported ----------------------------------------------------------------------------------


@pytest.mark.parametrize('step', [2, 4])
def test_what_is_measured_is_what_the_run_measured(run, capsys, step):
  assert launch.main(['evaluate', f'--workdir={run}', f'--step={step}', '--json']) == launch.EXIT_DONE
  measured = json.loads(capsys.readouterr().out)
  recorded = row_at(run, step)
  assert measured['step'] == step and measured['eval/episodes/return'] > 0
  for name in (name for name in recorded if name.startswith('eval/')):
    np.testing.assert_array_equal(np.float32(measured[name]), np.float32(recorded[name]), err_msg=name)


def test_another_evaluation_can_be_asked_for(run, capsys):
  asked = '{"name": "sampled_episodes", "episodes": 3, "max_steps": 2}'
  command = ['evaluate', f'--workdir={run}', '--eval=short', f'--config.evals.short={asked}']
  assert launch.main(command) == launch.EXIT_DONE
  out = capsys.readouterr().out
  assert 'step 4 (ppo)' in out and 'eval/episodes' not in out
  line = next(line for line in out.splitlines() if line.startswith('eval/short/return '))
  assert float(line.split()[1]) == 2


@pytest.mark.figures
def test_a_report_is_written_while_a_run_is_at_work(run, tmp_path, capsys):
  at_work = tmp_path / 'run'
  shutil.copytree(run, at_work)
  with (at_work / 'metrics.jsonl').open('a') as file:
    file.write('{"step": 5, "stage": "ppo", "loss/to')  # and no further yet
  for name in ('report.html', 'curve.png'):
    (at_work / name).unlink()
  assert launch.main(['report', f'--workdir={at_work}']) == launch.EXIT_DONE
  assert capsys.readouterr().out.strip() == str(at_work / 'report.html')
  page = (at_work / 'report.html').read_text()
  assert 'ppo on cartpole' in page and f'--workdir={run}' in page and 'return of an episode' in page
  assert (at_work / 'curve.png').stat().st_size > 1000 and (at_work / 'checkpoints/6.partial').is_dir()


# --- played -------------------------------------------------------------------------------------------------


def test_episodes_are_those_of_the_evaluation_and_are_drawn(run, tmp_path, capsys):
  gif = tmp_path / 'pictures' / 'play.gif'
  command = ['play', f'--workdir={run}', '--episodes=4', '--max_steps=20', f'--output={gif}', '--step=2']
  assert launch.main(command) == launch.EXIT_DONE
  lines = capsys.readouterr().out.splitlines()
  returns = [float(line.split()[3].rstrip(',')) for line in lines[:4]]
  recorded = row_at(run, 2)
  assert np.mean(returns) == recorded['eval/episodes/return']
  assert min(returns) == recorded['eval/episodes/return_worst']
  lengths = [int(line.split()[4]) for line in lines[:4]]
  with Image.open(gif) as picture:
    shown = 0
    for number in range(picture.n_frames):  # pictures that are alike become one that stays longer
      picture.seek(number)
      shown += picture.info['duration'] / 40
    assert picture.size[0] == 160
    assert shown == sum(lengths) + 4 * (1 + play.PAUSE)


def test_what_cannot_be_drawn_or_played_is_one_line(run, tmp_path, capsys, monkeypatch):
  assert launch.main(['play', f'--workdir={run}', '--model=value']) == launch.EXIT_DO_NOT_RETRY
  assert 'Network is no policy' in one_line(capsys)
  assert launch.main(['play', f'--workdir={run}', '--member=1']) == launch.EXIT_DO_NOT_RETRY
  assert '--member=1: the run has 1' in one_line(capsys)
  monkeypatch.setattr(cartpole, '_draw', None)
  gif = f'--output={tmp_path / "play.gif"}'
  assert launch.main(['play', f'--workdir={run}', gif]) == launch.EXIT_DO_NOT_RETRY
  assert 'cartpole cannot be drawn' in one_line(capsys)
  assert launch.main(['play', f'--workdir={run}', '--episodes=1', '--max_steps=2']) == launch.EXIT_DONE
  out = capsys.readouterr().out
  assert 'episode 0: return 2, 2 steps, not over' in out and 'cartpole cannot be drawn' in out
  assert not (run / 'play.gif').exists()


# --- exported and begun from --------------------------------------------------------------------------------

WITHOUT_RLX = '''
import sys
sys.modules['rlx'] = None  # importing it is an error
import jax, jax.export, numpy as np
from pathlib import Path
act = jax.export.deserialize(bytearray(Path(sys.argv[1]).read_bytes())).call
for observations in np.load(sys.argv[2]), np.zeros((1, 4), np.float32):
  print(np.asarray(act(observations)).tolist())
'''


def test_an_exported_policy_acts_without_rlx(run, tmp_path, capsys):
  pytest.importorskip('flatbuffers')
  from safetensors.numpy import load_file

  assert launch.main(['export', f'--workdir={run}', f'--output={tmp_path}']) == launch.EXIT_DONE
  assert capsys.readouterr().out.strip() == f'step 4: {tmp_path / "policy"}'
  observations = np.asarray(jax.random.normal(jax.random.key(0), (64, 4)))
  np.save(tmp_path / 'observations.npy', observations)
  command = [sys.executable, '-c', WITHOUT_RLX, tmp_path / 'policy/policy.stablehlo']
  done = subprocess.run(
      [*command, tmp_path / 'observations.npy'], cwd=tmp_path, capture_output=True, text=True
  )
  assert done.returncode == 0, done.stderr
  actions, of_one = map(json.loads, done.stdout.splitlines())
  # The same network by hand, from the file of its parameters.
  params = load_file(tmp_path / 'policy/params.safetensors')
  x = observations
  layers = sorted(name.rpartition('.')[0] for name in params if params[name].ndim == 2)
  assert len(layers) == 3
  for layer in layers:
    weight, bias = sorted((x for n, x in params.items() if n.startswith(f'{layer}.')), key=lambda p: -p.ndim)
    x = x @ weight + bias
    x = np.tanh(x) if layer != layers[-1] else x
  sure = np.abs(x[:, 0] - x[:, 1]) > 1e-6
  assert sure.sum() > 50 and {0, 1} == set(actions)
  np.testing.assert_array_equal(np.array(actions)[sure], x.argmax(axis=1)[sure])
  assert len(of_one) == 1
  described = json.loads((tmp_path / 'policy/policy.json').read_text())
  assert described['actions'] == {'kind': 'discrete', 'num': 2} and described['step'] == 4
  (tmp_path / 'policy/notes.txt').write_text('mine')
  assert launch.main(['export', f'--workdir={run}', f'--output={tmp_path}']) == launch.EXIT_DO_NOT_RETRY
  assert 'policy holds notes.txt, no part of a policy; choose another directory' in one_line(capsys)


@pytest.mark.slow
def test_a_run_begins_from_the_policy_of_another(run, tmp_path, capsys):
  policy = {'name': 'run', 'directory': str(run), 'model': 'policy'}
  assert start(tmp_path / 'next', '--quiet', f'--config.models.policy={policy}') == launch.EXIT_DONE
  first = row_at(tmp_path / 'next', 0)
  then = {name: x for name, x in row_at(run, 4).items() if name.startswith('eval/')}
  assert then and then.items() <= first.items()
  policy['model'] = 'actor'
  assert start(tmp_path / 'other', f'--config.models.policy={policy}') == launch.EXIT_DO_NOT_RETRY
  assert "has no model 'actor'" in one_line(capsys)


@pytest.mark.parametrize(('command', 'words'), [
    (['evaluate', '--workdir=nowhere'], '--workdir=nowhere holds no run'),
    (['report', '--workdir=nowhere'], '--workdir=nowhere holds no run'),
    (['evaluate', '--workdir={run}', '--config.evals={}'], 'the run has no evaluations; add one'),
    (['evaluate', '--workdir={run}', '--eval=episode'], "the run has the evaluations ['episodes']"),
    (['evaluate', '--workdir={run}', '--step=3'], 'no checkpoint of step 3; it has [2, 4]'),
    (['play', '--workdir={run}', '--epsiodes=3'], "'--epsiodes=3' is not understood"),
    (['evaluate', '--workdir={run}', "--config.evals.more={'name'"], 'a section is a dictionary of Python'),
    (['evaluate', '--workdir={run}', '--config.models.policy.hidden=(3,)'], 'does not fit this run'),
])
def test_a_wrong_command_is_one_line(run, capsys, command, words):
  assert launch.main([part.replace('{run}', str(run)) for part in command]) == launch.EXIT_DO_NOT_RETRY
  assert words in one_line(capsys)
