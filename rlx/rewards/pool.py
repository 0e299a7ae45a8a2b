"""Reward functions in Python, run in processes, so that none of them can hang or end a run.

A function has TRL's signature, `f(prompts, completions, completion_ids, **columns) -> list[float | None]`; it
may be `async`, and may ask for `log_extra(column, values)` and `log_metric(name, value)`. Without `**kwargs`
it gets the keywords that it names. None says that it does not apply to a row.

A `RewardPool` cuts the rows into calls and puts the answers together. What raises, hangs, dies or answers
with something that is no number is a *fault*: it is counted, said, and confined to the rows of its call,
which are not scored; it is never a 0.

But where what hangs is the *answer*, not the machine, a row that is left out would be better off than one
that is wrong, and a policy would learn to hang. A function that computes something of an answer alone (math,
code) says so by `function.stopped_value = 0.0`: a call that is stopped, by the time limit or because its
process died, is made again row by row, and a row that is stopped alone has this value. It is counted
(`stopped`) and said as well. Results do not depend on which worker runs what, or when; a function
that draws random numbers seeds them from its rows for that. What it prints goes nowhere.

Of a run in several processes each has a pool, which makes its share of the calls; all get all answers.

Workers import this module: no jax.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
import dataclasses
import inspect
import json
import math
import pickle
from typing import Any, NamedTuple

import numpy as np

from rlx.rewards.workers import Handler, Reply, Workers, describe

_ROWS = ('prompts', 'completions', 'completion_ids')
_LOGGERS = ('log_extra', 'log_metric')
_SAMPLE = ('prompt', 'completion', 'reward', 'advantage', 'seat', 'split')  # what samples always say
_STOPPED = ('timeout', 'died')  # by the time limit, or by itself
_MAX_MESSAGES = 5
_MAX_FLOAT32 = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RewardFunction:
  """One term of a reward.

  Attributes:
    name: in metrics: `rewards/<name>`.
    function: in TRL's signature, at the top level of a module that workers can import. The keeper of the
      workers imports this module once; `function.imports`, if it is there, names further modules, which the
      function imports only when it runs. `function.stopped_value`, if it is there, is the value of a row on
      which the function had to be stopped, alone.
    weight: of its values in the total.
    arguments: its hyper-parameters beside the columns, by keyword.
  """

  name: str
  function: Callable
  weight: float
  arguments: Mapping[str, Any]

  def __post_init__(self):
    if not callable(self.function):
      raise ValueError(f'reward function {self.name!r} is {self.function!r}, which cannot be called')
    if not math.isfinite(self.weight):
      raise ValueError(f'the weight of reward function {self.name!r} is {self.weight}; it is a finite number')
    taken = {*_ROWS, *_LOGGERS} & self.arguments.keys()
    unknown = set() if self._takes_all else self.arguments.keys() - self._parameters.keys()
    if taken or unknown:
      raise ValueError(
          f'reward function {self.name!r} gets arguments {sorted(taken | unknown)}, which it does not take '
          f'or which stand for rows; its parameters are {list(self._parameters)}'
      )

  def check_columns(self, columns: Iterable[str]) -> None:
    """Raises `ValueError` if the function needs what is no column, or if a column's name is taken."""
    columns = set(columns)
    for taken in (columns & {*_ROWS, *_LOGGERS}, columns & self.arguments.keys()):
      if taken:
        raise ValueError(
            f'columns {sorted(taken)} of the data have names of arguments of reward function {self.name!r}; '
            'rename the columns'
        )
    known = {*_ROWS, *_LOGGERS, *columns, *self.arguments}
    needed = [name for name, p in self._parameters.items() if p.default is p.empty and name not in known]
    if needed:
      raise ValueError(
          f'reward function {self.name!r} needs {needed}, but the data have the columns {sorted(columns)}; '
          'give the column this name, or the function an argument'
      )

  def accepts(self, name: str) -> bool:
    """Whether the function gets the keyword, if there is such a one."""
    return self._takes_all or name in self._parameters

  @property
  def _takes_all(self) -> bool:
    kinds = [p.kind for p in inspect.signature(self.function).parameters.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds

  @property
  def _parameters(self) -> dict[str, inspect.Parameter]:
    """The parameters that can be given by keyword."""
    parameters = inspect.signature(self.function).parameters
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: p for name, p in parameters.items() if p.kind in kinds}


