"""What a run looks like: a `report.html` that needs no other file, of any working directory, at any time.

The page has the numbers that a run is read by, its curves, what its model wrote before, after and at every
step between, and what it takes to run it again. It is a template (`templates/report.html`); all that it shows
is read from what the run has written.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import hashlib
import json
import math
import pathlib
from typing import Any

from rlx import config as configs
from rlx.errors import ConfigError
from rlx.files import write_atomically
from rlx.run import curves
from rlx.run.curves import called, percent
from rlx.run.writers import Path, format_seconds, read_metrics

__all__ = ['Told', 'called', 'told', 'write_curve', 'write_report']

_TEMPLATES = pathlib.Path(__file__).parent / 'templates'
_MOST_STEPS = 60  # of which samples are in a page
_LONGEST = 4000  # characters of a text there


@dataclasses.dataclass(frozen=True)
class Told:
  """What a working directory says of its run.

  Attributes:
    metric: `log.headline`, by which the run is read.
    before: its value at the start of the last stage; None where it was not measured.
    after: its last value.
    transcripts_before: of held-out problems at the start of the last stage: prompt, completion, solution,
      correct.
    transcripts_after: the last ones.
  """

  metric: str
  before: float | None
  after: float | None
  transcripts_before: list[dict]
  transcripts_after: list[dict]


def told(workdir: Path) -> Told:
  """The headline and the transcripts of a run, before and after.

  Raises:
    ConfigError: there is no run.
  """
  workdir = pathlib.Path(workdir)
  metric, rows = configs.of_run(workdir)['log']['headline'], _rows(workdir)
  first_step, before, after = curves.before_and_after(rows, metric)
  samples = _sample_files(workdir)
  transcripts = lambda step: [
      row for row in (_read(samples[step]) if step in samples else []) if row['split'] == metric.split('/')[1]
  ]
  return Told(metric, before, after, transcripts(first_step), transcripts(max(samples, default=-1)))


def write_curve(workdir: Path) -> pathlib.Path:
  """Draws the headline and the training reward over all stages into `curve.png`; raises as `told`."""
  config = configs.of_run(workdir)
  return curves.write_curve(workdir, title=_title(config), headline=config['log']['headline'])


def write_report(workdir: Path) -> pathlib.Path:
  """Writes `report.html`, with freshly drawn curves inside, and `curve.png`.

  Args:
    workdir: of a run, which may be at work.
  Returns:
    The path of `report.html`.
  Raises:
    ConfigError: there is no run.
  """
  import jinja2

  workdir = pathlib.Path(workdir)
  config, rows, starts = configs.of_run(workdir), _rows(workdir), _starts(workdir)
  environment = dict(starts[-1]) if starts else {}
  command = environment.pop('command', '')
  environment.pop('step', None)
  story, step = told(workdir), rows[-1]['step'] if rows else 0
  script = (_TEMPLATES / 'samples.js').read_text()
  loader = jinja2.FileSystemLoader(_TEMPLATES)
  page = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
  text = page.get_template('report.html').render(
      title=_title(config),
      # Should a completion slip past the escaping, nothing of it loads or runs.
      policy="default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
      f"script-src 'sha256-{_base64(hashlib.sha256(script.encode()).digest())}'",
      script=script,
      tiles=[
          (name.removesuffix(' in seconds'), _told_as(name, value))
          for name, value in _summary(story, step, config, _seconds(workdir), starts).items()
      ],
      curve=_base64(write_curve(workdir).read_bytes()),
      panels=[(name, _base64(svg)) for name, svg in curves.write_panels(rows, story.metric)],
      pairs=_pairs(story.transcripts_before, story.transcripts_after),
      right=_right(story.transcripts_before, story.transcripts_after),
      samples=_samples(workdir),
      command=command,
      environment=list(configs.flat(environment)),
      config=list(configs.flat(config)),
  )
  path = workdir / 'report.html'
  # Half a surrogate pair, which a model may write, has no UTF-8; its number shows as a replacement sign.
  write_atomically(path, text.encode('utf-8', 'xmlcharrefreplace'))
  return path


# --- what is read -------------------------------------------------------------------------------------------


def _rows(workdir: pathlib.Path) -> curves.Rows:
  path = workdir / 'metrics.jsonl'
  return read_metrics(path) if path.exists() else []


def _read(path: pathlib.Path) -> list[dict[str, Any]]:
  try:
    return [json.loads(line) for line in path.read_text().splitlines()]
  except ValueError as error:  # no JSON, or no text
    raise ConfigError(f'{path} is damaged ({error}); mend or delete it') from error


def _starts(workdir: pathlib.Path) -> list[dict[str, Any]]:
  """How the run was started, and went on; the last one is what shows."""
  path = workdir / 'starts.jsonl'
  return _read(path) if path.exists() else []


def _sample_files(workdir: pathlib.Path) -> dict[int, pathlib.Path]:
  """Step -> file, in order."""
  files = sorted((workdir / 'samples').glob('step_*.jsonl'))
  return {int(path.stem.removeprefix('step_')): path for path in files}


def _seconds(workdir: pathlib.Path) -> float | None:
  """How long the run was at work, over all its starts."""
  path = workdir / 'timing.jsonl'
  elapsed = [row['time/elapsed_seconds'] for row in (read_metrics(path) if path.exists() else [])]
  ends = [now for now, then in zip(elapsed, [*elapsed[1:], 0.0], strict=False) if then < now]
  return sum(ends) if ends else None


def _samples(workdir: pathlib.Path) -> list[dict[str, Any]]:
  """`{step, rows}` of the steps to look through: all, or some of very many, with the first and the last."""
  files = list(_sample_files(workdir).items())
  if len(files) > _MOST_STEPS:
    files = [files[round(i * (len(files) - 1) / (_MOST_STEPS - 1))] for i in range(_MOST_STEPS)]
  cut = lambda x: f'{x[:_LONGEST]} ...' if isinstance(x, str) and len(x) > _LONGEST else x
  rows = lambda path: [{name: cut(x) for name, x in row.items()} for row in _read(path)]
  return [{'step': step, 'rows': rows(path)} for step, path in files]


# --- what is shown ------------------------------------------------------------------------------------------


def _title(config: Mapping[str, Any]) -> str:
  """The algorithms of the stages and what they are about, such as `sft, then grpo on arithmetic`."""
  sections = [config if name == 'main' else config[name] for name in dict.fromkeys(config['stages'])]
  about = config['task' if 'task' in config else 'env']['name']
  return f'{", then ".join(dict.fromkeys(map(_algorithm, sections)))} on {about}'


def _algorithm(section: Mapping[str, Any]) -> str:
  of = [section] if 'learners' not in section else section['learners'].values()
  names = [one['algorithm']['name'] for one in of if isinstance(one, Mapping)]
  return ' and '.join(dict.fromkeys(name.rpartition('.')[2] for name in names))


def _summary(story: Told, step: int, config, seconds: float | None, starts) -> dict[str, Any]:
  """What a reader wants first, by name."""
  members = config['population']['size']
  start = starts[-1] if starts else {}
  return {
      called(story.metric): (story.before, story.after),
      'train steps': step,
      **({'seeds': members} if members > 1 else {'seed': config['seed']}),
      **({} if seconds is None else {'duration in seconds': seconds}),
      **({'begun': starts[0]['date'][:16].replace('T', ' ')} if 'date' in start else {}),
      **{name: start[name] for name in ('rlx', 'commit') if start.get(name)},
  }


def _told_as(name: str, value: Any) -> str:
  """A value in the unit that its name ends with; a pair is before and after."""
  if isinstance(value, tuple):
    return ' → '.join(_shown(name, x) for x in value if x is not None) or 'not measured'
  return _shown(name, value)


def _shown(name: str, value: Any) -> str:
  if isinstance(value, str | bool):
    return str(value)
  if not math.isfinite(value):
    return str(float(value))
  if name.endswith(('accuracy', 'fraction')):
    return percent(value)
  if name.endswith('seconds') and value >= 1:
    return format_seconds(value)
  return f'{value:,.0f}' if float(value).is_integer() else f'{value:,.4g}'


def _pairs(before: Sequence[Mapping], after: Sequence[Mapping]) -> list[dict[str, Any]]:
  """A row a prompt: what was asked, expected, and written before and after (None where it was not)."""
  sides: dict[tuple[str, int], list] = {}
  for side, transcripts in enumerate((before, after)):
    for key, transcript in _numbered(transcripts):
      sides.setdefault(key, [None, None])[side] = transcript
  expected = lambda pair: next(x for x in pair if x is not None)['solution']
  return [
      {'prompt': prompt, 'solution': expected(pair), 'sides': pair} for (prompt, _), pair in sides.items()
  ]


def _right(*sides: Sequence[Mapping]) -> list[tuple[int, int]]:
  """How many transcripts of each side are right, and of how many; empty where none can be, as in games."""
  if not all('correct' in x for side in sides for x in side):
    return []
  return [(sum(bool(x['correct']) for x in side), len(side)) for side in sides]


def _numbered(transcripts: Iterable[Mapping]) -> Iterable[tuple[tuple[str, int], Mapping]]:
  """The same prompt may be answered several times."""
  seen: dict[str, int] = {}
  for transcript in transcripts:
    prompt = transcript['prompt']
    seen[prompt] = seen.get(prompt, 0) + 1
    yield (prompt, seen[prompt]), transcript


def _base64(data: bytes) -> str:
  return base64.b64encode(data).decode()
