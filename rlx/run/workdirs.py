"""What the directory of a run says before it runs: its config, its shapes, when it was started."""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import datetime
import json
from pathlib import Path

from ml_collections import ConfigDict

from rlx import config as configs
from rlx import processes
from rlx.errors import ConfigError, is_full
from rlx.files import write_atomically
from rlx.models.language import LanguageModel
from rlx.run import extend, lock, version
from rlx.run.checkpoint import environment
from rlx.run.stages import Run

# What a run writes: where one of these is, and no config.json of a run, they are somebody else's.
OURS = (
    'metrics.jsonl', 'timing.jsonl', 'members.jsonl', 'starts.jsonl', 'models.json', 'samples', 'checkpoints',
    'checkpoints.damaged', 'nonfinite', 'tensorboard', 'curve.png', 'report.html', 'model', 'adapter',
)


@contextlib.contextmanager
def opened(workdir: Path) -> Iterator[Callable[[], None]]:
  """A directory that is made, or was made by rlx, held for as long as the context lasts; as `lock.held`.

  Of a run in several processes the first holds it, for all.

  Raises:
    ConfigError: it cannot be written to, another process holds it, or it is somebody else's.
  """
  with contextlib.ExitStack() as stack:
    touch: list[Callable[[], None]] = [lambda: None]
    processes.first_says(lambda: touch.append(stack.enter_context(_opened_here(workdir))))
    yield touch[-1]


@contextlib.contextmanager
def _opened_here(workdir: Path) -> Iterator[Callable[[], None]]:
  """As `opened`, by this process."""
  with contextlib.ExitStack() as stack:
    with usable(workdir):
      _refuse_of_others(workdir)
      workdir.mkdir(parents=True, exist_ok=True)
      touch = stack.enter_context(lock.held(workdir))
    try:
      yield touch
    except OSError as error:
      if is_full(error) and error.filename is None:  # of a file that was open
        error.filename = str(workdir)
      raise


@contextlib.contextmanager
def usable(workdir: Path) -> Iterator[None]:
  """Inside, what the file system refuses is told as the user's to change, but for a lack of room."""
  try:
    yield
  except OSError as error:
    if is_full(error):
      raise
    where = error.filename or workdir
    raise ConfigError(f'--workdir={workdir} cannot be used: {where}: {error.strerror}') from error


def _refuse_of_others(workdir: Path) -> None:
  """Before anything is touched: a run begins where nothing of its own names is, or goes on where one was."""
  if (workdir / 'config.json').exists():
    if not {'stages', 'steps'} <= configs.of_run(workdir).keys():
      raise ConfigError(f'--workdir={workdir}: its config.json is of no run of rlx: it has no stages, steps')
  elif there := [name for name in OURS if (workdir / name).exists()]:
    raise ConfigError(
        f'--workdir={workdir} holds {", ".join(there)} and no config.json of a run, so rlx did not make them '
        'and leaves them alone; choose another directory'
    )


def claim(workdir: Path, config: ConfigDict) -> str:
  """Writes `config.json`, or checks that it is of this config, on this mesh or another.

  Returns:
    What is to be said of a run that is asked for more steps; '' otherwise.
  Raises:
    ConfigError: it is of another config.
  """
  path, extended = workdir / 'config.json', ''
  now = json.loads(config.to_json())
  if path.exists():
    old = configs.of_run(workdir)
    if extend.changes(old, now):
      extended = extend.extension(workdir, old, now)
    elif old['mesh'] == now['mesh']:
      return ''
  write_atomically(path, (json.dumps(now, indent=2, sort_keys=True) + '\n').encode())
  return extended


def write_shapes(run: Run, workdir: Path) -> None:
  """`models.json`: the whole shape of each language model, of which a config says what matters."""
  functions = {name: one.model.functions for name, one in run.stages[-1].models.items()}
  decoders = {name: f for name, f in functions.items() if isinstance(f, LanguageModel)}
  shapes = {name: dataclasses.asdict(decoder.shape) for name, decoder in decoders.items()}
  if shapes:
    write_atomically(workdir / 'models.json', (json.dumps(shapes, indent=2) + '\n').encode())


def note_start(workdir: Path, command: str, at_step: int) -> None:
  """Adds how, when and with which versions the run was started, or went on, to `starts.jsonl`."""
  date = datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')
  start = {'step': at_step, 'date': date, 'command': command, **version.of_rlx(), **environment()}
  with (workdir / 'starts.jsonl').open('a') as file:
    file.write(json.dumps(start) + '\n')
