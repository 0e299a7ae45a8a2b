"""What a run looks like: `curve.png` and a `report.html` that needs no other file.

`write_curve` draws the rows of `metrics.jsonl`; `write_report` puts the curve, the headline numbers, what
the model wrote before and after, and what it takes to run it again, on one page. Matplotlib is imported
when the first curve is drawn, and without pyplot: no window, no global state.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
import functools
import html
import io
import itertools
import math
import pathlib
from typing import Any

import numpy as np

from rlx.run.writers import Path, format_seconds, read_metrics, write_atomically

REWARD, LOSS, TRAINING_RETURN = 'reward/mean', 'loss/total', 'episode/return'
ACCURACY, SCORE = 'accuracy', 'score'  # what the headline of a run is drawn as: a share, or any other number
_CALLED = {'accuracy': 'held-out accuracy', 'return': 'return of an episode', 'nll': 'held-out loss'}

_ACCURACY_COLOR, _REWARD_COLOR, _LOSS_COLOR = '#1f4e9e', '#c8701a', '#5f6b7a'
_STAGE_COLORS = ('#f3f6fb', '#e6edf7')
_TEXT_COLOR, _FAINT_COLOR = '#1d2430', '#667085'

Rows = list[dict[str, Any]]


def called(metric: str) -> str:
  """What people call a metric: of an evaluation its last name, of train steps the whole."""
  name = metric.rpartition('/')[2] if metric.startswith('eval/') else metric.replace('/', ' ')
  return _CALLED.get(name, name.replace('_', ' '))


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
  from matplotlib.figure import Figure

  rows = _with_headline(read_metrics(pathlib.Path(workdir) / 'metrics.jsonl'), headline)
  figure = Figure(figsize=(12, 7), dpi=100, facecolor='white')
  _write_heading(figure, title, rows, called(headline))
  with_reward = _has(rows, REWARD)
  draw = [_draw_score] if with_reward or _has(rows, ACCURACY) else []
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
    figure.legend(handles=list(lines), frameon=False, fontsize=12, labelcolor=_TEXT_COLOR, **where)
  else:
    panels[0].text(0.5, 0.5, 'no metrics yet', transform=panels[0].transAxes, ha='center', fontsize=14)
  panels[-1].set_xlabel('train step', fontsize=12, color=_FAINT_COLOR, loc='left')
  image = io.BytesIO()
  figure.savefig(image, format='png')
  path = pathlib.Path(workdir) / 'curve.png'
  write_atomically(path, image.getvalue())
  return path


def write_report(
    workdir: Path,
    *,
    title: str,
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    config: Mapping[str, Any],
    environment: Mapping[str, Any],
    summary: Mapping[str, Any],
    headline: str,
) -> pathlib.Path:
  """Writes `report.html`, with a freshly drawn curve inside.

  Args:
    workdir: holds `metrics.jsonl`.
    title: what ran.
    before: transcripts of the untrained model: `prompt`, `completion`, `solution` (what was expected) and
      `correct`.
    after: of the trained one. Those with the same prompt stand side by side.
    config: of the run; may be nested.
    environment: versions, hardware, ...; `command` is the exact command that runs this again.
    summary: headline numbers; a pair is (before, after), None is an unknown one. Names that end in
      `accuracy` or `fraction` are shown in %, those that end in `seconds` as a clock.
    headline: the metric that the run is read by.
  Returns:
    The path of `report.html`.
  """
  environment = dict(environment)
  command = environment.pop('command')
  curve = base64.b64encode(write_curve(workdir, title=title, headline=headline).read_bytes()).decode()
  tiles = ''.join(_tile(name, value) for name, value in summary.items())
  page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{_escape(title)}</h1>
<div class="tiles">{tiles}</div>
<img src="data:image/png;base64,{curve}" alt="held-out accuracy and training reward over train steps">
{_transcripts(before, after) if before or after else ''}
<h2>Run it again</h2>
<pre class="command">{_escape(command)}</pre>
<details open><summary>Environment</summary>{_table(environment)}</details>
<details><summary>Config</summary>{_table(config)}</details>
</body>
</html>
"""
  path = pathlib.Path(workdir) / 'report.html'
  # Half a surrogate pair, which a model may write, has no UTF-8; its number shows as a replacement sign.
  write_atomically(path, page.encode('utf-8', 'xmlcharrefreplace'))
  return path


# ---------------------------------------------------------------------------------------------- the curve


