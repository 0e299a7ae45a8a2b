"""Reading an offline run without trying its policy: does it over- or underfit, and which checkpoint to keep?

Conservative Q-learning maximises Q at the actions of the data and minimises it elsewhere. So long as it
learns what is in the data, the mean Q of the data rises; when all that is left is to tell the data's own rows
apart, everything is pushed down, and this mean falls. Its peak is therefore where to stop, and a fall behind
the peak is overfitting (fewer parameters, or a regulariser, help). Underfitting shows in what the losses
cannot bring down: the TD error, and a gap between Q elsewhere and Q of the data that stays above 0. All this
is for rewards that are not negative, as the paper's are; with others a critic that begins at 0 begins at its
peak, so add a constant to them.

The functions read series from `metrics.jsonl` (`critic/data`, `loss/critic`, `loss/conservative`), on the
host. That a smoothed maximum is *the* peak, and the numbers at which a flag is raised, are ours.

Source: Kumar et al., 2021, https://arxiv.org/abs/2109.10813, sections 4.1 and 4.2 (metrics 4.1 and 4.2).
"""

from collections.abc import Sequence

import numpy as np


def best_checkpoint(data_values: Sequence[float], *, window: int) -> int:
  """Index of the checkpoint to keep: where the mean Q of the data is highest.

  Args:
    data_values: [T] mean Q at the rows of the data set, at each checkpoint.
    window: checkpoints over which it is averaged (to either side by half), odd.
  """
  return int(np.argmax(smoothed(data_values, window=window)))


def is_overfitting(data_values: Sequence[float], *, window: int, drop: float) -> bool:
  """Whether the mean Q of the data fell from its peak by more than a share of its rise.

  Args:
    data_values: [T] mean Q at the rows of the data set.
    window: as in `best_checkpoint`.
    drop: share of |peak - first| that a fall may have, e.g. 0.2.
  """
  curve = smoothed(data_values, window=window)
  peak = int(np.argmax(curve))
  rise = abs(curve[peak] - curve[0])
  return bool(peak < len(curve) - 1 and curve[peak] - curve[-1] > drop * max(rise, 1e-8))


def is_underfitting(
    td_errors: Sequence[float], gaps: Sequence[float], data_values: Sequence[float], *, window: int,
    error_max: float,
) -> bool:
  """Whether the critic cannot fit: a large TD error in the end, or actions beside the data valued above them.

  Args:
    td_errors: [T] mean squared TD error of a critic.
    gaps: [T] the regulariser, log ∫ exp Q - Q(data).
    data_values: [T] mean Q at the rows of the data set; their scale is what errors are measured by.
    window: as in `best_checkpoint`.
    error_max: root of the TD error, in units of the mean |Q|, that is let pass, e.g. 0.3.
  """
  last = lambda series: smoothed(series, window=window)[-1]
  scale = max(abs(last(data_values)), 1e-8)
  return bool(np.sqrt(last(td_errors)) > error_max * scale or last(gaps) > error_max * scale)


def smoothed(series: Sequence[float], *, window: int) -> np.ndarray:
  """[T] centred means over `window` entries, over fewer at the ends.

  Raises:
    ValueError: the window is even or not positive, or the series is empty.
  """
  series = np.asarray(series, np.float64)
  if window < 1 or window % 2 == 0 or not series.size:
    raise ValueError(f'window={window} over {series.size} entries: an odd number, and at least 1 entry')
  counts = np.convolve(np.ones_like(series), np.ones(window), 'full')
  sums = np.convolve(series, np.ones(window), 'full')
  half = window // 2
  return (sums / counts)[half : half + series.size]
