"""Where the numbers of a run are shown beside its own files: TensorBoard, Weights & Biases, trackio, MLflow.

`config.log.writers` names them: functions of this module, or `yours.module.mine`, or sections with a `name`
and arguments. Each returns a `Writer`, which is told what the files of the run record. A run that goes on
again goes on in the same run of the tracker, whose name there is kept in `trackers.json`.
"""

from collections.abc import Mapping, Sequence
import importlib
import json
import os
import pathlib
import struct
import time
from types import ModuleType
from typing import Any, Protocol
import uuid

from rlx import config as configs
from rlx.errors import ConfigError
from rlx.files import write_atomically

Path = str | os.PathLike[str]
Samples = Sequence[Mapping[str, Any]]

_LONGEST_TEXT = 2000  # characters of a sample in TensorBoard and in tables
_LONGEST_PARAM = 500  # characters; the least that versions of MLflow take


class Writer(Protocol):
  """What is told of a run as it goes. One that raises is left out from there on; the run goes on."""

  def begin(self, workdir: pathlib.Path, config: Mapping[str, Any], resume_step: int) -> None:
    """The run begins, or goes on.

    Args:
      workdir: of the run.
      config: of the run, in the types that JSON knows.
      resume_step: steps up to here were written before; what came after them is written again, the same. -1
        where the run begins.
    Raises:
      ConfigError: a package is missing.
    """

  def write(self, step: int, metrics: Mapping[str, float], samples: Samples) -> None:
    """Adds to a step; called several times for some, in order of the steps.

    Args:
      step: train steps taken since the run began.
      metrics: scalars by name; may be empty.
      samples: rows that the models wrote (`split`, `prompt`, `completion`, ..); mostly empty.
    """

  def close(self) -> None:
    """The run has ended or stops here."""


def tensorboard() -> Writer:
  """Events in `tensorboard/`: scalars, samples as texts, the config as hyper-parameters."""
  return _TensorBoard()


def wandb(*, project: str = 'rlx') -> Writer:
  """Weights & Biases; its variables say the rest (WANDB_MODE=offline, WANDB_ENTITY, WANDB_RUN_GROUP, ..).

  Args:
    project: that the run belongs to.
  """
  return _Wandb(project)


def trackio(*, project: str = 'rlx') -> Writer:
  """trackio, whose dashboard is local (`trackio show`); TRACKIO_DIR says where it keeps its data.

  Args:
    project: that the run belongs to.
  """
  return _Trackio(project)


def mlflow(*, project: str = 'rlx') -> Writer:
  """MLflow, at MLFLOW_TRACKING_URI; samples are artifacts of the run.

  Args:
    project: its word is experiment.
  """
  return _Mlflow(project)


class _TensorBoard:
  """An events file of each start; TensorBoard forgets the steps of earlier ones after `resume_step`.

  tensorboardX gives the protocol buffers and the checksum. Its `SummaryWriter` is left aside: `flush` does
  not wait for its queue, one event a scalar is slow, and two starts in a second share one file.
  """

  def begin(self, workdir, config, resume_step):
    from tensorboardX import summary  # 0.2 s, only for those who write
    from tensorboardX.proto import event_pb2, summary_pb2
    from tensorboardX.record_writer import masked_crc32c

    self._checksum, self._event, self._text = masked_crc32c, event_pb2.Event, summary.text
    self._summary = summary_pb2.Summary
    folder = workdir / 'tensorboard'
    folder.mkdir(exist_ok=True)
    # TensorBoard reads the files of a folder in the order of their names. What is written is with the system
    # at once: a killed process loses nothing.
    self._file = (folder / f'events.out.tfevents.{time.time_ns()}').open('xb', buffering=0)
    self._add(file_version='brain.Event:2')
    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    self._add(step=resume_step + 1, session_log=start)
    if resume_step < 0:
      values = {name: x if isinstance(x, int | float) else str(x) for name, x in configs.flat(config)}
      headline = {config['log']['headline']: 0.0} if 'log' in config else {}
      for one in summary.hparams(values, headline)[:2]:
        self._add(step=0, summary=one)
      self._add(step=0, summary=self._text('config', _block(json.dumps(config, indent=2, sort_keys=True))))

  def write(self, step, metrics, samples):
    if metrics:
      values = [self._summary.Value(tag=name, simple_value=float(x)) for name, x in metrics.items()]
      self._add(step=int(step), summary=self._summary(value=values))
    for split in dict.fromkeys(row['split'] for row in samples):
      text = '\n\n---\n\n'.join(_markdown(row) for row in samples if row['split'] == split)
      self._add(step=int(step), summary=self._text(f'samples/{split}', text))

  def close(self):
    self._file.close()

  def _add(self, **fields: Any) -> None:
    """One TFRecord: length, its checksum, the event, its checksum."""
    event = self._event(wall_time=time.time(), **fields).SerializeToString()
    length = struct.pack('<Q', len(event))
    checksums = [struct.pack('<I', self._checksum(data)) for data in (length, event)]
    self._file.write(length + checksums[0] + event + checksums[1])


