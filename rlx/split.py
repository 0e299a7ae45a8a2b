"""A train step that leaves the device: `sample | reward | learn`, cut where its rows do.

A reward in Python is on the host, between two compiled halves; so is a rollout with tools in Python, which
calls programs of its own. Sampling can be ahead of learning by a number of train steps, its *lag*, so that
the device samples while the host scores, or, on a mesh of its own, while other devices learn. Nothing is in
flight behind a call: it begins with the newest weights, and ends when all that was sampled has been learnt
from.
"""

from collections import deque
from collections.abc import Callable, Mapping
import functools
import time
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx import processes, sharding
from rlx.step import Step, sampled
from rlx.types import (
  NO_MODELS,
  Batch,
  HostRollout,
  Metrics,
  Models,
  Rows,
  State,
  StatefulRollout,
  World,
  keep_world,
)


class SplitStep:
  """A train step in compiled pieces.

  Attributes:
    seconds: what the last call took, by part: 'weights', copies of them to the sampling mesh; and of a step,
      where nothing overlaps because there is no lag, 'sampling', 'reward' and 'learning'.
  """

  def __init__(
      self, step: Step, *, lag: int = 0, on_host: bool = True, sampling: jax.sharding.Mesh | None = None,
      axes: Mapping[str, sharding.Axes] = MappingProxyType({}),
  ):
    """Nothing is compiled yet.

    Args:
      step: from `make_train_step`, say.
      lag: train steps that sampling may be ahead; the first batches of a call are 0, 1, .. of them old.
      on_host: whether the reward is Python and gets NumPy arrays; it is compiled otherwise.
      sampling: a mesh of its own for sampling; None for that of the rest.
      axes: as for `make_train_step`, for weights on the sampling mesh.
    Raises:
      ValueError: the lag is negative, or the rollout cannot be ahead of what is learnt.
    """
    _check(step.rollout, lag, sampling)
    self.seconds: dict[str, float] = {}
    self._step, self._lag, self._on_host, self._sampling, self._axes = step, lag, on_host, sampling, axes
    is_here = isinstance(step.rollout, HostRollout)
    if is_here and sampling is not None:
      raise ValueError(
          'sampling.mesh: a rollout with tools in Python samples on the first device; take it away'
      )
    sample = sharding.InPlace(self._versioned, lambda places: (None, places.world))
    self._sample = self._on_the_host if is_here else sample
    self._score = jax.jit(step.scored)
    self._annotate = jax.jit(step.annotate)
    self._learn = sharding.InPlace(step.learn, lambda places: (places, None), donate_argnums=0)

  def __call__(
      self, state: State, data: Any = None, frozen: Models = NO_MODELS
  ) -> tuple[State, Metrics]:
    """One train step; the state is donated."""
    state, metrics = self.repeat(state, data, 1, frozen=frozen)
    return state, {name: value[0] for name, value in metrics.items()}

  def repeat(
      self, state: State, data: Any, num_steps: int, *, frozen: Models = NO_MODELS
  ) -> tuple[State, Metrics]:
    """`num_steps` train steps; the metrics gain a leading axis [num_steps].

    `rollout/policy_lag` counts the train steps between the weights that sampled and those that learn.
    Where there is a lag, rows of tokens have `policy_version`.

    Args:
      state: it is donated.
      data: of the rollout.
      num_steps: N.
      frozen: models that are in no state.
    """
    sampler, clock = self._sampler(data, dict(frozen)), _Clock(runs=not self._lag)
    waiting, metrics = deque(), []  # waiting: (rows, the step by whose weights they were drawn)
    for index in range(num_steps):
      num_drawn = index + len(waiting)
      sampler.follow(state, weights=num_drawn < num_steps)
      while num_drawn < num_steps and len(waiting) <= self._lag:
        waiting.append((sampler.draw(state.step + len(waiting)), index))
        num_drawn += 1
      rows, drawn_at = waiting.popleft()
      clock.lap('sampling', rows)
      rows = self._scored(state, sampler.home(rows, state), dict(frozen))
      clock.lap('reward', rows)
      state, row = self._learn(sampler.hand_in(state), rows, data, dict(frozen))
      clock.lap('learning', row)
      metrics.append({**row, 'rollout/policy_lag': np.float32(index - drawn_at), **sampler.metrics()})
    self.seconds = {name: total / num_steps for name, total in clock.seconds.items()}
    if self.is_away:
      self.seconds['weights'] = sampler.seconds
    return sampler.close(state), jax.tree.map(lambda *x: np.stack(x), *processes.to_host(metrics))

  def collect(self, state: State, data: Any = None, frozen: Models = NO_MODELS) -> Rows:
    """The rows that the next train step will learn from, sampled where the rest runs."""
    rows, _ = self._sample(state, state.step, data, dict(frozen))
    return self._annotate(state, self._scored(state, rows, dict(frozen)), dict(frozen))

  @property
  def is_away(self) -> bool:
    """Whether sampling has a mesh of its own."""
    return self._sampling is not None

  def trace(self, state: State, data: Any, frozen: Models) -> list:
    """The compiled pieces, traced on abstract values, as if all were on one mesh."""
    rollout = self._step.rollout
    if isinstance(rollout, HostRollout):
      draw = functools.partial(sampled, rollout.traceable)
      rows, _ = jax.eval_shape(functools.partial(self._with_versions, draw), state, state.step, data, frozen)
    else:
      rows, _ = jax.eval_shape(self._versioned, state, state.step, data, frozen)
    scored = jax.eval_shape(self._step.scored, state, rows, frozen)
    learn = self._learn.trace(state, scored, data, frozen)
    if isinstance(rollout, HostRollout):  # its programs are its own affair
      return [learn]
    return [self._sample.trace(state, state.step, data, frozen), learn]

  def _versioned(self, state: State, version: jax.Array, data: Any, frozen: Models) -> tuple[Rows, World]:
    """What the rollout draws; rows of tokens with the train step of the weights that drew them."""
    return self._with_versions(self._step.sample, state, version, data, frozen)

  def _on_the_host(self, state: State, version: jax.Array, data: Any, frozen: Models) -> tuple[Rows, World]:
    """`_versioned` of a rollout that is Python; the world stays where it was."""
    rows, world = self._versioned(state, version, data, frozen)
    stay = lambda new, old: jax.device_put(new, old.sharding)
    return rows, jax.tree.map(stay, world, state.world)

  def _with_versions(self, sample: Callable, state, version, data, frozen) -> tuple[Rows, World]:
    rows, world = sample(state, data, frozen)
    return (_each_batch(functools.partial(_with_version, version), rows) if self._lag else rows), world

  def _scored(self, state: State, rows: Rows, frozen: Models) -> Rows:
    if not self._on_host:
      return self._score(state, rows, frozen)
    return jax.device_put(self._step.scored(state, processes.to_host(rows), frozen))

  def _sampler(self, data: Any, frozen: Models) -> '_Here':
    if self._sampling is None:
      return _Here(self._sample, data, frozen)
    return _Away(self._sample, data, frozen, self._sampling, self._axes)


