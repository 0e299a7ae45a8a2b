"""Rewards in Python, on the host: token rows become texts, functions in other processes score them.

Functions have the signature of TRL's, `f(prompts, completions, completion_ids, **columns)`, with every column
of the data set by name, and return a number or `None` (not applicable) for each row. They run in processes
that are killed when they hang (`pool.py`). A row on which a function fails is *left out*: it is counted, its
group is formed without it, and the loss does not see it (`rlx/unscored.py`). It is never a silent 0. But an
answer on which a function of math or code has to be stopped is wrong, as `stopped_value` of that function
says: it must not pay better to hang than to be wrong.
"""

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import functools

import jax
from ml_collections import ConfigDict
import numpy as np

from rlx import processes, watchdog
from rlx.data.dataset import Dataset
from rlx.errors import ConfigError, above, at_least
from rlx.names import resolve
from rlx.rewards import sandbox
from rlx.rewards.by_value import ByValue
from rlx.rewards.pool import RewardFunction, RewardPool, Scores, Share
from rlx.types import Annotate, Batch, Key, Models, Rows

_FAULTS = ('raised', 'timeout', 'died', 'not_finite', 'malformed')


class OnHost(abc.ABC):
  """A `reward` slot that is Python and gets NumPy arrays."""

  @abc.abstractmethod
  def __call__(self, models: Models, rows: Rows, key: Key) -> Rows:
    """Rows with their rewards."""

  @abc.abstractmethod
  def heard(self) -> list[Scores]:
    """What each call since the last time of asking said: `log_metric` values, messages of faults."""

  @abc.abstractmethod
  def only_shapes(self) -> contextlib.AbstractContextManager[None]:
    """Inside, a call may be traced: it says which columns it will add, and scores nothing."""

  @abc.abstractmethod
  def close(self) -> None:
    """Ends the processes; the next score starts new ones."""


class HostReward(OnHost):
  """The `reward` slot of a data set with reward functions in Python.

  Attributes:
    names: of the functions, in order.
    last: what the functions said last, for people to read (columns of `log_extra`).
  """

  def __init__(
      self, task: Dataset, make_pool: Callable[[], RewardPool], functions: Sequence[RewardFunction]
  ):
    self.names = tuple(function.name for function in functions)
    self.last: Scores | None = None
    self._task = task
    self._functions = tuple(functions)
    self._make_pool = make_pool
    self._pool: RewardPool | None = None  # no process before the first score
    self._only_shapes = False
    self._said: list[Scores] = []

  def __call__(self, models: Models, batch: Batch, key: Key) -> Batch:
    """Adds `rewards` and `scored` [B], a column `rewards/<name>` for each function, and counts of faults.

    Rows that were not scored have a reward of NaN, become groups of their own, and their actions no longer
    count.
    """
    del models, key
    if self._only_shapes:
      return self._with_scores(batch, _no_scores(len(batch['rows']), self.names), xp=jax.numpy)
    rows, mask = np.asarray(batch['rows']), np.asarray(batch['action_mask'])
    tokens = [row[counted].tolist() for row, counted in zip(np.asarray(batch['tokens']), mask, strict=True)]
    self._said.append(self.score(rows, tokens))
    return self._with_scores(batch, self.last, xp=np)

  def heard(self) -> list[Scores]:
    """What each call since the last time of asking said: `log_metric` values, messages of faults."""
    said, self._said = self._said, []
    return said

  @watchdog.section('reward')
  def score(self, rows: np.ndarray, completion_ids: list[list[int]]) -> Scores:
    """Scores completions of rows of the data set.

    Args:
      rows: [N] row numbers.
      completion_ids: for each, the tokens that were sampled.
    """
    if self._pool is None:
      for function in self._functions:
        _check_sandbox(function)
      self._pool = self._make_pool()
    texts = [self._task.decode(ids) for ids in completion_ids]
    if self._task.conversational:
      texts = [[{'role': 'assistant', 'content': text}] for text in texts]
    prompts, columns = self._task.prompts(rows), self._task.columns(rows)
    self.last = self._pool.score(prompts, texts, completion_ids, columns)
    return self.last

  @contextlib.contextmanager
  def only_shapes(self) -> Iterator[None]:
    """Inside, a call may be traced: it says which columns it will add, and scores nothing."""
    self._only_shapes = True
    try:
      yield
    finally:
      self._only_shapes = False

  def close(self) -> None:
    """Ends the processes; the next score starts new ones."""
    if self._pool is not None:
      self._pool.close()
      self._pool = None

  def _with_scores(self, batch: Batch, scores: Scores, xp) -> Batch:
    scored = xp.asarray(scores.scored)
    if 'scored' in batch:  # the rollout knows of rows that are none
      scored = scored & batch['scored']
    columns = {f'rewards/{name}': xp.asarray(scores.values[name]) for name in self.names}
    everywhere = lambda count: xp.full(scored.shape, count, xp.float32)
    columns['reward/failed'] = everywhere(np.any([*scores.failed.values()], axis=0).sum())
    columns |= {f'reward/failed_{kind}': everywhere(scores.faults.get(kind, 0)) for kind in _FAULTS}
    columns['reward/stopped'] = everywhere(scores.faults.get('stopped', 0))
    return {
        **batch,
        **columns,
        'rewards': xp.asarray(scores.totals),
        'scored': scored,
        'groups': _without(batch['groups'], scored, xp),
        'action_mask': batch['action_mask'] & scored[:, None],
    }


