"""Pictures of states, in NumPy: simple shapes on a small canvas, for people who want to see what is done.

An environment's `draw` is `state -> [H, W, 3] uint8`, made of these. Places and sizes are in the world's own
units, with x to the right and y up; edges are smooth. `rlx play` puts the pictures of an episode into a GIF.
"""

from collections.abc import Callable, Sequence

import numpy as np

Color = tuple[int, int, int]
Point = Sequence[float]  # x, y

PAPER, INK, GREY, PALE = (250, 250, 248), (40, 44, 52), (150, 156, 166), (222, 225, 230)
BLUE, RED, GREEN, GOLD = (52, 101, 176), (196, 70, 58), (70, 148, 90), (222, 170, 52)
PIXELS = 160  # along the longer side


class Canvas:
  """A picture of a rectangle of the world."""

  def __init__(self, low: Point, high: Point, *, color: Color = PAPER):
    """An empty picture.

    Args:
      low: the corner with the smallest x and y.
      high: the one opposite.
      color: of the ground.
    """
    self._low = np.asarray(low, np.float64)
    size = np.asarray(high, np.float64) - self._low
    self._pixel = size.max() / PIXELS  # its side, in units of the world
    self._columns, self._rows = np.maximum(np.round(size / self._pixel), 1).astype(int)
    self._image = np.full((self._rows, self._columns, 3), color, np.float64)

  @property
  def image(self) -> np.ndarray:
    """[H, W, 3] uint8."""
    return np.round(self._image).astype(np.uint8)

  def disc(self, center: Point, radius: float, color: Color) -> None:
    """A filled circle."""
    distance = lambda x, y: np.hypot(x - center[0], y - center[1]) - radius
    self._paint([center], radius, distance, color)

  def line(self, start: Point, end: Point, width: float, color: Color) -> None:
    """A straight stroke with round ends."""
    (x0, y0), (x1, y1) = start, end
    dx, dy = x1 - x0, y1 - y0
    squared = max(dx * dx + dy * dy, 1e-12)

    def distance(x, y):
      share = np.clip(((x - x0) * dx + (y - y0) * dy) / squared, 0, 1)
      return np.hypot(x - x0 - share * dx, y - y0 - share * dy) - width / 2

    self._paint([start, end], width / 2, distance, color)

  def curve(self, points: Sequence[Point], width: float, color: Color) -> None:
    """Strokes from each point to the next."""
    for start, end in zip(points, points[1:], strict=False):
      self.line(start, end, width, color)

  def box(self, low: Point, high: Point, color: Color) -> None:
    """A filled rectangle between two corners, given in any order."""
    (x0, x1), (y0, y1) = sorted((low[0], high[0])), sorted((low[1], high[1]))
    distance = lambda x, y: np.maximum(np.maximum(x0 - x, x - x1), np.maximum(y0 - y, y - y1))
    self._paint([low, high], 0.0, distance, color)

  def _paint(
      self, points: Sequence[Point], margin: float, distance: Callable[..., np.ndarray], color: Color
  ) -> None:
    """Colors the pixels where a distance to the edge is negative, and half of those that the edge crosses."""
    points = np.asarray(points, np.float64)
    low = (points.min(axis=0) - margin - self._low) / self._pixel - 1
    high = (points.max(axis=0) + margin - self._low) / self._pixel + 1
    if not np.isfinite([low, high]).all():
      return
    left, bottom = np.clip(np.floor(low), 0, (self._columns, self._rows)).astype(int)
    right, top = np.clip(np.ceil(high), 0, (self._columns, self._rows)).astype(int)
    x = self._low[0] + (np.arange(left, right) + 0.5)[None, :] * self._pixel
    y = self._low[1] + (np.arange(bottom, top) + 0.5)[:, None] * self._pixel
    covered = np.clip(0.5 - distance(x, y) / self._pixel, 0, 1)[::-1, :, None]
    window = self._image[self._rows - top : self._rows - bottom, left:right]
    window += covered * (np.asarray(color, np.float64) - window)


def cells(colors: np.ndarray, dots: Sequence[tuple[Point, Color]] = ()) -> np.ndarray:
  """[H, W, 3] uint8: a picture of square cells, with a dot in some.

  Args:
    colors: [rows, columns, 3] from 0 to 255, the first row at the top.
    dots: `((row, column), color)`.
  """
  rows, columns = colors.shape[:2]
  canvas = Canvas((0, 0), (columns, rows))
  for row in range(rows):
    for column in range(columns):
      x, y = column, rows - 1 - row
      canvas.box((x + 0.03, y + 0.03), (x + 0.97, y + 0.97), colors[row, column])
  for (row, column), color in dots:
    canvas.disc((column + 0.5, rows - 0.5 - row), 0.32, color)
  return canvas.image


def bars(
    values: Sequence[float], *, targets: Sequence[float] = (), colors: Sequence[Color] = (BLUE,)
) -> np.ndarray:
  """[H, W, 3] uint8: numbers in [-1, 1] as bars from the middle, with a stroke where each is wanted.

  Args:
    values: one a bar.
    targets: of the first bars.
    colors: of the bars, taken in turn.
  """
  canvas = Canvas((0, -1.05), (max(len(values), 2), 1.05))
  for i, value in enumerate(values):
    canvas.box((i + 0.2, 0), (i + 0.8, float(np.clip(value, -1, 1))), colors[i % len(colors)])
  for i, target in enumerate(targets):
    canvas.line((i + 0.1, target), (i + 0.9, target), 0.03, RED)
  canvas.line((0, 0), (len(values), 0), 0.015, GREY)
  return canvas.image


def shaded(share: float, dark: Color, bright: Color) -> np.ndarray:
  """[3] the color a share of the way from one to the other."""
  return np.asarray(dark) + float(share) * (np.asarray(bright, np.float64) - np.asarray(dark))
