"""What the directory of a run says before it runs: its config, its shapes, when it was started."""

import dataclasses
import datetime
import json
from pathlib import Path

from ml_collections import ConfigDict

from rlx.models.language import LanguageModel
from rlx.run import extend, version
from rlx.run.checkpoint import environment
from rlx.run.stages import Run
from rlx.run.writers import write_atomically


def claim(workdir: Path, config: ConfigDict) -> tuple[Path, str]:
  """Makes the directory and writes `config.json`, or checks that it holds the run of this config.

  Returns:
    The directory, and what is to be said of a run that is asked for more steps; '' otherwise.
  """
  workdir.mkdir(parents=True, exist_ok=True)
  path, extended = workdir / 'config.json', ''
  now = json.loads(config.to_json())
  if path.exists():
    old = json.loads(path.read_text())
    if not extend.changes(old, now):
      return workdir, ''
    extended = extend.extension(workdir, old, now)
  write_atomically(path, (json.dumps(now, indent=2, sort_keys=True) + '\n').encode())
  return workdir, extended


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
