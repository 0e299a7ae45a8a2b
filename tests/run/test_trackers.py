"""Trackers: what each is told, the same run after a stop, and that none of them can end a run."""

import json
import os
import pathlib
import subprocess
import sys

from ml_collections import ConfigDict
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlx import config as configs
from rlx.errors import ConfigError
from rlx.run import build, trackers, writers

CONFIG = {'seed': 3, 'optimizer': {'learning_rate': 1e-3}, 'log': {'headline': 'eval/held_out/accuracy'}}
SAMPLES = [
    {'split': 'held_out', 'prompt': '1+2=', 'completion': '3\udc80', 'correct': True, 'solution': '3'},
    {'split': 'train', 'prompt': '2+2=', 'completion': '5', 'reward': 0.0},
]


def run(workdir, tracker, *, first, last):
  """Stands in for a run: rows of one metric, samples and the clock at the last step."""
  writer = writers.MetricsWriter(workdir, resume_step=first - 1, trackers=[tracker], config=CONFIG)
  for step in range(first, last + 1):
    writer.write(step, 'main', {'reward/mean': step / 10})
  writer.write_samples(last, SAMPLES)
  writer.write_timing(last, {'time/step_seconds': 0.5})
  writer.close()


class Kept:
  """A tracker that keeps what it is told."""

  def begin(self, workdir, config, resume_step):
    self.told = [('begin', workdir.name, config['seed'], resume_step)]

  def write(self, step, metrics, samples):
    self.told.append((step, dict(metrics), len(samples)))

  def close(self):
    self.told.append('close')


def kept():
  """As a config names it."""
  return Kept()


def test_a_tracker_is_told_what_the_files_record(tmp_path):
  tracker = Kept()
  run(tmp_path, tracker, first=2, last=3)
  assert tracker.told == [
      ('begin', tmp_path.name, 3, 1),
      (2, {'reward/mean': 0.2}, 0),
      (3, {'reward/mean': 0.3}, 0),
      (3, {}, 2),
      (3, {'time/step_seconds': 0.5}, 0),
      'close',
  ]


def test_a_tracker_that_fails_is_told_nothing_more_and_the_files_go_on(tmp_path):
  class Broken(Kept):

    def write(self, step, metrics, samples):
      super().write(step, metrics, samples)
      raise ConnectionError('no route to host\nand more')

  broken, sound, said = Broken(), Kept(), []
  writer = writers.MetricsWriter(
      tmp_path, resume_step=-1, trackers=[broken, sound], config=CONFIG, say=said.append
  )
  for step in range(3):
    writer.write(step, 'main', {'a': 1.0})
  writer.close()
  assert said == ['Broken fails and is told nothing more: ConnectionError: no route to host']
  assert len(broken.told) == 3 and broken.told[-1] == 'close' and sound.told[-1] == 'close'
  assert len(writers.read_metrics(tmp_path / 'metrics.jsonl')) == 3


def test_tensorboard_has_the_config_and_the_samples(tmp_path):
  run(tmp_path, trackers.tensorboard(), first=0, last=2)
  run(tmp_path, trackers.tensorboard(), first=2, last=4)  # goes on
  events = EventAccumulator(str(tmp_path / 'tensorboard')).Reload()
  assert [(e.step, round(e.value, 6)) for e in events.Scalars('reward/mean')] == [
      (step, step / 10) for step in range(5)
  ]
  text = lambda tag: [(e.step, e.tensor_proto.string_val[0].decode()) for e in events.Tensors(tag)]
  (step, config), = text('config/text_summary')
  assert step == 0 and '"learning_rate": 0.001' in config
  assert [step for step, _ in text('samples/held_out/text_summary')] == [2, 4]
  assert '    1+2=' in text('samples/held_out/text_summary')[0][1]
  (hparams,) = [data for tag, data in events.summary_metadata.items() if tag.endswith('session_start_info')]
  assert b'optimizer.learning_rate' in hparams.plugin_data.content


def smoke(*names):
  config = configs.load('experiments/configs/quickstart/arithmetic.py:smoke').unlock()
  config.log = {**config.log.to_dict(), 'writers': names}
  return config.lock()


def test_a_config_names_trackers(monkeypatch):
  """Functions of the module, with their numbers, and those of other packages; nothing is imported."""
  monkeypatch.setattr(trackers, 'kept', kept, raising=False)
  built = build.build(smoke('tensorboard', ConfigDict({'name': 'wandb', 'project': 'mine'}), 'kept')).trackers
  assert [type(tracker).__name__ for tracker in built] == ['_TensorBoard', '_Wandb', 'Kept']
  assert built[1]._project == 'mine'
  assert build.build(smoke()).trackers == ()