class Scores(NamedTuple):
  """What reward functions said about N rows.

  Attributes:
    totals: [N] float32, the sum over functions of weight * value, without those that do not apply; NaN where
      the row is not scored.
    scored: [N] bool, True where at least one function gave a number and none failed.
    values: for each function [N] float32, NaN where it does not apply or failed.
    failed: for each function [N] bool, True where it failed.
    faults: kind -> number of values that it cost. The kinds are `raised`, `timeout`, `died`, `not_finite`
      (NaN, infinite, or beyond float32), `malformed` (no list, a list of another length, no number), and
      `stopped`, which costs none: the row has the function's `stopped_value`.
    messages: one line for each of the first few distinct faults.
    extra: `log_extra` columns, [N] with None where a row gave none.
    metrics: `log_metric` names -> mean of what was reported.
  """

  totals: np.ndarray
  scored: np.ndarray
  values: dict[str, np.ndarray]
  failed: dict[str, np.ndarray]
  faults: dict[str, int]
  messages: list[str]
  extra: dict[str, list]
  metrics: dict[str, float]


class Share(NamedTuple):
  """The part of the calls that is made here, of a run in several processes.

  Attributes:
    index: of this process.
    count: of all.
    gather: from what this process has to what each has, in their order; all call it.
  """

  index: int
  count: int
  gather: Callable[[list], list[list]]


ALONE = Share(index=0, count=1, gather=lambda answers: [answers])


class PendingScores:
  """Scores that are being made."""

  def __init__(
      self, functions: Sequence[RewardFunction], num_rows: int, calls: list['_Call'],
      again: Callable[['_Call', slice], '_Call'], share: Share,
  ):
    self._functions = functions
    self._num_rows = num_rows
    self._calls = calls
    self._again = again
    self._share = share

  def result(self) -> Scores:
    """Waits for the last call.

    Raises:
      RuntimeError: no worker can be started.
      CancelledError: the pool was closed.
    """
    answers, again = [], []
    for call in self._calls:
      answer = _read(call)
      if _stopped_value(call, answer) is None:
        answers.append((call, answer))
      else:
        again += [self._again(call, slice(row, row + 1)) for row in range(call.rows.start, call.rows.stop)]
    for call in again:
      answer = _read(call)
      value = _stopped_value(call, answer)
      answers.append((call, answer if value is None else _stopped(answer, value)))
    order = [function.name for function in self._functions]
    here = [(call.function.name, call.rows, answer) for call, answer in answers]
    everywhere = [one for part in self._share.gather(here) for one in part]
    everywhere.sort(key=lambda one: (order.index(one[0]), one[1].start))
    return _gather(self._functions, self._num_rows, everywhere)


