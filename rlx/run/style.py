"""How figures look: one palette, one kind of axes, one way to show seeds, for every figure that rlx draws.

Matplotlib is imported when the first figure is made, and without pyplot: no window, no global state.
"""

import io

import numpy as np

BLUE, ORANGE, GREY = '#1f4e9e', '#c8701a', '#5f6b7a'
COLORS = (BLUE, ORANGE, '#2f7d4f', '#8a3f8f', GREY, '#b03a3a')  # of lines, in this order
STAGES = ('#f3f6fb', '#e6edf7')  # behind them, by turns
TEXT, FAINT, GRID = '#1d2430', '#667085', '#c3ccd9'
BAND = 0.16  # opacity


def figure(width: float, height: float):
  """An empty figure, in inches of 100 pixels."""
  from matplotlib.figure import Figure

  return Figure(figsize=(width, height), dpi=100, facecolor='white')


def image(figure, kind: str = 'png') -> bytes:
  """The file of a figure, `png` or `svg`."""
  file = io.BytesIO()
  figure.savefig(file, format=kind, metadata={'Date': None} if kind == 'svg' else None)
  return file.getvalue()


def axes(panel, *, size: float = 11) -> None:
  """Axes without a box, steps as whole numbers; `size` of the numbers in points."""
  from matplotlib.ticker import MaxNLocator

  panel.spines[['top', 'right', 'left']].set_visible(False)
  panel.spines['bottom'].set_color(FAINT)
  panel.tick_params(labelsize=size, length=0, colors=FAINT)
  places = {'nbins': 10 if size > 9 else 4, 'steps': [1, 2, 2.5, 5, 10], 'integer': True, 'min_n_ticks': 1}
  panel.xaxis.set_major_locator(MaxNLocator(**places))
  panel.xaxis.set_major_formatter(lambda x, _: f'{x:,.0f}')


def values_axis(panel, label: str, color: str = FAINT, *, right: bool = False, size: float = 11) -> None:
  """A value axis on its side, in the color of its line; only the left one draws the grid."""
  side = 'right' if right else 'left'
  panel.yaxis.set_label_position(side)
  panel.yaxis.set_ticks_position(side)
  panel.tick_params(axis='y', labelsize=size, length=0, colors=color)
  panel.set_ylabel(label, fontsize=size + 1, color=color)
  if not right:
    panel.grid(axis='y', color=GRID, linewidth=0.6, alpha=0.7)
    panel.set_axisbelow(True)


def band(panel, x: np.ndarray, low: np.ndarray, high: np.ndarray, color: str) -> None:
  """What several seeds span: their range, or an interval; [points] each, NaN where there is none."""
  panel.fill_between(x, low, high, color=color, alpha=BAND, linewidth=0)


def legend(panel, *, size: float = 11, **where) -> None:
  """A legend without a frame."""
  panel.legend(frameon=False, fontsize=size, labelcolor=TEXT, **where)


def smooth(values: np.ndarray) -> np.ndarray:
  """The mean of the finite values at most a sixtieth of the length away; NaN where there is none."""
  radius = len(values) // 60
  places = np.arange(len(values))
  low, high = np.maximum(places - radius, 0), np.minimum(places + radius + 1, len(values))
  running = lambda x: np.concatenate([[0.0], np.cumsum(x)])
  totals, counts = running(np.nan_to_num(values, nan=0.0)), running(np.isfinite(values))
  counts = counts[high] - counts[low]
  return np.where(counts > 0, (totals[high] - totals[low]) / np.maximum(counts, 1), np.nan)
