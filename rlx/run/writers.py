"""Where the numbers of a run go: files that a resumed run continues byte for byte, and one live line.

A workdir keeps what must be equal in a resumed and in an uninterrupted run (`metrics.jsonl`, `samples/`)
apart from what cannot be (`timing.jsonl`: the wall clock); `members.jsonl` has what each member of a
population was evaluated at. `MetricsWriter` writes all of them and tells the trackers (`trackers.py`),
`read_metrics` reads the lines back, and `LiveLine` tells a person how far a run is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import json
import math
import os
import pathlib
import re
import sys
import time
from typing import Any, TextIO

import numpy as np

from rlx.errors import ConfigError
from rlx.files import write_atomically
from rlx.run.trackers import Samples, Writer

Path = str | os.PathLike[str]

_SAMPLES_NAME = re.compile(r'step_(\d+)\.jsonl')


class MetricsWriter:
  """Writes the rows of a run into its workdir; each step at most once, in increasing order.

  Call `flush` before the checkpoint of a step is saved: a run that is resumed from a checkpoint keeps the
  rows up to its step and never writes them again. Only one process of a run may hold a writer.
  """

  def __init__(
      self,
      workdir: Path,
      *,
      resume_step: int,
      trackers: Sequence[Writer] = (),
      config: Mapping[str, Any] | None = None,
      say: Callable[[str], None] = print,
  ):
    """Opens the files and drops what lies after `resume_step`, the torn end of a killed run included.

    Args:
      workdir: created if missing.
      resume_step: step of the checkpoint that the run goes on from; -1 starts afresh.
      trackers: told of whatever is written. One that fails is left out from there on.
      config: of the run, for the trackers.
      say: told of a tracker that fails, and of rows that are gone.
    Raises:
      ValueError: a line before `resume_step` is not a row, so the file cannot be continued.
      ConfigError: the package of a tracker is missing.
    """
    self._workdir = pathlib.Path(workdir)
    self._samples = self._workdir / 'samples'
    self._samples.mkdir(parents=True, exist_ok=True)
    self._trackers, self._say = list(trackers), say
    self._tell(lambda tracker: tracker.begin(self._workdir, config or {}, resume_step))
    _drop_later_samples(self._samples, resume_step)
    self._metrics = _RowFile(self._workdir / 'metrics.jsonl', resume_step)
    if 0 < resume_step != (last := self._metrics.last_step):
      found = f'ends at step {last}' if last >= 0 else 'is gone'
      where = f'the rows up to step {resume_step}, from where the run goes on, are missing'
      say(f'{self._workdir}/metrics.jsonl {found}: {where}')
    self._timing = _RowFile(self._workdir / 'timing.jsonl', resume_step)
    self._members = None  # only a population has any
    if (members := self._workdir / 'members.jsonl').exists():
      self._members = _RowFile(members, resume_step)

  def write(self, step: int, stage: str, metrics: Mapping[str, float]) -> None:
    """Adds the deterministic numbers of a step to `metrics.jsonl` and the trackers.

    A number that is exactly a float32 is written with the fewest digits that give this float32 back (0.1,
    not 0.10000000149011612). NaN and infinities, which JSON lacks, are the strings "nan", "inf", "-inf".

    Args:
      step: train steps taken since the run began, over all stages.
      stage: name of the stage, e.g. `grpo`.
      metrics: scalars by name; fetch them from the device first, all at once.
    Raises:
      ValueError: the step is not larger than the last one, or a metric is not one number.
    """
    self._metrics.append({'step': int(step), 'stage': stage}, metrics)
    self._tell(lambda tracker: tracker.write(int(step), metrics, ()))

  def write_members(self, step: int, stage: str, metrics: Mapping[str, np.ndarray]) -> None:
    """Adds the numbers of each member of a population [N] to `members.jsonl`; raises as `write` does."""
    if self._members is None:
      self._members = _RowFile(self._workdir / 'members.jsonl', -1)
    self._members.append({'step': int(step), 'stage': stage}, metrics, ndim=1)

  def write_timing(self, step: int, metrics: Mapping[str, float]) -> None:
    """Adds numbers that depend on the clock to `timing.jsonl` and the trackers; raises as `write` does."""
    self._timing.append({'step': int(step)}, metrics)
    self._tell(lambda tracker: tracker.write(int(step), metrics, ()))

  def write_samples(self, step: int, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes `samples/step_<step>.jsonl` at once: it is there whole or not at all.

    Args:
      step: as in `write`.
      rows: JSON-like mappings, in which NumPy scalars and arrays may stand for numbers and lists.
    """
    rows: Samples = [_plain(row) for row in rows]
    write_atomically(self._samples / f'step_{step:08d}.jsonl', _encode(''.join(map(_json_line, rows))))
    self._tell(lambda tracker: tracker.write(int(step), {}, rows))

  def flush(self) -> None:
    """Hands every row to the operating system: from here on, killing the process loses nothing."""
    for file in self._files():
      file.flush()

  def close(self) -> None:
    with contextlib.ExitStack() as stack:  # where one cannot be closed for want of room, the others are
      stack.callback(self._tell, lambda tracker: tracker.close())
      for file in self._files():
        stack.callback(file.close)

  def _files(self):
    return [f for f in (self._metrics, self._timing, self._members) if f is not None]

  def _tell(self, what: Callable[[Writer], None]) -> None:
    """Calls each tracker. A run must not die of a service that fails: its files have everything."""
    for tracker in tuple(self._trackers):
      try:
        what(tracker)
      except ConfigError:
        raise
      except Exception as error:  # of whatever kind: it is other people's program
        self._trackers.remove(tracker)
        with contextlib.suppress(Exception):
          tracker.close()
        why = f'{type(error).__name__}: {str(error).partition(chr(10))[0]}'
        self._say(f'{type(tracker).__name__} fails and is told nothing more: {why}')