def check_works(said: Sequence[Scores]) -> bool:
  """Whether the reward was asked, and some row not failed: a service that is down for a while is no error.

  Args:
    said: by the first calls of a run, or of one that goes on.
  Raises:
    ConfigError: the functions failed on every row of all calls.
  """
  failed = [np.any([*scores.failed.values()], axis=0) for scores in said]
  if failed and all(rows.size and rows.all() for rows in failed):
    first = next((message for scores in said for message in scores.messages), 'it did not say why')
    raise ConfigError(
        f'the reward failed on each of the {sum(rows.size for rows in failed)} rows that it was first given, '
        f'so nothing would be learnt: {first}; mend it, and run the same command again'
    )
  return bool(failed)


def check_compiles(reward: Annotate) -> None:
  """Raises `ValueError` where a reward is Python on the host, which a rollout cannot ask while it samples."""
  if isinstance(reward, OnHost):
    raise ValueError('this rollout asks the reward while it samples; take one that compiles, as verifier')


def _without(groups, scored, xp):
  """[B] group ids in 0..B-1 in which each row that is not scored is a group of its own.

  A group is named after the first of its rows that was scored.
  """
  rows = xp.arange(len(groups))
  same = (groups[:, None] == groups[None]) & scored[None]
  return xp.where(scored, xp.argmax(same, axis=1), rows).astype(xp.int32)


def _no_scores(num_rows: int, names: Sequence[str]) -> Scores:
  zeros, false = np.zeros(num_rows, np.float32), np.zeros(num_rows, bool)
  return Scores(
      totals=zeros, scored=~false, values=dict.fromkeys(names, zeros), failed=dict.fromkeys(names, false),
      faults={}, messages=[], extra={}, metrics={},
  )


def host(
    task: Dataset,
    *,
    functions: Mapping[str, Mapping],
    timeout_seconds: float,
    workers: int,
    rows_per_call: int,
) -> HostReward:
  """The weighted sum of reward functions in Python.

  Args:
    task: the data set that the rows are of.
    functions: name in the metrics -> section with `name` (a function: `rlx.rewards.math.math_answer`, or one
      of your own package), `weight`, and the function's own hyper-parameters by keyword.
    timeout_seconds: for one call; what takes longer is killed and counted.
    workers: processes.
    rows_per_call: rows that a call gets. 1 confines a fault to its row; a function that compares the rows of
      a batch needs them all.
  Raises:
    ValueError: a function asks for a column that the data set does not have, or cannot be sent to a process.
  """
  if not functions:
    raise ValueError('reward.functions is empty; name at least one function')
  built = [_function(name, section) for name, section in functions.items()]
  return _in_processes(
      task, built, timeout_seconds=timeout_seconds, workers=workers, rows_per_call=rows_per_call
  )


def host_given(
    task: Dataset,
    functions: Mapping[str, Callable],
    *,
    weights: Mapping[str, float],
    named: Mapping[str, Mapping],
    timeout_seconds: float,
    workers: int,
    rows_per_call: int,
) -> HostReward:
  """The weighted sum of reward functions, some of which are objects: those of a notebook, say.

  Args:
    task: the data set that the rows are of.
    functions: name in the metrics -> function.
    weights: of each of them.
    named: others, sections as for `host`; may be empty.
    timeout_seconds: as for `host`.
    workers: as for `host`.
    rows_per_call: as for `host`.
  Raises:
    ValueError: as `host`, or a function cannot be sent to another process.
  """
  built = [
      RewardFunction(name=name, function=ByValue(function), weight=float(weights[name]), arguments={})
      for name, function in functions.items()
  ]
  built += [_function(name, section) for name, section in named.items()]
  return _in_processes(
      task, built, timeout_seconds=timeout_seconds, workers=workers, rows_per_call=rows_per_call
  )


def _in_processes(
    task: Dataset, functions: Sequence[RewardFunction], *, timeout_seconds: float, workers: int,
    rows_per_call: int,
) -> HostReward:
  above(0, timeout_seconds=timeout_seconds)
  at_least(1, workers=workers, rows_per_call=rows_per_call)
  for function in functions:
    function.check_columns(task.columns([0]))
  make_pool = functools.partial(
      RewardPool, functions, timeout_seconds=timeout_seconds, workers=workers, rows_per_call=rows_per_call,
      share=Share(jax.process_index(), jax.process_count(), processes.gathered),
  )
  return HostReward(task, make_pool, functions)


def _check_sandbox(function: RewardFunction) -> None:
  """Refuses to begin where a function runs programs and their sandbox does not start here."""
  if 'tier' not in function.arguments:
    return
  try:
    sandbox.check(function.arguments['tier'])
  except sandbox.SandboxError as error:
    raise ConfigError(f'reward function {function.name!r}: {error}') from error


def _function(name: str, section: Mapping) -> RewardFunction:
  if not isinstance(section, Mapping | ConfigDict):
    raise ValueError(f"reward.functions.{name}={section!r}: a section, {{'name': .., 'weight': .., ..}}")
  arguments = {key: value for key, value in section.items() if key not in ('name', 'weight')}
  if missing := {'name', 'weight'} - set(section):
    raise ValueError(f'reward.functions.{name} lacks {sorted(missing)}')
  return RewardFunction(
      name=name, function=resolve(section['name'], 'rlx.rewards'), weight=float(section['weight']),
      arguments=arguments,
  )
