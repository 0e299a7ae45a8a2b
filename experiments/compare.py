"""`rlx compare RUN ... --output=DIR`: learning curves of runs over one another, seeds taken together.

Runs whose configs differ in nothing but the seed are one line: the interquartile mean of their seeds (and of
the members of a population), with its 95 % bootstrap interval where there are at least three. Writes
`compare.png` and `compare.md`, which says how the configs differ, and prints the latter.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np

from rlx.experiments.commands import EXIT_DONE, CommandError, Parser

TRAIN_STEPS = 'train steps'
_OF_SEEDS = ('seed', 'population')  # what may differ within a line
_AT_MOST = 4  # differences that are named


@dataclasses.dataclass(frozen=True)
class Line:
  """Runs of one config.

  Attributes:
    name: its first run, as it was given.
    config: without the seed.
    at: [points] of the horizontal axis.
    values: [seeds, points].
  """

  name: str
  config: dict
  at: np.ndarray
  values: np.ndarray


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  arguments = _parser().parse_args(argv)
  metric = arguments.metric or shared_metric(arguments.runs)
  lines = read(arguments.runs, metric, arguments.against)
  output = Path(arguments.output)
  output.mkdir(parents=True, exist_ok=True)
  text = table(lines, metric)
  (output / 'compare.md').write_text(text)
  draw(lines, metric, arguments.against, output / 'compare.png')
  print(text, end='')
  return EXIT_DONE


def shared_metric(runs: list[str]) -> str:
  """The metric to compare runs by: the headline of one of them, or another evaluation, that all of them have.

  Raises:
    CommandError: they share none.
    ConfigError: a directory holds no run.
  """
  from rlx.run.writers import read_metrics

  headlines = [_config(Path(run))['log']['headline'] for run in runs]
  measured = {run: _names(read_metrics(Path(run) / 'metrics.jsonl')) for run in runs}
  shared = set.intersection(*map(set, measured.values()))
  evaluations = sorted(name for name in shared if name.startswith('eval/'))
  for metric in (*headlines, *evaluations):
    if metric in shared:
      return metric
  has = (f'{run} has {", ".join(x for x in names if x.startswith("eval/")) or "none"}'
         for run, names in measured.items())
  raise CommandError(f'the runs share no evaluation ({"; ".join(has)}); say which with --metric=NAME')


def _config(run: Path) -> dict:
  """The config of a run."""
  from rlx import config as configs

  return configs.of_run(run)


def read(runs: list[str], metric: str, against: str) -> list[Line]:
  """The lines of runs, in the order of their first ones.

  Args:
    runs: working directories.
    metric: such as `eval/episodes/return`.
    against: `train steps`, or a metric whose sum over the run is the horizontal axis, such as `env/steps`.
  Raises:
    CommandError: a run lacks a metric, or two of a line have a seed in common.
    ConfigError: a directory holds no run.
  """
  groups, places = {}, [Path(run).resolve() for run in runs]
  if twice := [run for run, place in zip(runs, places, strict=True) if places.count(place) > 1]:
    raise CommandError(f'{", ".join(twice)}: the same run, which is one seed; name each once')
  for run in map(Path, runs):
    config = {name: x for name, x in _config(run).items() if name not in _OF_SEEDS}
    groups.setdefault(json.dumps(config, sort_keys=True), []).append(run)
  for found in groups.values():
    _check_seeds(found)
  named = [(str(found[0]), json.loads(config), found) for config, found in groups.items()]
  return [line_of(*one, metric, against) for one in named]


def line_of(name: str, config: dict, runs: list[Path], metric: str, against: str) -> Line:
  """Runs of one config together, at the steps that all of them have; raises as `read` does."""
  series = [_series(run, metric, against) for run in runs]
  steps = sorted(set.intersection(*(set(one) for one in series)))
  if not steps:
    raise CommandError(f'{", ".join(map(str, runs))}: no step has {metric!r} in all of them')
  values = [np.array([one[step][1] for step in steps]).T for one in series]
  at = np.mean([[one[step][0] for step in steps] for one in series], axis=0)
  return Line(name, config, at, np.concatenate(values))


def _check_seeds(runs: list[Path]) -> None:
  """Raises `CommandError` where two of them have a seed in common, which a copy of a run has."""
  of_seed = {}
  for run in runs:
    config = _config(run)
    for seed in range(config['seed'], config['seed'] + config['population']['size']):
      other = of_seed.setdefault(seed, run)
      if other != run:
        raise CommandError(f'{other} and {run} are runs of the same config and seed {seed}; name one of them')


def _series(run: Path, metric: str, against: str) -> dict[int, tuple[float, list[float]]]:
  """Step -> place on the horizontal axis, and the metric of each seed."""
  from rlx.run.writers import read_metrics

  rows = read_metrics(run / 'metrics.jsonl')
  members = run / 'members.jsonl'
  of_members = read_metrics(members) if members.exists() else []
  found = {row['step']: row[metric] for row in of_members if metric in row}
  found = found or {row['step']: [row[metric]] for row in rows if metric in row}
  if not found:
    raise CommandError(f'{run} has no metric {metric!r}; it has {", ".join(_names(rows))}')
  if not all(isinstance(x, int | float) for values in found.values() for x in values):
    raise CommandError(f'{run}: {metric!r} is no number; take one of {", ".join(_names(rows))}')
  if against == TRAIN_STEPS:
    return {step: (step, values) for step, values in found.items()}
  if not any(against in row for row in rows):
    raise CommandError(f'{run} has no metric {against!r}; it has {", ".join(_names(rows))}')
  sums = np.cumsum([row.get(against, 0.0) for row in rows])
  place = {row['step']: total for row, total in zip(rows, sums, strict=True)}
  return {step: (place[step], values) for step, values in found.items()}


def _names(rows) -> list[str]:
  names = {name for row in rows for name in row} - {'step', 'stage'}
  return sorted(name for name in names if not name.endswith(('.min', '.max', '.nan')))


def summarised(values: np.ndarray) -> tuple[float, float, float]:
  """Interquartile mean of the seeds [N] and its interval, which is NaN of fewer than three."""
  from rlx.evaluation import aggregates

  middle = aggregates.interquartile_mean(values[:, None])
  if len(values) < 3:
    return middle, np.nan, np.nan
  return middle, *aggregates.bootstrap_interval(values[:, None], aggregates.interquartile_mean, draws=500)


def table(lines: list[Line], metric: str) -> str:
  """A row a line: the metric at its last point, and how its config differs from that of the first line."""
  from rlx import config as configs

  text = f'| run | seeds | {metric} in the end: IQM (95 %) | worst | best | config, beside the first |\n'
  text += '|---|---|---|---|---|---|\n'
  for line in lines:
    last = line.values[:, -1]
    middle, low, high = summarised(last)
    interval = '' if np.isnan(low) else f' ({low:.4g} to {high:.4g})'
    changes = configs.differences(lines[0].config, line.config)
    said = '; '.join(f'`{change}`' for change in changes[:_AT_MOST])
    said += f'; and {len(changes) - _AT_MOST} more' if len(changes) > _AT_MOST else ''
    text += (
        f'| {line.name} | {len(last)} | {middle:.4g}{interval} | {last.min():.4g} | {last.max():.4g} '
        f'| {said} |\n'
    )
  return text


def draw(
    lines: list[Line], metric: str, against: str, path: Path, *, inches: tuple[float, float] = (10, 6),
    size: float = 11,
) -> None:
  """Writes the figure: a line and a band each; single seeds are thin. `size` of letters in points."""
  from rlx.run import style

  figure = style.figure(*inches)
  figure.set_layout_engine('constrained')
  panel = figure.subplots()
  style.axes(panel, size=size)
  for index, line in enumerate(lines):
    color = style.COLORS[index % len(style.COLORS)]
    middle, low, high = np.array([summarised(column) for column in line.values.T]).T
    label = f'{line.name} ({len(line.values)} seed{"s" if len(line.values) > 1 else ""})'
    panel.plot(line.at, middle, color=color, linewidth=1.8, label=label)
    panel.plot(line.at, line.values.T, color=color, linewidth=0.5, alpha=0.3)
    style.band(panel, line.at, low, high, color)
  style.values_axis(panel, metric, size=size)
  panel.set_xlabel(against, fontsize=size + 1, color=style.FAINT, loc='left')
  style.legend(panel, size=size)
  path.write_bytes(style.image(figure))


def _parser() -> Parser:
  parser = Parser(
      prog='rlx compare',
      description='Learning curves of runs, and how their configs differ.',
  )
  parser.add_argument('runs', nargs='+', metavar='RUN', help='working directories')
  parser.add_argument(
      '--metric', default='', help='default: a log.headline that all runs have, or another evaluation'
  )
  parser.add_argument(
      '--against', default=TRAIN_STEPS, metavar='NAME',
      help=f'the horizontal axis: {TRAIN_STEPS} (default), or a metric that is summed, e.g. env/steps',
  )
  parser.add_argument('--output', required=True, metavar='DIR', help='gets compare.md and compare.png')
  return parser