class NoWriter:
  """What a process has in place of a `MetricsWriter` when another one writes."""

  def _nothing(self, *arguments: Any) -> None:
    del arguments

  write = write_members = write_timing = write_samples = flush = close = _nothing


def read_metrics(path: Path) -> list[dict[str, Any]]:
  """The rows of `metrics.jsonl`, `timing.jsonl` or `members.jsonl`; "nan", "inf" and "-inf" are floats again.

  The torn last line of a killed run, or of one that is writing right now, is left out.

  Raises:
    ValueError: another line is not a row.
  """

  def number(name, x):
    if isinstance(x, list):
      return [number(name, one) for one in x]
    return float(x) if isinstance(x, str) and name != 'stage' else x

  return [{name: number(name, x) for name, x in row.items()} for _, row in _whole_lines(path)]


def summarise_population(metrics: Mapping[str, np.ndarray]) -> dict[str, float]:
  """Median, smallest and largest value over the members of a population, as `x`, `x.min` and `x.max`.

  Members that are NaN are left out, so that one diverged run does not hide the others; `x.nan` counts
  them where there are any. Where all are NaN, so are the three numbers.

  Args:
    metrics: [N] arrays, one entry per member.
  """
  summary = {}
  for name, values in metrics.items():
    values = np.asarray(values, np.float32)
    if values.ndim != 1 or not len(values):
      raise ValueError(f'a population metric is an array [N]; {name!r} has shape {values.shape}')
    known = values[~np.isnan(values)]
    if len(known) < len(values):
      summary[f'{name}.nan'] = float(len(values) - len(known))
    known = known if len(known) else values
    summary |= {name: float(np.median(known))}
    summary |= {f'{name}.min': float(known.min()), f'{name}.max': float(known.max())}
  return summary