def _with_headline(rows: Rows, headline: str) -> Rows:
  """The rows with the headline, and what belongs to it, under the name of what it is drawn as."""
  drawn_as = ACCURACY if headline.endswith('/accuracy') else SCORE
  own = {f'{headline}{end}': f'{drawn_as}{end}' for end in ('', '.min', '.max', '.nan')}
  return [{own.get(name, name): value for name, value in row.items()} for row in rows]


def _write_heading(figure, title: str, rows: Rows, score: str) -> None:
  """The title, and below it what came out."""
  steps, values = _finite(*_series(rows, ACCURACY))
  facts = [f'held-out accuracy {_percent(values[-1])}'] if len(values) == 1 else []
  if len(values) > 1:
    facts = [f'held-out accuracy {_percent(values[0])} → {_percent(values[-1])}']
  facts += [f'{rows[-1]["step"]:,} train steps'] if rows else []
  if len(values) and values.max() > values[-1]:
    facts += [f'best {_percent(values.max())} at step {steps[values.argmax()]:,}']
  style = {'x': 0.075, 'ha': 'left', 'va': 'top', 'parse_math': False}
  earned = _finite(*_series(rows, SCORE))[1]
  facts += [f'{score} {earned[0]:.1f} → {earned[-1]:.1f}'] if len(earned) else []
  size = min(18, 1200 / max(len(title), 1))  # points; a long title has to fit the width
  figure.text(y=0.975, s=title, fontsize=size, fontweight='bold', color=_TEXT_COLOR, **style)
  figure.text(y=0.922, s='  ·  '.join(facts), fontsize=12, color=_FAINT_COLOR, **style)


def _prepare(panel, rows: Rows, *, named: bool) -> None:
  """Axes with the stages shaded, and their names on top of the first panel."""
  from matplotlib.ticker import MaxNLocator

  panel.spines[['top', 'right', 'left']].set_visible(False)
  panel.spines['bottom'].set_color(_FAINT_COLOR)
  panel.tick_params(labelsize=11, length=0, colors=_FAINT_COLOR)
  panel.xaxis.set_major_locator(MaxNLocator(nbins=10, steps=[1, 2, 2.5, 5, 10], integer=True, min_n_ticks=1))
  panel.xaxis.set_major_formatter(lambda x, _: f'{x:,.0f}')
  if not rows:
    return
  first, last = rows[0]['step'], rows[-1]['step']
  room = max(last - first, 1)
  left, right = first - 0.01 * room, last + 0.1 * room  # room for the last value's label
  panel.set_xlim(left, right)
  edges = _stage_edges(rows)
  for i, (stage, start, end) in enumerate(edges):
    start, end = (left if i == 0 else start), (right if i == len(edges) - 1 else end)
    panel.axvspan(start, end, color=_STAGE_COLORS[i % 2], linewidth=0, zorder=0)
    if named and end - start > (len(stage) + 2) * 0.0095 * (right - left):  # the name fits
      label = {'transform': panel.get_xaxis_transform(), 'va': 'bottom', 'parse_math': False}
      panel.text(start, 1.012, f' {stage}', fontsize=12, color=_FAINT_COLOR, **label)


def _draw_score(panel, rows: Rows) -> list:
  """Accuracy on the left axis, above the reward on the right one; returns the legend's lines."""
  if not _has(rows, ACCURACY):
    _style_values(panel, 'training reward', _REWARD_COLOR)
    return _draw_noisy(panel, rows, REWARD, 'training reward', _REWARD_COLOR)
  lines = []
  if _has(rows, REWARD):
    back, panel = panel, panel.twinx()
    lines = _draw_noisy(back, rows, REWARD, 'training reward', _REWARD_COLOR)
    _style_values(back, 'training reward', _REWARD_COLOR, right=True)
    panel.spines[:].set_visible(False)
  steps, values = _finite(*_series(rows, ACCURACY))
  top = _draw_accuracy(panel, rows, steps, 100 * values)
  panel.set_ylim(-0.03 * top, 1.05 * top)
  panel.yaxis.set_major_formatter(lambda y, _: f'{y:g} %')
  _style_values(panel, 'held-out accuracy', _ACCURACY_COLOR)
  if lines and _lies_within(rows, REWARD, top / 100):  # one scale on both sides: 1.0 lies where 100 % does
    back.set_ylim(*(y / 100 for y in panel.get_ylim()))
  return [panel.lines[0], *lines]


