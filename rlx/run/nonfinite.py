"""Updates that were infinite or NaN and left out: how many in a row, what is said of them, when it is enough.

`optimizers.finite` skips and counts them, in `optimizer/nonfinite_updates`. One now and then is survived; a
run that makes nothing else is given up, with a state that shows it (`rlx replay`).
"""

from collections.abc import Mapping, Sequence

MAX_UPDATES = 20  # skipped in a row before the run is given up
_METRIC = 'optimizer/nonfinite_updates'


class NonFiniteError(RuntimeError):
  """Too many updates in a row were infinite or NaN; the message says where the state was dumped."""


def skipped(row: Mapping[str, float]) -> dict[str, float]:
  """Learner ('' where there is one) -> how many updates in a row were left out, the last one included."""
  return {name.removesuffix(_METRIC): x for name, x in row.items() if name.endswith(_METRIC) and x}


def first_said(rows: Sequence[Mapping[str, float]], first_step: int) -> str:
  """What is to be said of the first row in which an update was left out; '' where there is none."""
  for step, row in enumerate(rows, first_step):
    for learner in skipped(row):
      return f'step {step}: an update{_whose(learner)} was infinite or NaN and is left out; {_METRIC} counts'
  return ''


def worst(row: Mapping[str, float]) -> str:
  """How many were left out, of whom, where that is too many in a row; '' elsewhere."""
  counts = skipped(row)
  name = max(counts, key=counts.get, default='')
  if counts.get(name, 0) < MAX_UPDATES:
    return ''
  return f'{counts[name]:.0f} updates{_whose(name)} in a row were infinite or NaN and were skipped'


def _whose(learner: str) -> str:
  return f' of learner {learner[:-1]!r}' if learner else ''