class LiveLine:
  """One line of progress that rewrites itself on a terminal; elsewhere plain lines, seldom.

  A run must not die of its progress display: once the stream is gone (a closed terminal), it is quiet.
  """

  def __init__(
      self,
      stream: TextIO | None = None,
      *,
      quiet: bool,
      clock: Callable[[], float] = time.monotonic,
  ):
    """Prints nothing yet.

    Args:
      stream: where to write; None is the standard error of the moment.
      quiet: True prints nothing at all, `say` included.
      clock: seconds, for tests.
    """
    self._stream = sys.stderr if stream is None else stream
    self._quiet = quiet
    self._clock = clock
    self._is_terminal = self._stream.isatty()
    self._seconds_between = 0.1 if self._is_terminal else 10.0
    self._last_time = -math.inf
    self._text = ''  # of the latest update
    self._shown = ''  # what stands on the terminal, or was printed last

  def update(
      self,
      *,
      stage: str,
      step: int,
      num_steps: int,
      reward: float | None,
      headline: tuple[str, float] | None,
      tokens_per_second: float | None,
      env_steps_per_second: float | None,
      seconds_left: float | None,
      then: Sequence[str] = (),
      force: bool = False,
  ) -> None:
    """Shows where the run is, unless the last update is too recent to be worth another.

    Args:
      reward: left out where it is no number, such as before the first episode has ended.
      headline: the metric that the run is read by, and its last value; an accuracy is a fraction.
      then: stages that come later and are not in `seconds_left`.
      force: show it in any case.
    """
    fields = [f'{stage}  {step:>{len(str(num_steps))}}/{num_steps}']
    fields += [f'reward {reward:.2f}'] if _is_finite(reward) else []
    fields += [] if headline is None else [_told(*headline)]
    speeds = {'tokens/s': tokens_per_second, 'env steps/s': env_steps_per_second}
    fields += [f'{format_count(x)} {unit}' for unit, x in speeds.items() if _is_finite(x) and x]
    if _is_finite(seconds_left):
      later = f' of {stage}, then {", ".join(then)}' if then else ''
      fields.append(f'{format_seconds(seconds_left)} left{later}')
    self._text = '  '.join(fields)
    if force or self._clock() - self._last_time >= self._seconds_between:
      self._show()

  def say(self, text: str) -> None:
    """Prints a whole line above the live one."""
    erase, redraw = ('\r\x1b[K', self._fitted(self._shown)) if self._is_terminal else ('', '')
    self._write(f'{erase}{text}\n{redraw}')

  def close(self) -> None:
    """Shows the latest update if it was held back, and leaves the terminal on a fresh line."""
    if self._text != self._shown:
      self._show()
    if self._is_terminal and self._shown:
      self._write('\n')
    self._text = self._shown = ''

  def _show(self) -> None:
    self._write(f'\r{self._fitted(self._text)}\x1b[K' if self._is_terminal else self._text + '\n')
    self._shown = self._text
    self._last_time = self._clock()

  def _fitted(self, text: str) -> str:
    try:
      columns = os.get_terminal_size(self._stream.fileno()).columns or 80  # some pseudo-terminals say 0
    except (OSError, ValueError):  # no file behind the stream, or not a terminal's
      columns = 80
    return text[: columns - 1]  # a full last column makes some terminals wrap

  def _write(self, text: str) -> None:
    if self._quiet:
      return
    try:
      self._stream.write(text)
      self._stream.flush()
    except OSError:
      self._quiet = True


def _told(metric: str, value: float) -> str:
  """A headline on the live line."""
  if metric.endswith('/accuracy'):
    return f'held-out {100 * value:.1f} %'
  return f'{metric.removeprefix("eval/")} {value:.4g}'


def format_count(x: float) -> str:
  """Three figures or fewer and a letter for the size: 950, 9.4k, 118k, 1.2M."""
  for size, letter in ((1e9, 'G'), (1e6, 'M'), (1e3, 'k')):
    if x >= 0.9995 * size:  # what rounds up to the size is written in it
      return f'{x / size:.1f}{letter}' if x < 9.95 * size else f'{x / size:.0f}{letter}'
  return f'{x:.0f}'


def format_seconds(seconds: float) -> str:
  """As a clock shows it: 0:34, 12:05, 1:02:03."""
  minutes, seconds = divmod(max(0, round(seconds)), 60)
  hours, minutes = divmod(minutes, 60)
  return f'{hours}:{minutes:02d}:{seconds:02d}' if hours else f'{minutes}:{seconds:02d}'


