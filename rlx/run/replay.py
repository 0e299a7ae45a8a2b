"""Where the first value arises that is infinite or NaN: train steps again, one at a time, piece by piece.

A run that is given up leaves the state before its last dispatch in `nonfinite`. Because the state is all that
a step depends on, it is enough: the step samples the same rows, and they have the same rewards. Where the
weights of that state are not finite themselves, the replay begins at the newest checkpoint whose are.

What is looked at, in this order: rows as they are sampled, with their rewards, with what the loss takes from
them; then for each update the gradient, the update that the optimizer makes of it, and the metrics. Rows may
hold NaN for what does not apply (`rewards/<function>`), so these columns are not looked at.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
from pathlib import Path
import sys
import traceback
from typing import Any

import jax
import jax.numpy as jnp
import optax

from rlx.errors import ConfigError
from rlx.rewards.host import OnHost
from rlx.run import states, train
from rlx.run.build import build
from rlx.run.opened import config_of
from rlx.run.program import Streaming, over_members
from rlx.run.stages import Run, Stage
from rlx.run.train import Position
from rlx.types import HostRollout, Models, State

DUMP = 'nonfinite'
NOT_LOOKED_AT = ('rewards/', 'episode/')  # NaN where nothing was scored, or no episode ended


@dataclasses.dataclass(frozen=True)
class Found:
  """The first value that is not finite.

  Attributes:
    step: train step that makes it, as in `metrics.jsonl`.
    piece: 'sample', 'reward', 'advantage', 'gradient', 'update' or 'metrics'.
    names: of the columns, parameters or metrics that are not finite behind this piece.
    line: of the source that makes it; '' where nobody asked.
  """

  step: int
  piece: str
  names: tuple[str, ...]
  line: str = ''

  def __str__(self) -> str:
    what = {
        'sample': 'of the rows that were sampled', 'reward': 'of the rows with their rewards',
        'advantage': 'of the rows as the loss takes them', 'gradient': 'of the gradient of',
        'update': 'of what the optimizer makes of a finite gradient of', 'metrics': 'of the metrics',
    }[self.piece]
    told = f'step {self.step}: the first values that are not finite are {what} {_few(self.names)}'
    return f'{told}\n{self.line}' if self.line else told


def _few(names: Sequence[str], *, most: int = 4) -> str:
  rest = f' and {len(names) - most} more' if len(names) > most else ''
  return ', '.join(names[:most]) + rest


def replay(
    place: str | Path, *, disable_jit: bool, say: Callable[[str], None] = lambda text: None
) -> Found | None:
  """Replays a dump, or a run from its newest checkpoint.

  Args:
    place: `WORKDIR/nonfinite`, or a working directory.
    disable_jit: runs the piece in which it arises again in Python, operation by operation, for the line.
    say: told in a line what is done.
  Returns:
    What was found; None where every value is finite.
  Raises:
    ConfigError: there is no such dump, or its run cannot be built.
  """
  place = Path(place)
  workdir, dump = (place.parent, place) if place.name == DUMP else (place, place / DUMP)
  if not (place == workdir or dump.is_dir()):
    raise ConfigError(f'{dump}: there is no such dump; give WORKDIR/{DUMP}, or a working directory')
  told: list[tuple[str, str]] = []  # by the optimizer: piece, parameter
  run = build(config_of(workdir), watched=lambda optimizer: watched(optimizer, told))
  if any(isinstance(stage.rollout, HostRollout) for stage in run.stages):
    raise ConfigError(f'{workdir}: a step with tools in Python cannot be taken apart; look at its metrics')
  try:
    with jax.set_mesh(run.mesh):
      state, position, num_steps = _start(run, workdir, dump, say)
      return _look(run, state, position, num_steps, told, disable_jit)
  finally:
    for stage in run.stages:
      stage.program.close()


def watched(optimizer: optax.GradientTransformation, told: list) -> optax.GradientTransformation:
  """The optimizer, which appends ('gradient' or 'update', parameter) for every array that is not finite."""

  def hear(names, piece, are_finite) -> None:
    told.extend((piece, name) for name, is_finite in zip(names, are_finite, strict=True) if not is_finite)

  def look(piece: str, tree: Any) -> None:
    leaves = named(tree)
    if leaves:
      flags = jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves.values()])
      jax.debug.callback(lambda x: hear(leaves.keys(), piece, x), flags)

  def update(updates, state, params=None):
    look('gradient', updates)
    updates, state = optimizer.update(updates, state, params)
    look('update', updates)
    return updates, state

  return optax.GradientTransformation(optimizer.init, update)


def named(tree: Any) -> dict[str, jax.Array]:
  """The arrays of numbers in a tree by their paths; whole numbers and keys are always finite."""
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  name = lambda path: jax.tree_util.keystr(path, simple=True, separator='/')
  return {name(path): leaf for path, leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)}


def not_finite(tree: Any) -> tuple[str, ...]:
  """Paths of the arrays in a tree that hold an infinite value or NaN."""
  return tuple(name for name, leaf in named(tree).items() if not jnp.isfinite(leaf).all())


# --- where it begins ----------------------------------------------------------------------------------------


def _start(run: Run, workdir: Path, dump: Path, say) -> tuple[State, Position, int]:
  """The state to begin from, where it is, and how many steps there are to take."""
  per_dispatch = run.log.steps_per_dispatch
  if not dump.is_dir():
    state, position = train.restore(run, workdir)
    say(f'{workdir} has no dump; its newest checkpoint is of step {position.step}')
    return *_entered(run, state, position), per_dispatch
  state, position = train.restore(run, workdir, folder=DUMP)
  spoilt = not_finite(state.models)
  if not spoilt:
    say(f'{dump}: the state behind step {position.step}, whose weights are finite')
    return *_entered(run, state, position), per_dispatch
  say(f'{dump}: the state behind step {position.step}, whose weights are not finite: {_few(spoilt)}')
  for step in sorted(_steps(workdir / 'checkpoints'), reverse=True):
    state, at = train.restore(run, workdir, step=step)
    if at.step <= position.step and not not_finite(state.models):
      say(f'replaying from the checkpoint of step {at.step}, whose are')
      state, at = _entered(run, state, at)
      return state, at, position.step + per_dispatch - at.step
  if run.stages[0] is not run.stages[position.stage]:
    raise ConfigError(f'{workdir} has no checkpoint with finite weights; nothing can be replayed')
  say('no checkpoint has finite weights: replaying from the beginning')
  frozen = states.load_frozen(run, 0, {})
  return states.begin(run, 0, {}, 0, frozen), Position(), position.step + per_dispatch


def _steps(folder: Path) -> Iterator[int]:
  return (int(path.name) for path in folder.glob('*') if path.name.isdecimal())


def _entered(run: Run, state: State, position: Position) -> tuple[State, Position]:
  """The same, or the beginning of the next stage where that one is over."""
  if not position.ended or position.stage + 1 == len(run.stages):
    return state, position
  after = Position(stage=position.stage + 1, first_step=position.step, step=position.step)
  frozen = states.load_frozen(run, after.stage, {})
  return states.hand_over(run, after.stage, state, after.step, frozen), after


# --- step by step -------------------------------------------------------------------------------------------


def _look(
    run: Run, state: State, position: Position, num_steps: int, told: list, disable_jit: bool
) -> Found | None:
  """Takes steps until something is not finite."""
  stage = run.stages[position.stage]
  frozen = dict(states.load_frozen(run, position.stage, {}))
  pieces = _Pieces(run, stage, frozen)
  light = state.replace(carried={}, parked={})
  for step in range(position.step + 1, position.step + num_steps + 1):
    value: Any = light
    for piece, take in pieces.of_step(light).items():
      before, value = value, take.compiled(value)
      jax.effects_barrier()
      names = {piece: _faults(value[1 if piece == 'metrics' else 0])}
      for kind in ('gradient', 'update'):  # an update follows its gradient
        names = {kind: tuple(name for one, name in told if one == kind), **names} if told else names
      found = next((one for one in sorted(names, key=_ORDER.index) if names[one]), None)
      if found is not None:
        of_piece = named(value[1 if piece == 'metrics' else 0])
        nan = any(jnp.isnan(of_piece[name]).any() for name in names[found] if name in of_piece)
        line = _line(take.plain, before, infinite=not nan) if disable_jit else ''
        return Found(step, found, tuple(dict.fromkeys(names[found])), line)
    light = value[0]
  return None


_ORDER = ('sample', 'reward', 'advantage', 'gradient', 'update', 'metrics')


def _faults(tree: Any) -> tuple[str, ...]:
  """The columns or metrics that are not finite, but those that may be NaN."""
  return tuple(name for name in not_finite(tree) if not any(part in name for part in NOT_LOOKED_AT))


@dataclasses.dataclass(frozen=True)
class _Piece:
  """A part of a step: as it is run, and as it can be looked into."""

  compiled: Callable
  plain: Callable


class _Pieces:
  """The pieces of the train step of a stage, compiled once."""

  def __init__(self, run: Run, stage: Stage, frozen: Models):
    self._stage, self._frozen, train_step = stage, frozen, stage.train_step
    members = lambda function, axes: over_members(function, run.population, axes)
    self._functions: Mapping[str, Callable] = {
        'sample': members(train_step.sample, (0, None, None)),
        'reward': members(train_step.scored, (0, 0, None)),
        'advantage': members(train_step.annotate, (0, 0, None)),
        'metrics': members(train_step.learn, (0, 0, None, None)),
    }
    on_host = isinstance(train_step.reward, OnHost)
    self._compiled = {
        name: function if name == 'reward' and on_host else jax.jit(function)
        for name, function in self._functions.items()
    }

  def of_step(self, state: State) -> dict[str, _Piece]:
    """Piece -> what takes (rows, world) of the piece before, or the state at first."""
    program = self._stage.program
    data = program.window(state) if isinstance(program, Streaming) else self._stage.rollout.data
    make = lambda which: _Piece(*(self._bound(which, functions, state, data) for functions in self._both))
    return {name: make(name) for name in self._functions}

  @property
  def _both(self) -> tuple[Mapping[str, Callable], Mapping[str, Callable]]:
    return self._compiled, self._functions

  def _bound(self, name: str, functions: Mapping[str, Callable], state: State, data: Any) -> Callable:
    """One piece of the step from a state."""
    frozen, function = self._frozen, functions[name]
    if name == 'sample':
      return lambda _: function(state, data, frozen)
    if name == 'reward':
      return lambda value: (function(state, value[0], frozen), value[1])
    if name == 'advantage':  # for people: `learn` makes it again
      return lambda value: (function(state, value[0], frozen), value)
    return lambda value: function(state.replace(world=value[1][1]), value[1][0], data, frozen)


def _line(piece: Callable, value: Any, *, infinite: bool) -> str:
  """The line of the source in which a piece makes the first value that is not finite, and the operation.

  Args:
    piece: of a step.
    value: that it takes.
    infinite: whether infinities are looked for besides NaN. Many a formula has some that do no harm, such as
      what the maximum of a softmax begins with.
  """
  try:
    with jax.disable_jit(), jax.debug_nans(True), jax.debug_infs(infinite):
      jax.block_until_ready(piece(value))
  except FloatingPointError as error:
    frames = traceback.extract_tb(sys.exc_info()[2])
    ours = [frame for frame in frames if 'site-packages' not in frame.filename]
    where = ours[-1] if ours else frames[-1]
    place = f'{where.filename}:{where.lineno} in {where.name}'
    return f'  {str(error).splitlines()[0]}\n  {place}\n    {where.line}'
  return '  operation by operation in Python every value is finite: it takes the compiled program'
