"""What a stage runs, as one value: the train loop dispatches it and knows nothing of rewards or rollouts.

`Compiled` is one program of several train steps. `Split` is cut where rows leave the device: for a reward in
Python, or for samples that are ahead of learning, on a mesh of their own if it has one. Both are asked the
same: to be traced, to dispatch, to collect a few rows for people, what was heard on the host, and to close.
"""

from collections.abc import Callable, Mapping, Sequence
import contextlib
from pathlib import Path
from typing import Any, Protocol

import jax

from rlx import processes, sharding, step
from rlx.data.stream import Streamed
from rlx.errors import ConfigError
from rlx.rewards.host import OnHost, check_works
from rlx.split import SplitStep
from rlx.step import Step
from rlx.types import NO_MODELS, Metrics, Models, OnTheHost, Rows, State

POPULATION = 'population'  # the axis of the members, by whose name they can exchange rows


class Program(Protocol):
  """The work of a stage; `frozen` are models that are in no state."""

  seats: tuple[str, ...]  # of a table in Python; () where the task has the seats, if there are any

  def keep_in(self, folder: Path) -> None:
    """What has to be remembered on the host is kept in this folder."""

  def trace(self, state: State, data: Any, frozen: Models) -> list:
    """The programs, traced on abstract values."""

  def dispatch(self, state: State, data: Any, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    """`steps_per_dispatch` train steps: metrics [steps], or [members, steps]. The state is donated."""

  def collect(self, state: State, data: Any, frozen: Models) -> tuple[Rows, Mapping[str, list]]:
    """A few of the rows that the next step will learn from, and what was said of them on the host."""

  def hear(self, rows: Sequence[dict]) -> list[str]:
    """Adds what was measured on the host to the metrics of the steps; returns what went wrong there."""

  def timings(self) -> dict[str, float]:
    """What the clock said of the last dispatch, beside its length."""

  def close(self) -> None:
    """Ends what runs beside the program; the next dispatch starts it again."""


class Compiled:
  """N train steps as one program, mapped over the members of a population."""

  seats = ()  # those of the task, if it has any

  def __init__(self, train_step: Step, *, num_steps: int, population: int, samples: int):
    program = step.repeat(train_step, num_steps)
    stay = lambda places: (places, None)
    self._dispatch = sharding.InPlace(over_members(program, population), stay, donate_argnums=0)
    collect = over_members(train_step.collect, population)
    member = (lambda rows: jax.tree.map(lambda a: a[0], rows)) if population > 1 else lambda rows: rows
    self._collect = jax.jit(
        lambda state, data, frozen: _first_rows(member(collect(state, data, frozen)), num=samples)
    )

  def keep_in(self, folder: Path) -> None:
    """As `Program`: there is nothing."""

  def trace(self, state: State, data: Any, frozen: Models) -> list:
    """As `Program`."""
    return [self._dispatch.trace(_light(state), data, frozen)]

  def dispatch(self, state: State, data: Any, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    """As `Program`."""
    after, metrics = self._dispatch(_light(state), data, dict(frozen))
    return _with_luggage(after, state), metrics

  def collect(self, state: State, data: Any, frozen: Models) -> tuple[Rows, Mapping[str, list]]:
    """As `Program`."""
    return self._collect(_light(state), data, dict(frozen)), {}

  def hear(self, rows: Sequence[dict]) -> list[str]:
    """As `Program`: nothing runs on the host."""
    del rows
    return []

  def timings(self) -> dict[str, float]:
    """As `Program`: there is nothing else."""
    return {}

  def close(self) -> None:
    """As `Program`: nothing runs on the host."""


class Split:
  """N train steps, each in compiled pieces."""

  def __init__(
      self, pieces: SplitStep, reward: OnHost | None, host: OnTheHost | None, *, num_steps: int, samples: int
  ):
    """Nothing is compiled yet.

    Args:
      pieces: the step.
      reward: that runs on the host, if it does.
      host: what of the rollout does, if anything.
      num_steps: train steps of a dispatch.
      samples: rows for people.
    """
    self.reward, self._reward_works = reward, False
    self.seats = () if host is None else host.seats
    self._host = host
    self._pieces, self._num_steps, self._samples = pieces, num_steps, samples

  def keep_in(self, folder: Path) -> None:
    """As `Program`."""
    if self._host is not None:
      self._host.keep_in(folder)

  def trace(self, state: State, data: Any, frozen: Models) -> list:
    """As `Program`."""
    with contextlib.nullcontext() if self.reward is None else self.reward.only_shapes():
      return self._pieces.trace(_light(state), data, frozen)

  def dispatch(self, state: State, data: Any, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    """As `Program`."""
    after, metrics = self._pieces.repeat(_light(state), data, self._num_steps, frozen=frozen)
    return _with_luggage(after, state), metrics

  def collect(self, state: State, data: Any, frozen: Models) -> tuple[Rows, Mapping[str, list]]:
    """As `Program`."""
    rows = _first_rows(self._pieces.collect(_light(state), data, frozen), num=self._samples)
    return rows, {} if self.reward is None else self.reward.heard()[-1].extra

  def hear(self, rows: Sequence[dict]) -> list[str]:
    """As `Program`."""
    told = [] if self._host is None else self._host.heard()
    if self.reward is None:
      return told
    said = self.reward.heard()
    self._reward_works = self._reward_works or check_works(said)
    taken: set[str] = set()
    for row, scores in zip(rows, said, strict=True):
      logged = {f'reward/{name}': float(value) for name, value in scores.metrics.items()}
      taken |= logged.keys() & row.keys()
      row.update({name: value for name, value in logged.items() if name not in row})
    told = [*told, *(f'log_metric: {name} is a metric of rlx, and stays' for name in sorted(taken))]
    return told + [f'reward function failed: {message}' for scores in said for message in scores.messages]

  def timings(self) -> dict[str, float]:
    """As `Program`."""
    parts = {f'time/{name}_seconds': seconds for name, seconds in self._pieces.seconds.items()}
    return parts if self._host is None else {**parts, **self._host.timings}

  def close(self) -> None:
    """As `Program`."""
    for runs in (self.reward, self._host):
      if runs is not None:
        runs.close()


def over_members(function: Callable, population: int, axes: tuple = (0, None, None)) -> Callable:
  """A function of one run as one of all members of a population, who can exchange rows over their axis.

  Args:
    function: by default of `(state, data, frozen)`, the last two shared.
    population: members; 1 leaves the function as it is.
    axes: 0 where members have arguments of their own, None where they share one.
  """
  return jax.vmap(function, axes, axis_name=POPULATION) if population > 1 else function


def _light(state: State) -> State:
  """The state without what only passes through the stage: programs do not depend on it."""
  return state.replace(carried={}, parked={})


def _with_luggage(state: State, before: State) -> State:
  return state.replace(carried=before.carried, parked=before.parked)


def _first_rows(rows: Rows, num: int) -> Rows:
  return jax.tree.map(lambda a: a[:num], rows)


class Streaming:
  """A program whose data are read before each dispatch, from where the rollout is in its data set."""

  def __init__(self, program: Program, task: Streamed, mesh: jax.sharding.Mesh):
    self._program, self._task, self.seats = program, task, program.seats
    self._everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

  def keep_in(self, folder: Path) -> None:
    """As `Program`."""
    self._program.keep_in(folder)

  def trace(self, state: State, data: Any, frozen: Models) -> list:
    """As `Program`."""
    return self._program.trace(state, data, frozen)

  def dispatch(self, state: State, data: Any, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    """As `Program`, on a window of rows in place of `data`."""
    data = self.window(state)
    after, metrics = self._program.dispatch(state, data, frozen)
    _told(self._task.check, data, after.world)
    return after, metrics

  def collect(self, state: State, data: Any, frozen: Models) -> tuple[Rows, Mapping[str, list]]:
    """As `Program`, on a window of rows in place of `data`."""
    return self._program.collect(state, self.window(state), frozen)

  def hear(self, rows: Sequence[dict]) -> list[str]:
    """As `Program`."""
    return self._program.hear(rows)

  def timings(self) -> dict[str, float]:
    """As `Program`."""
    return self._program.timings()

  def close(self) -> None:
    """As `Program`."""
    self._program.close()

  def window(self, state: State) -> Any:
    """The rows that the dispatch from a state draws, on every device."""
    return processes.put(_told(self._task.window, state.world), self._everywhere)


def _told(function: Callable, *arguments: Any) -> Any:
  """What a function returns; what it says of the data is for the user."""
  try:
    return function(*arguments)
  except ValueError as error:
    raise ConfigError(str(error)) from error