class _Clock:
  """Seconds of the parts of steps, by name; it waits for each, so it may run only where nothing overlaps."""

  def __init__(self, *, runs: bool):
    self.seconds: dict[str, float] = {}
    self._runs, self._began = runs, time.monotonic()

  def lap(self, name: str, result: Any) -> None:
    """What passed since the last one was for this, which is done when its result is there."""
    if self._runs:
      jax.block_until_ready(result)
      now = time.monotonic()
      self.seconds[name] = self.seconds.get(name, 0.0) + now - self._began
      self._began = now


class _Here:
  """Samples on the devices that learn; the world is that of the state."""

  seconds = 0.0

  def __init__(self, sample, data: Any, frozen: Models):
    self._sample, self._data, self._frozen = sample, data, frozen
    self._state: State | None = None

  def follow(self, state: State, *, weights: bool) -> None:
    """Takes the newest state; its weights are needed where something is still to be drawn."""
    del weights
    self._state, self._version = state, state.step

  def draw(self, step: jax.Array) -> Rows:
    """The rows of a step, by the weights that were followed last."""
    rows, world = self._sample(self._state.replace(step=step), self._version, self._data, self._frozen)
    self._state = self._state.replace(world=world)
    return rows

  def home(self, rows: Rows, state: State) -> Rows:
    """Rows where they are learnt from."""
    del state
    return rows

  def hand_in(self, state: State) -> State:
    """The state that learns: with the world as the draws left it."""
    return state.replace(world=self._state.world)

  def close(self, state: State) -> State:
    """The state behind the last step."""
    return state

  def metrics(self) -> Metrics:
    """What is to be told of each step."""
    return {}


