"""What the files of a run say of it, while it runs and afterwards; nothing is built, nobody is disturbed."""

import dataclasses
import itertools
import json
from pathlib import Path

from rlx import config as configs
from rlx.errors import ConfigError
from rlx.run import report
from rlx.run.writers import read_metrics

SAMPLES = 'samples/step_{:08d}.jsonl'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Told:
  """How far a run is.

  Attributes:
    step: train steps that were taken and written down.
    metric: `log.headline`, by which the run is read.
    before: its value at the start of the newest stage; None where it was not measured.
    after: its newest value.
    transcripts_before: of held-out problems: prompt, completion, solution, correct.
    transcripts_after: the newest ones.
  """

  step: int
  metric: str
  before: float | None
  after: float | None
  transcripts_before: list[dict]
  transcripts_after: list[dict]


def told(workdir: str | Path) -> Told:
  """What the directory of a run says.

  Raises:
    ConfigError: it holds no run.
  """
  workdir = Path(workdir)
  metric = configs.of_run(workdir)['log']['headline']
  path = workdir / 'metrics.jsonl'
  rows = read_metrics(path) if path.exists() else []
  stages = [list(group) for _, group in itertools.groupby(rows, key=lambda row: row['stage'])]
  first = stages[-2][-1]['step'] if len(stages) > 1 else 0
  at = {row['step']: row[metric] for row in rows if metric in row}
  read = lambda step: _transcripts(workdir / SAMPLES.format(step), metric.split('/')[1])
  return Told(
      step=rows[-1]['step'] if rows else 0, metric=metric, before=at.get(first),
      after=at[max(at)] if at else None, transcripts_before=read(first),
      transcripts_after=read(max(at, default=first)),
  )


def _transcripts(path: Path, evaluation: str) -> list[dict]:
  """Those of an evaluation."""
  rows = map(json.loads, path.read_text().splitlines()) if path.exists() else []
  return [row for row in rows if row['split'] == evaluation]


def write_report(workdir: str | Path) -> Path:
  """Writes `curve.png` and `report.html` of a run, finished or not; returns the path of the latter.

  Raises:
    ConfigError: it holds no run.
  """
  workdir = Path(workdir)
  now, config = told(workdir), configs.of_run(workdir)
  if not (workdir / 'starts.jsonl').exists():
    raise ConfigError(f'--workdir={workdir}: the run has only just been started; try again in a moment')
  start = json.loads((workdir / 'starts.jsonl').read_text().splitlines()[-1])
  start.pop('step')
  about = config['task' if 'task' in config else 'env']['name']
  name = config['learners']['order'][0] if 'learners' in config else config['algorithm']['name']
  return report.write_report(
      workdir, title=f'{name.rpartition(".")[2]} on {about}', before=now.transcripts_before,
      after=now.transcripts_after, config=config, environment=start,
      summary={report.called(now.metric): (now.before, now.after), 'train steps': now.step},
      headline=now.metric,
  )