class _RowFile:
  """JSON lines whose steps increase, opened for going on after `resume_step`.

  Attributes:
    last_step: of the last row; -1 where there is none.
  """

  def __init__(self, path: pathlib.Path, resume_step: int):
    self._path = path
    self.last_step = _drop_later_lines(path, resume_step)
    self._file = path.open('ab')

  def append(self, head: dict[str, Any], metrics: Mapping[str, Any], *, ndim: int = 0) -> None:
    if head['step'] <= self.last_step:
      raise ValueError(
          f'step {head["step"]} comes after step {self.last_step} in {self._path}; '
          'each step is written once, with all its metrics, in increasing order'
      )
    for name, value in metrics.items():
      if name in ('step', 'stage') or np.ndim(value) != ndim:
        raise ValueError(
            f'metric {name!r} of shape {np.shape(value)} cannot be written: a metric is one number '
            '(in members.jsonl, one a member), not called step or stage; arrays over a population go '
            'through summarise_population'
        )
    plain = _number if ndim == 0 else lambda values: [_number(x) for x in values]
    row = {**head, **{name: plain(metrics[name]) for name in sorted(metrics)}}
    self._file.write(_encode(_json_line(row)))
    self.last_step = head['step']

  def flush(self) -> None:
    self._file.flush()

  def close(self) -> None:
    self._file.close()


def _drop_later_lines(path: pathlib.Path, resume_step: int) -> int:
  """Cuts the file after the last row of `resume_step` or before; returns the step of that row, or -1."""
  if not path.exists():
    return -1
  kept, last_step = [], -1
  for line, row in _whole_lines(path):
    if row['step'] > resume_step:
      break
    kept.append(line + b'\n')
    last_step = row['step']
  data = b''.join(kept)
  if data != path.read_bytes():
    write_atomically(path, data)
  return last_step


def _drop_later_samples(folder: pathlib.Path, resume_step: int) -> None:
  for path in folder.iterdir():
    match = _SAMPLES_NAME.fullmatch(path.name)
    if match and int(match[1]) > resume_step:
      path.unlink()


def _whole_lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
  """The lines of a file with their rows; a last line that is empty or torn is left out."""
  lines = pathlib.Path(path).read_bytes().split(b'\n')
  for number, line in enumerate(lines, start=1):
    try:
      row = json.loads(line)
    except ValueError as error:
      if number == len(lines):
        return
      raise ConfigError(f'{path}, line {number} is not a row ({error}); mend or delete it') from None
    yield line, row


def _json_line(row: Mapping[str, Any]) -> str:
  return json.dumps(row, ensure_ascii=False, allow_nan=False) + '\n'


def _encode(json_text: str) -> bytes:
  # Text that a model wrote may hold half a surrogate pair; \udc80 is how both Python and JSON escape it.
  return json_text.encode('utf-8', 'backslashreplace')


def _plain(value: Any) -> Any:
  """The value in the types that JSON knows."""
  if value is None or isinstance(value, str):
    return value
  if isinstance(value, bool | np.bool_):
    return bool(value)
  if isinstance(value, Mapping):
    return {str(name): _plain(x) for name, x in value.items()}
  if isinstance(value, list | tuple):
    return [_plain(x) for x in value]
  return [_plain(x) for x in value] if np.ndim(value) else _number(value)


def _number(value: Any) -> int | float | str:
  """The number as JSON will hold it: exact, in the fewest digits of its own precision."""
  if np.asarray(value).dtype.kind in 'biu':
    return int(value)
  x = float(value)
  if not math.isfinite(x):
    return str(x)
  if x.is_integer() and abs(x) < 2**53:
    return x  # counts stay exact: the shortest float32 form of 123456792 is 123456790
  with np.errstate(over='ignore'):
    single = np.float32(x)
  return float(str(single)) if float(single) == x else x  # single == x would round x first


def _is_finite(x: float | None) -> bool:
  return x is not None and math.isfinite(x)