class _Away(_Here):
  """Samples on a mesh of its own: weights are put there after an update; the world stays there meanwhile."""

  def __init__(self, sample, data: Any, frozen: Models, mesh: jax.sharding.Mesh, axes):
    super().__init__(sample, None, None)
    self._mesh, self._axes, self._bytes = mesh, axes, 0
    self._data, self._frozen = self._whole(data), self._models(frozen)

  def follow(self, state: State, *, weights: bool) -> None:
    """As `_Here`."""
    if not weights:
      return
    jax.block_until_ready(state.models)  # so that the clock sees the copies alone
    began = time.monotonic()
    params, slow = jax.block_until_ready((self._models(state.params), self._models(state.slow)))
    self.seconds += time.monotonic() - began
    self._bytes = sum(leaf.nbytes for leaf in jax.tree.leaves((params, slow)))
    world = self._whole(state.world) if self._state is None else self._state.world
    self._version = self._whole(state.step)
    self._state = State(
        step=self._version, params=params, slow=slow, opt_state=(), world=world, key=self._whole(state.key)
    )

  def draw(self, step: jax.Array) -> Rows:
    """As `_Here`."""
    with jax.set_mesh(self._mesh):
      return super().draw(self._whole(step))

  def home(self, rows: Rows, state: State) -> Rows:
    """As `_Here`."""
    return jax.device_put(rows, state.step.sharding)

  def hand_in(self, state: State) -> State:
    """As `_Here`, but the world is handed in when all is drawn."""
    return state

  def close(self, state: State) -> State:
    """As `_Here`."""
    back = lambda new, old: jax.device_put(new, old.sharding)
    return state.replace(world=jax.tree.map(back, self._state.world, state.world))

  def metrics(self) -> Metrics:
    """As `_Here`."""
    return {'sampling/weights_bytes': np.float32(self._bytes)}

  def _whole(self, tree: Any) -> Any:
    """A tree, whole on every sampling device."""
    return jax.device_put(tree, jax.sharding.NamedSharding(self._mesh, jax.sharding.PartitionSpec()))

  def _models(self, models: Models) -> Models:
    """Weights over the sampling devices."""
    places = sharding.state_shardings(dict(models), self._mesh, self._axes)
    return jax.device_put(dict(models), places)


def _check(rollout: StatefulRollout, lag: int, sampling: jax.sharding.Mesh | None) -> None:
  if lag < 0:
    raise ValueError(f'lag={lag} is negative; 0 samples with the newest weights')
  if lag and not rollout.ahead:
    raise ValueError(
        f'lag={lag}: the rollout keeps unfinished rows from step to step and cannot be ahead; set lag to 0'
    )
  if sampling is not None and rollout.observe is not keep_world:
    raise ValueError(
        'sampling.mesh: the rollout remembers what became of its rows, which is known on the other mesh; '
        'sample on the mesh of the run'
    )


def _each_batch(function: Callable[[Batch], Batch], rows: Rows) -> Rows:
  """A function of a batch over the rows of one learner, or of several."""
  several = all(isinstance(value, dict) for value in rows.values())
  return {name: function(batch) for name, batch in rows.items()} if several else function(rows)


def _with_version(version: jax.Array, batch: Batch) -> Batch:
  if 'action_mask' not in batch:
    return batch
  return {**batch, 'policy_version': jnp.where(batch['action_mask'], version, -1)}
