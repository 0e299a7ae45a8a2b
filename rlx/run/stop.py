"""Stop rules of stages: a stage ends early when its metrics so far say so.

The `stop` section of a stage names one of these, or a function of yours that makes one: `rows -> bool`, where
a row has the metrics of a train step, with those of the evaluations that were made behind it. It is asked
behind each dispatch. Of a population the metrics are medians.
"""

from collections.abc import Callable, Mapping, Sequence

StopRule = Callable[[Sequence[Mapping[str, float]]], bool]


def reached(*, metric: str, at_least: float) -> StopRule:
  """Over at the measurement that is good enough.

  Args:
    metric: e.g. 'eval/held_out/accuracy'.
    at_least: the value that ends the stage.
  """
  return lambda rows: metric in rows[-1] and rows[-1][metric] >= at_least


def fallen(*, metric: str, at_most: float) -> StopRule:
  """Over at the measurement that has fallen so far: a warning, before what it warns of is seen.

  Args:
    metric: e.g. 'eval/held_out/entropy'.
    at_most: the value that ends the stage.

  >>> rule = fallen(metric='eval/held_out/entropy', at_most=2.0)
  >>> rule([{'eval/held_out/entropy': 2.5}]), rule([{'eval/held_out/entropy': 1.9}])
  (False, True)
  """
  return lambda rows: metric in rows[-1] and rows[-1][metric] <= at_most


def plateau(*, metric: str, patience: int, min_rise: float) -> StopRule:
  """Over when a metric has not risen for some of its measurements.

  Args:
    metric: e.g. 'eval/held_out/accuracy'.
    patience: measurements without a rise, at least 1.
    min_rise: what counts as a rise above the best so far.
  """
  if patience < 1:
    raise ValueError(f'patience={patience} measurements; at least 1')

  def over(rows: Sequence[Mapping[str, float]]) -> bool:
    best, since = float('-inf'), 0
    for value in (row[metric] for row in rows if metric in row):
      best, since = (value, 0) if value > best + min_rise else (best, since + 1)
    return metric in rows[-1] and since >= patience

  return over
