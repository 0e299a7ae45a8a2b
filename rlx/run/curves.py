"""Curves of one run: `curve.png`, and the panels of its report.

Rows are those of `metrics.jsonl`. Columns `x.min` and `x.max` (a population) become a band around the median.
"""

from collections.abc import Sequence
import functools
import itertools
import pathlib
from typing import Any

import numpy as np

from rlx.files import write_atomically
from rlx.run import style
from rlx.run.writers import Path, read_metrics

REWARD, LOSS, TRAINING_RETURN = 'reward/mean', 'loss/total', 'episode/return'
ACCURACY, SCORE = 'accuracy', 'score'  # what the headline of a run is drawn as: a share, or any other number
_CALLED = {'accuracy': 'held-out accuracy', 'return': 'return of an episode', 'nll': 'held-out loss'}

# Panels of a report: title, and the metrics that are lines in it, those of several learners too. `loss/` is
# all that begin so.
PANELS = (
    ('reward', ('reward/mean',)),
    ('return of an episode in training', ('episode/return',)),
    ('entropy, nats an action', ('policy/entropy',)),
    ('KL', ('kl/reference', 'kl/old', 'kl/teacher', 'kl/target')),
    ('tokens of a response', ('tokens/response_mean', 'tokens/response_max')),
    ('length of an episode', ('episode/length',)),
    ('turns of an episode', ('turns/mean', 'turns/max')),
    ('tool calls of an episode', ('tools/calls',)),
    ('failed tool calls of an episode', tuple(f'tools/failed_{kind}' for kind in (
        'unknown', 'malformed', 'arguments', 'raised', 'timeout', 'died'))),
    ('gradient norm', ('optimizer/grad_norm',)),
    ('losses', ('loss/',)),
)
_MOST_POINTS = 600  # of a line in a panel
_MOST_LINES = len(style.COLORS)

Rows = list[dict[str, Any]]


def called(metric: str) -> str:
  """What people call a metric: of an evaluation its last name, of train steps the whole."""
  name = metric.rpartition('/')[2] if metric.startswith('eval/') else metric.replace('/', ' ')
  return _CALLED.get(name, name.replace('_', ' '))


def percent(fraction: float) -> str:
  """A share as people read it."""
  return f'{100 * fraction:.1f} %'


def before_and_after(rows: Rows, headline: str) -> tuple[int, float | None, float | None]:
  """Where the last stage begins, the headline there, and its last value; None where it was not measured.

  A metric of train steps is first measured by the first of them.

  This is the one "before" of a run: what its last stage began with, such as the policy behind SFT.
  """
  if not rows:
    return 0, None, None
  stages = [row['stage'] for row in rows]
  of_last = sum(1 for _ in itertools.takewhile(lambda stage: stage == stages[-1], reversed(stages)))
  at = max(len(rows) - of_last - 1, 0)
  begin = rows[at]
  first = begin if headline.startswith('eval/') else rows[min(at + 1, len(rows) - 1)]
  measured = [row[headline] for row in rows if headline in row]
  return begin['step'], first.get(headline), measured[-1] if measured else None


def write_curve(workdir: Path, *, title: str, headline: str) -> pathlib.Path:
  """Draws the metric that a run is read by, and its training reward, over all stages.

  The loss stands in for a reward where no stage has one; a return stands beside that of the training. Columns
  `x.min` and `x.max` (a population) become a band.

  Args:
    workdir: holds `metrics.jsonl`.
    title: what ran, e.g. `GRPO on arithmetic`.
    headline: the metric, `eval/<name>/<metric>`.
  Returns:
    The path of `curve.png`, 1200 x 700 pixels.
  """
  rows = read_metrics(pathlib.Path(workdir) / 'metrics.jsonl')
  places = before_and_after(rows, headline)
  rows = _with_headline(rows, headline)
  figure = style.figure(12, 7)
  _write_heading(figure, title, rows, headline, places)
  with_reward = _has(rows, REWARD)
  draw = [functools.partial(_draw_score, begin=places[0])] if with_reward or _has(rows, ACCURACY) else []
  if _has(rows, SCORE):
    draw = [functools.partial(_draw_return, axis=called(headline))]
  draw += [_draw_loss] if not with_reward and _has(rows, LOSS) else []
  ratios = [2, 1][: len(draw)] or [1]
  panels = figure.subplots(
      len(ratios), sharex=True, squeeze=False, gridspec_kw={'height_ratios': ratios, 'hspace': 0.08}
  )[:, 0]
  figure.subplots_adjust(left=0.075, right=0.925, bottom=0.095, top=0.83)
  for panel in panels:
    _prepare(panel, rows, named=panel is panels[0])
  lines = itertools.chain.from_iterable(f(panel, rows) for f, panel in zip(draw, panels, strict=False))
  if draw:
    where = {'loc': 'lower right', 'bbox_to_anchor': (0.93, 0.002), 'ncols': 2}
    figure.legend(handles=list(lines), frameon=False, fontsize=12, labelcolor=style.TEXT, **where)
  else:
    panels[0].text(0.5, 0.5, 'no metrics yet', transform=panels[0].transAxes, ha='center', fontsize=14)
  panels[-1].set_xlabel('train step', fontsize=12, color=style.FAINT, loc='left')
  path = pathlib.Path(workdir) / 'curve.png'
  write_atomically(path, style.image(figure))
  return path