@pytest.mark.parametrize(
    ('names', 'message'),
    [
        (('tensorbord',), "did you mean 'tensorboard'"),
        (({'name': 'wandb', 'projekt': 'mine'},), "\\['projekt'\\], which wandb\\(\\) does not know"),
        ('wandb', r"is a list: \('wandb',\)"),
    ],
)
def test_a_wrong_name_is_one_line(names, message):
  config = smoke(*names)
  if isinstance(names, str):
    config.unlock().log = {**config.log.to_dict(), 'writers': names}
  with pytest.raises(ConfigError, match=message) as error:
    build.build(config)
  assert '\n' not in str(error.value)


@pytest.mark.parametrize('name', ['wandb', 'trackio', 'mlflow'])
def test_a_missing_package_is_one_line_with_the_command(tmp_path, monkeypatch, name):
  monkeypatch.setitem(sys.modules, name, None)
  with pytest.raises(ConfigError, match=rf"pip install 'rlx\[{name}\]'") as error:
    writers.MetricsWriter(
        tmp_path, resume_step=-1, trackers=[getattr(trackers, name)()], config=CONFIG
    )
  assert '\n' not in str(error.value)


def test_importing_the_module_imports_no_tracker():
  program = (
      "import sys; from rlx.run import trackers; "
      "sys.exit(any(name in sys.modules for name in ('tensorboardX', 'wandb', 'trackio', 'mlflow')))"
  )
  subprocess.run([sys.executable, '-c', program], check=True)


# --- the packages themselves, where they are installed; each in a process of its own -----------------------

_TWO_STARTS = """
import pathlib, sys
sys.path.insert(0, sys.argv[3])
from test_trackers import run, trackers
name, workdir = sys.argv[1], pathlib.Path(sys.argv[2])
for first, last in ((0, 3), (2, 6)):  # killed behind the checkpoint of step 1, then to the end
  run(workdir, getattr(trackers, name)(project='tried'), first=first, last=last)
"""


def two_starts(name, workdir, **environment):
  """The same run in two parts; what it printed."""
  here = pathlib.Path(__file__).parent
  path = os.pathsep.join([str(here.parents[1]), os.environ.get('PYTHONPATH', '')])
  done = subprocess.run(
      [sys.executable, '-c', _TWO_STARTS, name, str(workdir), str(here)], capture_output=True, text=True,
      env={**os.environ, 'PYTHONPATH': path, **environment}, cwd=workdir.parent, timeout=300, check=False,
  )
  assert done.returncode == 0, done.stderr
  assert 'told nothing more' not in done.stdout + done.stderr, done.stdout
  return done.stdout + done.stderr


def read_with(program, **environment):
  """What a program prints as its last line, as JSON."""
  done = subprocess.run(
      [sys.executable, '-c', program], capture_output=True, text=True, check=True,
      env={**os.environ, **environment},
  )
  return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_wandb_offline(tmp_path):
  pytest.importorskip('wandb')
  two_starts('wandb', tmp_path, WANDB_MODE='offline')
  (name,) = {path.name.rpartition('-')[2] for path in (tmp_path / 'wandb').glob('offline-run-*')}
  assert name == json.loads((tmp_path / 'trackers.json').read_text())['wandb']
  assert len(list((tmp_path / 'wandb').glob('offline-run-*'))) == 2
  assert list((tmp_path / 'wandb').rglob('*.table.json'))


@pytest.mark.slow
def test_trackio_locally(tmp_path):
  pytest.importorskip('trackio')
  two_starts('trackio', tmp_path / 'run', TRACKIO_DIR=str(tmp_path / 'kept'))
  name = json.loads((tmp_path / 'run' / 'trackers.json').read_text())['trackio']
  program = f'import json, trackio; print(json.dumps(trackio.SQLiteStorage.get_logs("tried", {name!r})))'
  rows = read_with(program, TRACKIO_DIR=str(tmp_path / 'kept'))
  seen = {row['step']: row['reward/mean'] for row in rows if 'reward/mean' in row}
  assert seen == {step: step / 10 for step in range(7)}
  assert any('samples' in row for row in rows)


@pytest.mark.slow
def test_mlflow_in_files(tmp_path):
  pytest.importorskip('mlflow')
  where = f'sqlite:///{tmp_path}/mlflow.db'
  two_starts('mlflow', tmp_path / 'run', MLFLOW_TRACKING_URI=where)
  name = json.loads((tmp_path / 'run' / 'trackers.json').read_text())['mlflow']
  program = f"""
import json, mlflow
client = mlflow.MlflowClient()
told, history = client.get_run({name!r}), client.get_metric_history({name!r}, 'reward/mean')
points = [(metric.step, metric.value) for metric in history]
print(json.dumps([points, told.data.params['optimizer.learning_rate'], told.info.status]))
"""
  points, rate, status = read_with(program, MLFLOW_TRACKING_URI=where)
  assert points == [[step, step / 10] for step in range(7)]  # each once: it knew how far it was
  assert rate == '0.001' and status == 'FINISHED'