def _draw_accuracy(panel, rows: Rows, steps: np.ndarray, percents: np.ndarray) -> float:
  """The accuracy with its first and last value written out; returns where the axis should end."""
  band_steps, low, high = _band(rows, ACCURACY)
  label = 'held-out accuracy'
  if len(band_steps):
    panel.fill_between(band_steps, 100 * low, 100 * high, color=_ACCURACY_COLOR, alpha=0.16, linewidth=0)
    label += ', median and range of members'
  style = {'color': _ACCURACY_COLOR, 'linewidth': 2.8, 'markersize': 7 if len(steps) <= 60 else 3}
  panel.plot(steps, percents, '-o', label=label, **style)
  text = {'color': _ACCURACY_COLOR, 'textcoords': 'offset points'}
  write = lambda i, **how: panel.annotate(f'{percents[i]:.1f} %', (steps[i], percents[i]), **text, **how)
  write(-1, xytext=(10, 0), va='center', fontsize=14, fontweight='bold')
  if len(steps) > 1:
    write(0, xytext=(0, 9), va='bottom', fontsize=11)
  peak = max([*percents, *(100 * high[np.isfinite(high)])])
  # A task that stays hard is not drawn as a flat line at the bottom of 0..100 %.
  return next((top for top in (5.0, 10.0, 20.0, 50.0) if top >= 1.1 * peak), 100.0)


def _draw_return(panel, rows: Rows, *, axis: str) -> list:
  """What evaluation episodes earn, over what those of the training earn."""
  _style_values(panel, axis, _ACCURACY_COLOR)
  lines = _draw_noisy(panel, rows, TRAINING_RETURN, 'in training', _REWARD_COLOR)
  band_steps, low, high = _band(rows, SCORE)
  label = 'evaluation'
  if len(band_steps):
    panel.fill_between(band_steps, low, high, color=_ACCURACY_COLOR, alpha=0.16, linewidth=0)
    label += ', median and range of members'
  steps, values = _finite(*_series(rows, SCORE))
  style = {'color': _ACCURACY_COLOR, 'linewidth': 2.8, 'markersize': 7 if len(steps) <= 60 else 3}
  line = panel.plot(steps, values, '-o', label=label, **style)
  panel.annotate(
      f'{values[-1]:.1f}', (steps[-1], values[-1]), color=_ACCURACY_COLOR, textcoords='offset points',
      xytext=(10, 0), va='center', fontsize=14, fontweight='bold',
  )
  return [*line, *lines]


def _draw_loss(panel, rows: Rows) -> list:
  _style_values(panel, 'training loss', _LOSS_COLOR)
  return _draw_noisy(panel, rows, LOSS, 'training loss', _LOSS_COLOR)


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
      panel.fill_between(band_steps, _smooth(low), _smooth(high), color=color, alpha=0.16, linewidth=0)
    else:
      panel.plot(steps, values, color=color, linewidth=0.9, alpha=0.3)
    marker = 'o' if len(steps) == 1 else ''  # a line of one point shows nothing
    style = {'color': color, 'linewidth': 1.5, 'alpha': 0.9, 'marker': marker}
    (line,) = panel.plot(steps, _smooth(values), label=label, **style)
  return [] if line is None else [line]


def _style_values(panel, label: str, color: str, *, right: bool = False) -> None:
  """A value axis on its side, in the color of its line; only the left one draws the grid."""
  side = 'right' if right else 'left'
  panel.yaxis.set_label_position(side)
  panel.yaxis.set_ticks_position(side)
  panel.tick_params(axis='y', labelsize=11, length=0, colors=color)
  panel.set_ylabel(label, fontsize=12, color=color)
  if not right:
    panel.grid(axis='y', color='#c3ccd9', linewidth=0.6, alpha=0.7)
    panel.set_axisbelow(True)


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


def _smooth(values: np.ndarray) -> np.ndarray:
  """The mean of the finite values at most a sixtieth of the length away; NaN where there is none."""
  radius = len(values) // 60
  places = np.arange(len(values))
  low, high = np.maximum(places - radius, 0), np.minimum(places + radius + 1, len(values))
  running = lambda x: np.concatenate([[0.0], np.cumsum(x)])
  totals, counts = running(np.nan_to_num(values, nan=0.0)), running(np.isfinite(values))
  counts = counts[high] - counts[low]
  return np.where(counts > 0, (totals[high] - totals[low]) / np.maximum(counts, 1), np.nan)


# --------------------------------------------------------------------------------------------- the report

# No script and no address is ever needed; should a completion slip past the escaping, nothing loads.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