def write_panels(rows: Rows, headline: str) -> list[tuple[str, bytes]]:
  """The headline, and whatever else of `PANELS` a run has measured: titles and SVG files.

  Args:
    rows: of `metrics.jsonl`.
    headline: the metric that the run is read by.
  """
  shares = headline.endswith('/accuracy')
  panels = [(called(headline), [headline], shares)]
  panels += [(title, _lines_of(rows, wanted), False) for title, wanted in PANELS]
  return [
      (title, _panel(rows, title, names, shares=shares)) for title, names, shares in panels if names
      if any(_has(rows, name) for name in names)
  ]


def _lines_of(rows: Rows, wanted: Sequence[str]) -> list[str]:
  """The metrics of a panel that a run has: by their names, or behind the name of a learner."""
  names = sorted({name for row in rows for name in row if not name.startswith('eval/')} - {'step', 'stage'})
  names = [name for name in names if not name.endswith(('.min', '.max', '.nan')) and _has(rows, name)]
  is_one = lambda name, one: f'/{one}' in f'/{name}' if one.endswith('/') else f'/{name}'.endswith(f'/{one}')
  return [name for one in wanted for name in names if is_one(name, one)][:_MOST_LINES]


def _panel(rows: Rows, title: str, names: Sequence[str], *, shares: bool) -> bytes:
  """One panel: 440 x 290 pixels, to be read at that size."""
  figure = style.figure(4.4, 2.9)
  panel = figure.subplots()
  figure.subplots_adjust(left=0.15, right=0.97, bottom=0.11, top=0.87)
  _prepare(panel, rows, named=False, size=8.5)
  style.values_axis(panel, '', size=8.5)
  lines = []
  for name, color in zip(names, style.COLORS, strict=False):
    label = name.removeprefix('tokens/response_').removeprefix('loss/').removeprefix('tools/failed_')
    measured = [row for row in rows if name in row]
    few = measured[:: len(measured) // _MOST_POINTS + 1]
    draw = _draw_evaluation if name.startswith('eval/') else _draw_noisy
    lines += draw(panel, few, name, label, color)
  panel.yaxis.set_major_formatter(lambda y, _: f'{100 * y:g} %' if shares else f'{y:.4g}')
  if len(lines) > 1:
    style.legend(panel, size=7.5, handles=lines)
  last = _finite(*_series(rows, names[0]))[1][-1]
  number = percent(last) if shares else f'{last:.4g}'
  how = {'fontsize': 10.5, 'fontweight': 'bold', 'color': style.TEXT, 'va': 'top', 'parse_math': False}
  figure.text(0.015, 0.985, f'{title}: {number}' if len(names) == 1 else title, **how)
  return style.image(figure, 'svg')


def _with_headline(rows: Rows, headline: str) -> Rows:
  """The rows with the headline, and what belongs to it, under the name of what it is drawn as."""
  drawn_as = ACCURACY if headline.endswith('/accuracy') else SCORE
  own = {f'{headline}{end}': f'{drawn_as}{end}' for end in ('', '.min', '.max', '.nan')}
  return [{own.get(name, name): value for name, value in row.items()} for row in rows]


def _write_heading(figure, title: str, rows: Rows, headline: str, places: tuple) -> None:
  """The title, and below it what came out."""
  drawn_as = ACCURACY if _has(rows, ACCURACY) else SCORE
  number = percent if drawn_as == ACCURACY else lambda x: f'{x:.1f}'
  (_, before, after), steps, values = places, *_finite(*_series(rows, drawn_as))
  known = [number(x) for x in (before, after) if x is not None and np.isfinite(x)]
  facts = [f'{called(headline)} {" → ".join(known)}'] if known else []
  facts += [f'{rows[-1]["step"]:,} train steps'] if rows else []
  if len(values) and drawn_as == ACCURACY and values.max() > values[-1]:
    facts += [f'best {percent(values.max())} at step {steps[values.argmax()]:,}']
  how = {'x': 0.075, 'ha': 'left', 'va': 'top', 'parse_math': False}
  size = min(18, 1200 / max(len(title), 1))  # points; a long title has to fit the width
  figure.text(y=0.975, s=title, fontsize=size, fontweight='bold', color=style.TEXT, **how)
  figure.text(y=0.922, s='  ·  '.join(facts), fontsize=12, color=style.FAINT, **how)


def _prepare(panel, rows: Rows, *, named: bool, size: float = 11) -> None:
  """Axes with the stages shaded, and their names on top of the first panel."""
  style.axes(panel, size=size)
  if not rows:
    return
  first, last = rows[0]['step'], rows[-1]['step']
  room = max(last - first, 1)
  left, right = first - 0.01 * room, last + 0.1 * room  # room for the last value's label
  panel.set_xlim(left, right)
  edges = _stage_edges(rows)
  for i, (stage, start, end) in enumerate(edges):
    start, end = (left if i == 0 else start), (right if i == len(edges) - 1 else end)
    panel.axvspan(start, end, color=style.STAGES[i % 2], linewidth=0, zorder=0)
    if named and end - start > (len(stage) + 2) * 0.0095 * (right - left):  # the name fits
      label = {'transform': panel.get_xaxis_transform(), 'va': 'bottom', 'parse_math': False}
      panel.text(start, 1.012, f' {stage}', fontsize=12, color=style.FAINT, **label)


def _draw_score(panel, rows: Rows, *, begin: int) -> list:
  """Accuracy on the left axis, above the reward on the right one; returns the legend's lines."""
  if not _has(rows, ACCURACY):
    style.values_axis(panel, 'training reward', style.ORANGE)
    return _draw_noisy(panel, rows, REWARD, 'training reward', style.ORANGE)
  lines = []
  if _has(rows, REWARD):
    back, panel = panel, panel.twinx()
    lines = _draw_noisy(back, rows, REWARD, 'training reward', style.ORANGE)
    style.values_axis(back, 'training reward', style.ORANGE, right=True)
    panel.spines[:].set_visible(False)
  steps, values = _finite(*_series(rows, ACCURACY))
  top = _draw_accuracy(panel, rows, steps, 100 * values, begin)
  panel.set_ylim(-0.03 * top, 1.05 * top)
  panel.yaxis.set_major_formatter(lambda y, _: f'{y:g} %')
  style.values_axis(panel, 'held-out accuracy', style.BLUE)
  if lines and _lies_within(rows, REWARD, top / 100):  # one scale on both sides: 1.0 lies where 100 % does
    back.set_ylim(*(y / 100 for y in panel.get_ylim()))
  return [panel.lines[0], *lines]


def _draw_accuracy(panel, rows: Rows, steps: np.ndarray, percents: np.ndarray, begin: int) -> float:
  """The accuracy with its last value, and that at the step `begin`; returns where the axis should end."""
  scaled = [{name: 100 * x if name.startswith(ACCURACY) else x for name, x in row.items()} for row in rows]
  _draw_evaluation(panel, scaled, ACCURACY, 'held-out accuracy', style.BLUE, width=2.8)
  text = {'color': style.BLUE, 'textcoords': 'offset points'}
  write = lambda i, **where: panel.annotate(
      f'{percents[i]:.1f} %', (steps[i], percents[i]), **text, **where
  )
  write(-1, xytext=(10, 0), va='center', fontsize=14, fontweight='bold')
  if begin in steps[:-1]:
    write(int(np.flatnonzero(steps == begin)[0]), xytext=(0, 9), va='bottom', fontsize=11)
  high = _band(scaled, ACCURACY)[2]
  peak = max([*percents, *high[np.isfinite(high)]])
  # A task that stays hard is not drawn as a flat line at the bottom of 0..100 %.
  return next((top for top in (5.0, 10.0, 20.0, 50.0) if top >= 1.1 * peak), 100.0)


def _draw_evaluation(panel, rows: Rows, name: str, label: str, color: str, *, width: float = 1.5) -> list:
  """Evaluations as they are, over the range of a population's members."""
  band_steps, low, high = _band(rows, name)
  if len(band_steps):
    style.band(panel, band_steps, low, high, color)
    label += ', median and range of members'
  steps, values = _finite(*_series(rows, name))
  size = 2.5 * width if len(steps) <= 60 else width
  return panel.plot(steps, values, '-o', label=label, color=color, linewidth=width, markersize=size)


def _draw_return(panel, rows: Rows, *, axis: str) -> list:
  """What evaluation episodes earn, over what those of the training earn."""
  style.values_axis(panel, axis, style.BLUE)
  lines = _draw_noisy(panel, rows, TRAINING_RETURN, 'in training', style.ORANGE)
  line = _draw_evaluation(panel, rows, SCORE, 'evaluation', style.BLUE, width=2.8)
  steps, values = _finite(*_series(rows, SCORE))
  panel.annotate(
      f'{values[-1]:.1f}', (steps[-1], values[-1]), color=style.BLUE, textcoords='offset points',
      xytext=(10, 0), va='center', fontsize=14, fontweight='bold',
  )
  return [*line, *lines]


def _draw_loss(panel, rows: Rows) -> list:
  style.values_axis(panel, 'training loss', style.GREY)
  return _draw_noisy(panel, rows, LOSS, 'training loss', style.GREY)


def _draw_noisy(panel, rows: Rows, name: str, label: str, color: str) -> list:
  """A thin smoothed line over the faint raw one, or over the range of a population; one per stage."""
  line = None
  for _, group in itertools.groupby(rows, key=lambda row: row['stage']):
    stage_rows = list(group)
    if not _has(stage_rows, name):
      continue
    steps, values = _series(stage_rows, name)
    band_steps, low, high = _band(stage_rows, name)
    if len(band_steps):
      style.band(panel, band_steps, style.smooth(low), style.smooth(high), color)
    else:
      panel.plot(steps, values, color=color, linewidth=0.9, alpha=0.3)
    marker = 'o' if len(steps) == 1 else ''  # a line of one point shows nothing
    how = {'color': color, 'linewidth': 1.5, 'alpha': 0.9, 'marker': marker}
    (line,) = panel.plot(steps, style.smooth(values), label=label, **how)
  return [] if line is None else [line]


def _stage_edges(rows: Rows) -> list[tuple[str, float, float]]:
  """(name, start, end) of each stage; it starts where the one before it ends."""
  groups = [(stage, list(group)) for stage, group in itertools.groupby(rows, key=lambda r: r['stage'])]
  starts = [groups[0][1][0]['step']] + [group[-1]['step'] for _, group in groups]
  return [(stage, start, end) for (stage, _), start, end in zip(groups, starts, starts[1:], strict=False)]


def _series(rows: Rows, name: str) -> tuple[np.ndarray, np.ndarray]:
  """Steps and values of the rows that hold the metric; what is not finite is NaN."""
  points = [(row['step'], row[name]) for row in rows if name in row]
  steps, values = np.array(points, np.float64).reshape(-1, 2).T
  return steps.astype(np.int64), np.where(np.isfinite(values), values, np.nan)


def _band(rows: Rows, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Steps, lowest and highest value over a population; empty where there is none."""
  members = [row for row in rows if f'{name}.min' in row and f'{name}.max' in row]
  steps, low = _series(members, f'{name}.min')
  return steps, low, _series(members, f'{name}.max')[1]


def _finite(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  keep = np.isfinite(values)
  return steps[keep], values[keep]


def _has(rows: Rows, name: str) -> bool:
  return bool(np.isfinite(_series(rows, name)[1]).any())


def _lies_within(rows: Rows, name: str, top: float) -> bool:
  """Whether the metric, with its range over a population, stays in [0, top]."""
  values = np.concatenate([_series(rows, x)[1] for x in (name, f'{name}.min', f'{name}.max')])
  return np.nanmin(values) >= 0 and np.nanmax(values) <= top