class RewardPool:
  """Scores completions with Python functions, in processes. A context manager."""

  def __init__(
      self,
      functions: Sequence[RewardFunction],
      *,
      timeout_seconds: float,
      workers: int,
      rows_per_call: int,
      share: Share = ALONE,
  ):
    """Starts what is needed to start workers, and lets it import the functions.

    Args:
      functions: terms of the reward.
      timeout_seconds: for one call, from when a worker has it; then the worker is killed.
      workers: processes.
      rows_per_call: how many consecutive rows a function gets at once. 1 confines a fault to its row, and
        costs about a tenth of a millisecond a row; a function that compares rows needs all of them.
      share: of the calls; every process asks for the same rows.
    Raises:
      ValueError: a worker cannot import a function, or a number is out of range.
    """
    if not timeout_seconds > 0 or workers < 1 or rows_per_call < 1:
      raise ValueError(
          f'timeout_seconds={timeout_seconds}, workers={workers}, rows_per_call={rows_per_call}: '
          'need timeout_seconds > 0, workers >= 1 and rows_per_call >= 1'
      )
    names = [function.name for function in functions]
    if not names or len(set(names)) < len(names):
      raise ValueError(f'reward functions {names}: need at least one, and each with a name of its own')
    self._functions = tuple(functions)
    self._rows_per_call = rows_per_call
    self._share = share
    setup = [_pickle_function(function) for function in functions]
    self._workers = Workers(_prepare, setup, num_workers=workers, timeout_seconds=timeout_seconds)

  def check_columns(self, columns: Iterable[str]) -> None:
    """Raises `ValueError` if a function needs what is no column, or if a column's name is taken."""
    columns = list(columns)
    for function in self._functions:
      function.check_columns(columns)

  def score(
      self,
      prompts: list,
      completions: list,
      completion_ids: list[list[int]],
      columns: Mapping[str, list],
  ) -> Scores:
    """`submit`, and the wait for its result."""
    return self.submit(prompts, completions, completion_ids, columns).result()

  def submit(
      self,
      prompts: list,
      completions: list,
      completion_ids: list[list[int]],
      columns: Mapping[str, list],
  ) -> PendingScores:
    """Lets the workers score rows, and returns at once: `.result()` of what it returns are the `Scores`.

    Args:
      prompts: [N] strings, or lists of messages.
      completions: [N] strings, or lists with one message.
      completion_ids: [N] tokens of the completions.
      columns: of the data set, [N] each.
    Raises:
      ValueError: lengths differ, a function needs a column that is missing, or a value cannot be pickled.
      RuntimeError: the pool is closed.
    """
    self.check_columns(columns)
    rows = {'prompts': prompts, 'completions': completions, 'completion_ids': completion_ids, **columns}
    lengths = {name: len(values) for name, values in rows.items()}
    if len(set(lengths.values())) > 1:
      raise ValueError(f'rows have one value in each column; these have {lengths}')
    calls = []
    for index, function in enumerate(self._functions):
      mine = {name: values for name, values in rows.items() if function.accepts(name)}
      for start in self._starts(len(prompts)):
        part = slice(start, min(start + self._rows_per_call, len(prompts)))
        keywords = {name: values[part] for name, values in mine.items()}
        calls.append((function, part, _pickle_call(function, index, part, keywords)))
    calls = [_Call(function, part, self._workers.submit(pickled)) for function, part, pickled in calls]

    def again(call: _Call, part: slice) -> _Call:
      keywords = {name: values[part] for name, values in rows.items() if call.function.accepts(name)}
      pickled = _pickle_call(call.function, self._functions.index(call.function), part, keywords)
      return _Call(call.function, part, self._workers.submit(pickled))

    return PendingScores(self._functions, len(prompts), calls, again, self._share)

  def _starts(self, num_rows: int) -> list[int]:
    """The first rows of the calls that are made here: consecutive ones."""
    starts = range(0, num_rows, self._rows_per_call)
    index, count = self._share.index, self._share.count
    return list(starts[len(starts) * index // count : len(starts) * (index + 1) // count])

  def close(self) -> None:
    """Kills the workers. Closing again is nothing."""
    self._workers.close()

  def __enter__(self) -> 'RewardPool':
    return self

  def __exit__(self, *_) -> None:
    self.close()


class _Call(NamedTuple):
  function: RewardFunction
  rows: slice
  reply: Future[Reply]


class _Answer(NamedTuple):
  """What came of a call: for each row a value or a fault, and what the function reported."""

  values: list[float | None]
  faults: list[tuple[str, str] | None]  # kind, text
  extra: dict[str, list]
  metrics: list[tuple[str, float]]


# --- in the process of the run ------------------------------------------------------------------------------


def _pickle_function(function: RewardFunction) -> tuple[str, bytes, bytes, list[str]]:
  try:
    pickled = pickle.dumps(function.function)
    arguments = pickle.dumps(dict(function.arguments))
  except Exception as error:
    raise ValueError(
        f'reward function {function.name!r} cannot be sent to a worker ({describe(error)}); define it at the '
        'top level of a module, and give it plain arguments'
    ) from None
  return function.name, pickled, arguments, [name for name in _LOGGERS if function.accepts(name)]


def _pickle_call(function: RewardFunction, index: int, rows: slice, keywords: dict[str, list]) -> bytes:
  try:
    return pickle.dumps((index, rows.stop - rows.start, pickle.dumps(keywords)))
  except Exception as error:
    raise ValueError(
        f'rows {rows.start} to {rows.stop - 1} cannot be sent to reward function {function.name!r} '
        f'({describe(error)}); columns hold what can be pickled'
    ) from None


def _read(call: _Call) -> _Answer:
  """Waits for the answer to a call."""
  num_rows = call.rows.stop - call.rows.start
  reply = call.reply.result()
  if reply.fault:
    return _no_answer(num_rows, reply.fault, reply.text)
  try:
    answer = _Answer(*json.loads(reply.data))
    return answer._replace(extra={name: json.loads(values) for name, values in answer.extra.items()})
  except (ValueError, TypeError):  # the function wrote into a file that is not its own
    return _no_answer(num_rows, 'died', 'its answer cannot be read')


def _stopped_value(call: _Call, answer: _Answer) -> float | None:
  """What a row is worth on which the function of the call has to be stopped, if this call was."""
  fault = answer.faults[0]
  if fault is None or fault[0] not in _STOPPED:
    return None
  return getattr(call.function.function, 'stopped_value', None)


def _stopped(answer: _Answer, value: float) -> _Answer:
  """The answer for a row on which the function was stopped alone."""
  said = f'{answer.faults[0][1]}: worth {value:g}'
  return answer._replace(values=[float(value)], faults=[('stopped', said)])


def _gather(
    functions: Sequence[RewardFunction], num_rows: int, answers: list[tuple[str, slice, _Answer]]
) -> Scores:
  """Puts the answers together, in the order of functions and rows."""
  values = {function.name: np.full(num_rows, np.nan, np.float32) for function in functions}
  failed = {function.name: np.zeros(num_rows, bool) for function in functions}
  extra, reported, faults, messages = {}, {}, Counter(), {}
  for name, rows, answer in answers:
    values[name][rows] = np.array(answer.values, np.float32)  # None becomes NaN
    failed[name][rows] = [
        fault is not None and value is None for fault, value in zip(answer.faults, answer.values, strict=True)
    ]
    for row, fault in enumerate(answer.faults, start=rows.start):
      if fault is not None:
        kind, text = fault
        faults[kind] += 1
        messages.setdefault((name, kind, text), f'{name}, row {row}: {kind} ({text})')
    for column, entries in answer.extra.items():
      extra.setdefault(column, [None] * num_rows)[rows] = entries
    for metric, value in answer.metrics:
      reported.setdefault(metric, []).append(value)
  any_failed = np.any([*failed.values()], axis=0)
  scored = ~np.all(np.isnan([*values.values()]), axis=0) & ~any_failed
  known = {name: np.nan_to_num(x.astype(np.float64)) for name, x in values.items()}
  return Scores(
      totals=np.where(scored, sum(f.weight * known[f.name] for f in functions), np.nan).astype(np.float32),
      scored=scored,
      values=values,
      failed=failed,
      faults=dict(faults),
      messages=list(messages.values())[:_MAX_MESSAGES],
      extra=extra,
      metrics={name: float(np.mean(values)) for name, values in reported.items()},
  )


def _no_answer(num_rows: int, kind: str, text: str) -> _Answer:
  return _Answer([None] * num_rows, [(kind, text)] * num_rows, {}, [])


# --- in the keeper and the workers --------------------------------------------------------------------------


def _prepare(setup: list[tuple[str, bytes, bytes, list[str]]]) -> Handler:
  """Imports the functions, once for all workers."""
  functions = []
  for name, pickled, arguments, loggers in setup:
    try:
      function = pickle.loads(pickled)
      for module in getattr(function, 'imports', ()):
        __import__(module)
      functions.append((function, pickle.loads(arguments), loggers))
    except BaseException as error:
      raise ValueError(
          f'reward function {name!r} cannot be imported by a worker ({describe(error)}); define it at the '
          'top level of a module that can be imported, not in a notebook or a script'
      ) from None

  def handle(call: bytes) -> bytes:
    index, num_rows, keywords = pickle.loads(call)
    return json.dumps(_answer(*functions[index], num_rows, keywords)).encode()

  return handle


def _answer(
    function: Callable, arguments: dict[str, Any], loggers: list[str], num_rows: int, keywords: bytes
) -> _Answer:
  """Calls a function, and turns whatever it returns or raises into an answer."""
  extra, metrics = {}, []

  def log_extra(column: str, values: list) -> None:
    column, values = str(column), list(values)
    if column in _SAMPLE:
      raise ValueError(f'log_extra({column!r}): samples have a column of this name; take another one')
    if len(values) != num_rows:
      raise ValueError(f'log_extra({column!r}) got {len(values)} values for {num_rows} rows')
    extra[column] = json.dumps(values, default=_loggable)  # now: who logs learns what cannot be logged

  def log_metric(name: str, value: float) -> None:
    metrics.append((str(name), float(value)))

  offered = {'log_extra': log_extra, 'log_metric': log_metric}
  try:
    loggers = {name: offered[name] for name in loggers}
    result = function(**pickle.loads(keywords), **arguments, **loggers)
    if inspect.isawaitable(result):
      result = asyncio.run(_wait(result))
    values, faults = _check(result, num_rows)
  except BaseException as error:  # also SystemExit: a function does not end a worker by raising
    return _no_answer(num_rows, 'raised', describe(error))
  return _Answer(values, faults, extra, metrics)


async def _wait(awaitable):
  return await awaitable


def _check(result: Any, num_rows: int) -> tuple[list[float | None], list[tuple[str, str] | None]]:
  """What a function returned as one number, None or fault for each row."""
  result = _plain(result)
  if not isinstance(result, list | tuple):
    problem = f'{type(result).__name__} instead of a list'
  elif len(result) != num_rows:
    problem = f'{len(result)} values for {num_rows} rows'
  else:
    checked = [_check_value(value) for value in result]
    return [value for value, _ in checked], [fault for _, fault in checked]
  return [None] * num_rows, [('malformed', problem)] * num_rows


def _check_value(value: Any) -> tuple[float | None, tuple[str, str] | None]:
  value = _plain(value)
  if value is None:
    return None, None
  if not isinstance(value, int | float):
    return None, ('malformed', f'{type(value).__name__} instead of a number')
  if not abs(value) <= _MAX_FLOAT32:
    return None, ('not_finite', str(value) if isinstance(value, float) else 'a whole number beyond float32')
  return float(value), None


def _plain(value: Any) -> Any:
  """Arrays and their scalars, of whatever library, as lists and numbers."""
  return value.tolist() if hasattr(value, 'tolist') else value


def _loggable(value: Any) -> Any:
  return value.tolist() if hasattr(value, 'tolist') else str(value)
