"""Rows of data files, each with the place it came from, so that a bad one can be pointed at.

A row is a JSON object. What is wrong with a row is a `Fault`; whether it stops everything or only leaves the
row out is decided here (`Rows.sift`), once, for faults of the file and for those that are found later.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import dataclasses
import gzip
import json
from pathlib import Path
import re
from typing import Any, NamedTuple
import zlib

from rlx.data.tokenizer import INSTALL
from rlx.errors import some

_SUFFIXES = ('.jsonl', '.jsonl.gz', '.json', '.parquet')
_HUB_ID = re.compile(r'(?P<name>[\w.-]+/[\w.-]+)(/(?P<config>[\w.-]+))?:(?P<split>.+)')
_BLANK = object()  # an empty line

Row = Mapping[str, Any]


class Fault(NamedTuple):
  """What is wrong with a row.

  Attributes:
    reason: in a few words that are the same for all such rows; they are counted by it.
    remedy: the value, the limit, what to do.
  """

  reason: str
  remedy: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
  """The rows of a file that can be used.

  Attributes:
    path: of the file, or the name of the data set.
    rows: in the order of the file.
    places: where each stood, such as 'line 3'.
    strict: a fault raises; otherwise its row is left out.
    most: the largest share of rows that may be left out.
    skipped: how many rows were left out, by reason.
    faults: of the rows that were left out, where each stood and what was wrong.
  """

  path: str
  rows: Sequence[Row]
  places: Sequence[str]
  strict: bool
  skipped: Mapping[str, int]
  most: float = 1.0
  faults: tuple[str, ...] = ()

  def sift(self, results: Sequence[Any]) -> tuple['Rows', list[Any]]:
    """The rows without a fault, and their results.

    Args:
      results: for each row what was made of it, or its `Fault`.
    Raises:
      ValueError: a row has a fault and `strict` is set, more are left out than may be, or no row is left.
    """
    bad = [(place, x) for place, x in zip(self.places, results, strict=True) if isinstance(x, Fault)]
    if bad and (self.strict or len(bad) == len(results)):
      place, (reason, remedy) = bad[0]
      none_left = f'none of the last {len(bad)} rows can be used; ' if not self.strict else ''
      advice = "; malformed='skip' leaves such rows out" if self.strict else ''
      raise ValueError(f'{self.path}, {none_left}{place}: {reason} ({remedy}{advice})')
    if not results:
      raise ValueError(f'{self.path} has no rows; give it some')
    faults = (*self.faults, *(f'{place}: {fault.reason}' for place, fault in bad))
    num_rows = len(self.faults) + len(results)
    if len(faults) > self.most * num_rows:
      raise ValueError(
          f'{self.path}: {len(faults)} of {num_rows} rows cannot be used, more than the share '
          f'malformed={self.most:g} ({some(faults, 3)}); mend them, or raise it'
      )
    kept = [i for i, result in enumerate(results) if not isinstance(result, Fault)]
    rows = dataclasses.replace(
        self,
        rows=[self.rows[i] for i in kept],
        places=[self.places[i] for i in kept],
        skipped=collections.Counter(self.skipped) + collections.Counter(fault.reason for _, fault in bad),
        faults=faults,
    )
    return rows, [results[i] for i in kept]

  def report(self) -> str:
    """One line on what was left out, or nothing."""
    if not self.skipped:
      return ''
    left_out = sum(self.skipped.values())
    counts = ', '.join(f'{count} x {reason}' for reason, count in sorted(self.skipped.items()))
    return (
        f'{self.path}: {left_out} of {left_out + len(self.rows)} rows left out ({counts}): '
        f'{some(self.faults, 5)}'
    )


def read_rows(path: str, *, malformed: str | float) -> Rows:
  """The rows of a data file or of a data set of the Hugging Face Hub.

  Args:
    path: ends in `.jsonl`, `.jsonl.gz` or `.json` (a list of objects), or, with the package `datasets`, in
      `.parquet`; or it is a hub id, `owner/name:split` or `owner/name/config:split`.
    malformed: 'strict' raises at the first bad row, 'skip' leaves it out and counts it, a number is the
      largest share of rows that is left out.
  Raises:
    ValueError: there is no such file, it cannot be read, it has no rows, or a row is bad.
  """
  if path.endswith(_SUFFIXES):
    if not Path(path).is_file():
      raise ValueError(f'{path}: no such file (the working directory is {Path.cwd()})')
    unit, values = ('line', _lines(path)) if path.endswith(('.jsonl', '.jsonl.gz')) else ('row', _whole(path))
  elif match := _HUB_ID.fullmatch(path):
    unit, values = 'row', _from_hub(path, **match.groupdict())
  else:
    raise ValueError(f'{path!r} ends in none of {", ".join(_SUFFIXES)} and is no hub id, owner/name:split')
  return rows_of(path, values, malformed=malformed, unit=unit)


def rows_of(path: str, values: Iterable[Any], *, malformed: str | float, unit: str = 'row') -> Rows:
  """Rows that are there already.

  Args:
    path: what they are called in messages.
    values: mappings; what else is among them is a fault.
    malformed: as for `read_rows`.
    unit: what each of them is, in messages.
  Raises:
    ValueError: there are none, or one is bad.
  """
  most = {'strict': 0.0, 'skip': 1.0}.get(malformed, malformed)
  if not isinstance(most, int | float) or not 0 <= most <= 1:
    raise ValueError(f"malformed={malformed!r} is neither 'strict' nor 'skip' nor a share of rows, 0 to 1")
  numbered = [(f'{unit} {i}', value) for i, value in enumerate(values, start=1) if value is not _BLANK]
  places, values = [place for place, _ in numbered], [value for _, value in numbered]
  strict = malformed == 'strict'
  rows = Rows(
      path=path, rows=values, places=places, strict=strict, skipped={}, most=1.0 if strict else most
  )
  return rows.sift([checked(value) for value in values])[0]


def checked(value: Any) -> Row | Fault:
  """A row, or what is wrong with the value."""
  if isinstance(value, Mapping | Fault):
    return value
  return Fault('not an object', f'{str(value)[:40]!r} is {type(value).__name__}; a row names its columns')


def parse(text: bytes) -> Any:
  """The value of a JSON text; a `Fault` where it is none."""
  if not text.strip():
    return _BLANK
  try:
    return json.loads(text)
  except (ValueError, RecursionError) as error:  # the latter where brackets are nested thousands deep
    return Fault('not JSON', f'{error}; mend or delete it')


def _lines(path: str) -> Iterator[Any]:
  """The value of each line, or what is wrong with it."""
  try:
    with (gzip.open if path.endswith('.gz') else open)(path, 'rb') as file:
      yield from map(parse, file)
  except (EOFError, zlib.error, gzip.BadGzipFile) as error:
    raise ValueError(f'{path} is damaged ({error}); fetch it again') from error


def _whole(path: str) -> Iterable[Any]:
  """The rows of a file that is read in one go."""
  if path.endswith('.parquet'):
    return _said_in_one_line(path, lambda datasets: datasets.Dataset.from_parquet(path, keep_in_memory=True))
  values = parse(Path(path).read_bytes())
  if isinstance(values, Fault):
    raise ValueError(f'{path}: {values.reason} ({values.remedy})')
  if not isinstance(values, list):
    raise ValueError(f'{path} holds no list of objects; write one object a line and call it .jsonl')
  return values


def _from_hub(path: str, *, name: str, config: str | None, split: str) -> Iterable[Any]:
  return _said_in_one_line(path, lambda datasets: datasets.load_dataset(name, config, split=split))


def _said_in_one_line(path: str, load: Callable[[Any], Iterable[Any]]) -> Iterable[Any]:
  """What `load` makes of the package `datasets`, which raises errors of many kinds and lines."""
  try:
    import datasets
  except ImportError as error:
    raise ValueError(f'{path} needs the package datasets: {INSTALL}, or write the rows as .jsonl') from error
  try:
    return load(datasets)
  except Exception as error:
    reason = (str(error).splitlines() or [''])[0]
    raise ValueError(f'{path} cannot be loaded ({type(error).__name__}: {reason})') from error