_STYLE = """
:root { color-scheme: light dark; --text: #1d2430; --faint: #667085; --line: #d8dee8; --page: #ffffff;
  --card: #f5f7fb; --right: #12713a; --wrong: #b42318; --accent: #1f4e9e }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ef; --faint: #9aa4b5; --line: #343b48;
  --page: #14171d; --card: #1d222b; --right: #5fd08f; --wrong: #ff8f85; --accent: #8fb4f5 } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
  max-width: 1200px; margin: 2rem auto; padding: 0 1.25rem }
h1 { font-size: 1.7rem; margin: 0 0 1rem } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem }
img { width: 100%; height: auto; border: 1px solid var(--line); border-radius: 10px; background: #fff }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin-bottom: 1.2rem }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .6rem 1rem }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums }
.tile span, p, th, .mark { color: var(--faint); font-size: .85rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem; border-bottom: 1px solid var(--line) }
pre { font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; margin: 0;
  max-height: 22em; overflow-y: auto }
.command { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .8rem 1rem }
.mark { font-weight: 600 } .right { color: var(--right) } .wrong { color: var(--wrong) }
.after b { color: var(--accent) } details { margin-top: 1rem } summary { cursor: pointer }
.settings { width: auto } .settings th { font: 13px ui-monospace, monospace }
"""


def _tile(name: str, value: Any) -> str:
  """A headline number: large, with its name below."""
  label = _escape(name.replace('/', ' ').replace('_', ' '))
  if not isinstance(value, tuple | list):
    return f'<div class="tile"><b>{_escape(_shown(name, value))}</b><span>{label}</span></div>'
  shown = ' → '.join(_shown(name, x) for x in value)
  return f'<div class="tile after"><b>{_escape(shown)}</b><span>{label}, before → after</span></div>'


def _shown(name: str, value: Any) -> str:
  """The value in the unit that its name ends with."""
  if value is None:
    return 'unknown'
  if isinstance(value, str | bool):
    return str(value)
  if not math.isfinite(value):
    return str(float(value))
  if name.endswith(('accuracy', 'fraction')):
    return _percent(value)
  if name.endswith('seconds') and value >= 1:
    return format_seconds(value)
  return f'{value:,.0f}' if float(value).is_integer() else f'{value:,.4g}'


def _transcripts(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> str:
  """A table with a row per prompt: what was asked, expected, and written before and after."""
  sides: dict[tuple[str, int], list] = {}
  for side, transcripts in enumerate((before, after)):
    seen: dict[str, int] = {}
    for transcript in transcripts:
      prompt = transcript['prompt']
      seen[prompt] = seen.get(prompt, 0) + 1  # the same prompt may be answered several times
      sides.setdefault((prompt, seen[prompt]), [None, None])[side] = transcript
  rows = []
  for (prompt, _), pair in sides.items():
    solution = next(t for t in pair if t is not None)['solution']
    cells = f'<td>{_pre(prompt)}</td><td>{_pre(solution)}</td>' + ''.join(map(_completion, pair))
    rows.append(f'<tr>{cells}</tr>')
  head = '<tr><th>prompt</th><th>expected</th><th>before</th><th>after</th></tr>'
  right = [f'{sum(bool(t["correct"]) for t in side)} of {len(side)}' for side in (before, after)]
  return f"""<h2>What the model writes</h2>
<p>Of those shown here, {right[0]} are right before training and {right[1]} after.</p>
<div class="scroll"><table>{head}{''.join(rows)}</table></div>"""


def _completion(transcript: Mapping[str, Any] | None) -> str:
  if transcript is None:
    return '<td></td>'
  mark = 'right' if transcript['correct'] else 'wrong'
  sign = '✓' if transcript['correct'] else '✗'
  return f'<td>{_pre(transcript["completion"])}<div class="mark {mark}">{sign} {mark}</div></td>'


def _table(tree: Mapping[str, Any]) -> str:
  """A nested mapping with one row a leaf, named as on the command line: `algorithm.clip_high`."""
  rows = (f'<tr><th>{_escape(name)}</th><td>{_pre(value)}</td></tr>' for name, value in _leaves(tree))
  return f'<div class="scroll"><table class="settings">{"".join(rows)}</table></div>'


def _leaves(tree: Mapping[str, Any], prefix: str = '') -> Iterable[tuple[str, Any]]:
  for name, value in tree.items():
    if isinstance(value, Mapping) and value:
      yield from _leaves(value, f'{prefix}{name}.')
    else:
      yield f'{prefix}{name}', value


def _pre(value: Any) -> str:
  # HTML drops a line break right after <pre>; this one is there to be dropped.
  return f'<pre>\n{_escape(value)}</pre>'


def _escape(value: Any) -> str:
  return html.escape(str(value), quote=True)


def _percent(fraction: float) -> str:
  return f'{100 * fraction:.1f} %'
