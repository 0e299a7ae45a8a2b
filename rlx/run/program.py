"""What a stage runs, as one value: the train loop dispatches it and knows nothing of rewards or rollouts.

`Compiled` is one program of several train steps. `Split` has a reward in Python between two compiled halves.
Both are asked the same: to be traced, to dispatch, to collect a few rows for people, what was heard on the
host, and to close.
"""

from collections.abc import Mapping, Sequence
import functools
from typing import Any, Protocol

import jax

from rlx import step
from rlx.rewards.host import HostReward
from rlx.step import NO_MODELS
from rlx.types import Algorithm, Batch, Metrics, Models, State


class Program(Protocol):
  """The work of a stage; `frozen` are models that are in no state."""

  def trace(self, state: State, data: Any, frozen: Models) -> list:
    """The programs, traced on abstract values."""

  def dispatch(self, state: State, data: Any, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    """`steps_per_dispatch` train steps: metrics [steps], or [members, steps]. The state is donated."""

  def collect(self, state: State, data: Any, frozen: Models) -> tuple[Batch, Mapping[str, list]]:
    """A few rows of the batch that the next step will learn from, and what was said of them on the host."""

  def hear(self, rows: Sequence[dict]) -> list[str]:
    """Adds what was measured on the host to the metrics of the steps; returns what went wrong there."""

  def close(self) -> None:
    """Ends what runs beside the program; the next dispatch starts it again."""


class Compiled:
  """N train steps as one program, mapped over the members of a population."""

  def __init__(
      self, algorithm: Algorithm, train_step: step.TrainStep, *, num_steps: int, population: int, samples: int
  ):
    program = step.repeat(train_step, num_steps)
    axes = (0, None, None)
    self._dispatch = jax.jit(jax.vmap(program, axes) if population > 1 else program, donate_argnums=0)
    few = functools.partial(_first_rows, num=samples)
    one = (lambda state: jax.tree.map(lambda a: a[0], state)) if population > 1 else lambda state: state
    self._collect = jax.jit(
        lambda state, data, frozen: few(step.collect(algorithm, one(state), data, frozen))
    )

  def trace(self, state: State, data: Any, frozen: Models) -> list:
    """As `Program`."""
    return [self._dispatch.trace(state, data, frozen)]

  def dispatch(self, state: State, data: Any, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    """As `Program`."""
    return self._dispatch(state, data, dict(frozen))

  def collect(self, state: State, data: Any, frozen: Models) -> tuple[Batch, Mapping[str, list]]:
    """As `Program`."""
    return self._collect(state, data, frozen), {}

  def hear(self, rows: Sequence[dict]) -> list[str]:
    """As `Program`: nothing runs on the host."""
    del rows
    return []

  def close(self) -> None:
    """As `Program`: nothing runs on the host."""


class Split:
  """N train steps, each in two compiled halves around a reward in Python."""

  def __init__(
      self, algorithm: Algorithm, train_step: step.SplitStep, reward: HostReward, *, num_steps: int,
      samples: int,
  ):
    self.reward = reward
    self._algorithm, self._step, self._num_steps, self._samples = algorithm, train_step, num_steps, samples

  def trace(self, state: State, data: Any, frozen: Models) -> list:
    """As `Program`."""
    sample = self._step.sample.trace(state, data, frozen)
    batch, world = jax.eval_shape(self._step.sample, state, data, frozen)
    with self.reward.only_shapes():
      batch = jax.eval_shape(self._algorithm.reward, {**frozen, **state.models}, batch, state.key)
    return [sample, self._step.learn.trace(state.replace(world=world), batch, frozen)]

  def dispatch(self, state: State, data: Any, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    """As `Program`."""
    return self._step.repeat(
        state, data, self._num_steps, overlap=self.reward.overlap, frozen=frozen
    )

  def collect(self, state: State, data: Any, frozen: Models) -> tuple[Batch, Mapping[str, list]]:
    """As `Program`."""
    batch = _first_rows(self._step.collect(state, data, frozen), num=self._samples)
    return batch, self.reward.heard()[-1].extra

  def hear(self, rows: Sequence[dict]) -> list[str]:
    """As `Program`."""
    said = self.reward.heard()
    for row, scores in zip(rows, said, strict=True):
      row.update({f'reward/{name}': float(value) for name, value in scores.metrics.items()})
    return [f'reward function failed: {message}' for scores in said for message in scores.messages]

  def close(self) -> None:
    """As `Program`."""
    self.reward.close()


def _first_rows(batch: Batch, num: int) -> Batch:
  return jax.tree.map(lambda a: a[:num], batch)