class _Wandb:
  """Steps that its server has already are not sent again."""

  def __init__(self, project: str):
    self._project = project

  def begin(self, workdir, config, resume_step):
    del resume_step  # it knows itself how far it was
    self._package = _package('wandb')
    name = _name_in(workdir, 'wandb', lambda: uuid.uuid4().hex[:12])
    self._run = self._package.init(
        project=self._project, dir=str(workdir), id=name, name=workdir.name, resume='allow',
        config=_of_config(config),
    )
    self._first = self._run.step  # 0, or behind the last one

  def write(self, step, metrics, samples):
    table = {'samples': _table(self._package, samples)} if samples else {}
    if step >= self._first:
      self._run.log({**metrics, **table}, step=step)

  def close(self):
    self._run.finish()


class _Trackio:
  """What is done again behind a checkpoint is there twice, with the same numbers."""

  def __init__(self, project: str):
    self._project = project

  def begin(self, workdir, config, resume_step):
    del resume_step
    self._package = _package('trackio')
    name = _name_in(workdir, 'trackio', lambda: f'{workdir.name}-{uuid.uuid4().hex[:6]}')
    self._run = self._package.init(
        self._project, name=name, resume='allow', config=_of_config(config), embed=False
    )

  def write(self, step, metrics, samples):
    table = {'samples': _table(self._package, samples)} if samples else {}
    self._run.log({**metrics, **table}, step=step)

  def close(self):
    self._run.finish()


class _Mlflow:
  """By its client, which has no run of the process that others could be in."""

  def __init__(self, project: str):
    self._project = project

  def begin(self, workdir, config, resume_step):
    del resume_step  # it knows itself how far it was
    self._entities = _package('mlflow').entities
    self._client = client = _package('mlflow').MlflowClient()

    def make() -> str:
      found = client.get_experiment_by_name(self._project)
      experiment = found.experiment_id if found else client.create_experiment(self._project)
      return client.create_run(experiment, run_name=workdir.name).info.run_id

    self._name = _name_in(workdir, 'mlflow', make)
    client.update_run(self._name, status='RUNNING')
    measured = client.get_run(self._name).data.metrics
    histories = (client.get_metric_history(self._name, name) for name in measured)
    self._last = max((metric.step for history in histories for metric in history), default=-1)
    params = [
        self._entities.Param(name, str(x)[:_LONGEST_PARAM]) for name, x in configs.flat(config)
    ]
    for start in range(0, len(params), 100):  # it takes so many at a time
      client.log_batch(self._name, params=params[start : start + 100])

  def write(self, step, metrics, samples):
    if step <= self._last:
      return
    now = int(1000 * time.time())
    values = [self._entities.Metric(name, float(x), now, int(step)) for name, x in metrics.items()]
    if values:
      self._client.log_batch(self._name, metrics=values)
    if samples:
      text = ''.join(f'{json.dumps(dict(row), default=str)}\n' for row in samples)
      self._client.log_text(self._name, text, f'samples/step_{step:08d}.jsonl')

  def close(self):
    self._client.set_terminated(self._name)


def _package(name: str) -> ModuleType:
  """An optional package.

  Raises:
    ConfigError: it is not installed.
  """
  try:
    return importlib.import_module(name)
  except ModuleNotFoundError as error:
    raise ConfigError(
        f"config.log.writers has {name!r}, which lacks the package {error.name!r}: pip install 'rlx[{name}]'"
    ) from None


def _name_in(workdir: pathlib.Path, tracker: str, make) -> str:
  """The run's name in a tracker: that of an earlier start, or a new one, which is kept."""
  path = workdir / 'trackers.json'
  names = json.loads(path.read_text()) if path.exists() else {}
  if tracker not in names:
    names[tracker] = make()
    write_atomically(path, (json.dumps(names, indent=2) + '\n').encode())
  return names[tracker]


def _of_config(config: Mapping) -> dict[str, Any]:
  """The config as a tree of plain dictionaries."""
  return json.loads(json.dumps(config))


def _table(package: ModuleType, samples: Samples):
  """A table with the columns that any of the rows has."""
  columns = list(dict.fromkeys(name for row in samples for name in row))
  cell = lambda x: x if x is None or isinstance(x, bool | int | float) else _short(x)
  data = [[cell(row.get(name)) for name in columns] for row in samples]
  return package.Table(columns=columns, data=data, allow_mixed_types=True)


def _markdown(row: Mapping[str, Any]) -> str:
  """A sample as TensorBoard shows texts: prompt and completion as they are, then the rest in a line."""
  texts = [_block(_short(row[name])) for name in ('prompt', 'completion') if name in row]
  rest = {name: x for name, x in row.items() if name not in ('prompt', 'completion', 'split')}
  return '\n'.join([*texts, '  ·  '.join(f'{name} `{_short(x)}`' for name, x in rest.items())])


def _block(text: str) -> str:
  return '\n'.join(f'    {line}' for line in text.split('\n')) + '\n'


def _short(value: Any) -> str:
  # Half a surrogate pair, which a model may write, has no UTF-8.
  text = str(value).encode('utf-8', 'replace').decode()
  return text if len(text) <= _LONGEST_TEXT else f'{text[:_LONGEST_TEXT]}...'
