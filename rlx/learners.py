"""Several learners in a train step: one rollout and one reward, then the ordinary step of each on its rows.

The rollout hands `{name: rows}` and the reward takes and gives such a mapping; it may add a name, such as
pairs made of scored rows. Each learner takes its step in the written order and sees the models as those
before it left them. It moves only what it trains, with an optimizer state, memories and noise of its own, so
another learner beside it changes none of its draws. Losses of unlike rows are never added.

    rows, played = play(models(state), world['play'])
    rows = reward(models(state), rows)
    for name in learners:
      state = put_back(state, learner.step(own part of the state, rows[name]))

A learner's algorithm is written as any other. Where it asks for its `rollout` it is given `handed`, the rows
that were handed to it.
"""

from collections.abc import Mapping
import dataclasses
import functools
from typing import Any
import zlib

import jax
import jax.numpy as jnp
import optax

from rlx.step import Step, sampled
from rlx.types import (
  NO_MODELS,
  Annotate,
  Batch,
  HostRollout,
  Key,
  Metrics,
  Models,
  Rollout,
  Rows,
  State,
  StatefulRollout,
  World,
  go_on,
  stateful,
)

PLAY = 'play'  # what the rollout of all remembers, beside the memories of the learners
STEPPED = 'stepped'  # metric of a learner that rests at times: 1 where it took its step
ROWS = 'rows'


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Learner:
  """One of several learners.

  Attributes:
    step: its train step; it draws what it was handed, or from a rollout of its own.
    optimizer: of what it trains.
    trained: models that it moves.
    every: it takes a step at every nth step of the run, from the nth on.
  """

  step: Step
  optimizer: optax.GradientTransformation
  trained: tuple[str, ...]
  every: int


def handed(models: Models, world: World, key: Key) -> tuple[Batch, World]:
  """The rollout of a learner: the rows that it was handed."""
  del models, key
  if ROWS not in world:
    raise ValueError('a learner gets no rows: name it in the rollout or the reward, or give it a rollout')
  return world[ROWS], {name: memory for name, memory in world.items() if name != ROWS}


def make_learners_step(
    rollout: Rollout,
    reward: Annotate,
    learners: Mapping[str, Learner],
) -> Step:
  """The train step of several learners.

  Args:
    rollout: yields rows for each learner by its name.
    reward: scores them; it may add rows of a name.
    learners: in the order of their steps.
  Returns:
    The train step. Metrics are `<learner>/<metric>`.
  Raises:
    ValueError: when it is traced, rows of a name that no learner has, or none for a learner without a rollout
      of its own.
  """
  play = stateful(rollout)
  if isinstance(play, HostRollout) and not play.learners:
    raise ValueError(
        'several learners share no rollout of one speaker with tools in Python; train one model there, or '
        "take rollout.name='host_seats.for_learners'"
    )

  def sample(state: State, data: Any = None, frozen: Models = NO_MODELS) -> tuple[Rows, World]:
    own = state.replace(world=state.world[PLAY])
    rows, played = sampled(play, own, None if data is None else data[PLAY], frozen)
    return rows, {**state.world, PLAY: played}

  def annotate(state: State, rows: Rows, frozen: Models = NO_MODELS) -> Rows:
    seen = {}
    for name, learner in learners.items():
      part = _part(state, name, learner)
      if name in rows:
        seen[name] = learner.step.annotate(part, learner.step.scored(part, rows[name], frozen), frozen)
    return seen

  def learn(state: State, rows: Rows, data: Any, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    _check_names(rows, learners)
    world = {**state.world, PLAY: play.observe(state.world[PLAY], rows)}
    state, metrics = state.replace(world=world), {}
    for name, learner in learners.items():
      take = functools.partial(_take, learner, name, None if data is None else data[name], frozen)
      if learner.every > 1:
        take = functools.partial(_at_times, take, learner.every)
      state, own = take(state, rows.get(name))
      metrics |= {f'{name}/{metric}': value for metric, value in own.items()}
    return state.replace(step=state.step + 1, slow=play.absorb(state.slow, rows)), metrics

  return Step(
      rollout=_rollout(play, learners), sample=sample, reward=reward, annotate=annotate, learn=learn
  )


def optimizer_of(learners: Mapping[str, Learner]) -> optax.GradientTransformation:
  """What begins the optimizer states of all learners, each of its own models."""

  def begin(params: Models):
    return {name: learner.optimizer.init(_own(learner, params)) for name, learner in learners.items()}

  def update(updates, state, params=None):
    raise TypeError('several learners have an optimizer each; there is none of all together')

  return optax.GradientTransformation(begin, update)


def without_rests(row: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
  """The metrics of a step without those of learners that rested in it."""
  at_rest = lambda name: name.endswith(f'/{STEPPED}') and not row[name].any()
  rested = [name.removesuffix(STEPPED) for name in row if at_rest(name)]
  quiet = lambda name: any(name.startswith(prefix) and name != prefix + STEPPED for prefix in rested)
  return {name: x for name, x in row.items() if not quiet(name)}


def _rollout(play: StatefulRollout, learners: Mapping[str, Learner]) -> StatefulRollout:
  """What begins the memories of the rollout and of all learners."""
  rollouts = {PLAY: play, **{name: learner.step.rollout for name, learner in learners.items()}}
  keys = lambda key: {name: key if name == PLAY else _key_of(name, key) for name in rollouts}

  def begin(key: Key) -> World:
    return {name: rollouts[name].begin(own) for name, own in keys(key).items()}

  def warm_up(models: Models, world: World, key: Key) -> World:
    return {name: rollouts[name].warm_up(models, world[name], own) for name, own in keys(key).items()}

  def draw(models: Models, world: World, key: Key):
    raise TypeError('the rollout of several learners is drawn from by their train step')

  def anew(world: World, key: Key) -> World:
    return {name: rollouts[name].anew(world[name], own) for name, own in keys(key).items()}

  def shapes(models: Models, world: World, key: Key) -> tuple[Rows, World]:
    own = {**world[PLAY], 'data': world['data'][PLAY]}
    rows, played = play.shapes(models, own, key)
    return rows, {**{name: x for name, x in world.items() if name != 'data'}, PLAY: played}

  begins_anew = any(rollout.begins_anew for rollout in rollouts.values())
  data = {name: rollout.data for name, rollout in rollouts.items()}
  parts = {
      'begin': begin, 'draw': draw, 'data': data if any(x is not None for x in data.values()) else None,
      'observe': play.observe, 'warm_up': warm_up, 'ahead': play.ahead,
      'anew': anew if begins_anew else go_on,
  }
  if isinstance(play, HostRollout):  # which has data: texts
    return HostRollout(**parts, shapes=shapes, host=play.host, learners=play.learners)
  return StatefulRollout(**parts)


def _take(learner: Learner, name: str, data: Any, frozen: Models, state: State, rows: Batch | None):
  """The step of a learner: the state with what it moved, and its metrics."""
  part = _part(state, name, learner)
  if rows is not None:
    part = part.replace(world={**part.world, ROWS: rows})
  after, metrics = learner.step(part, data, frozen)
  if isinstance(after.world, Mapping) and ROWS in after.world:
    raise ValueError(f'learner {name!r} has a rollout of its own and is handed rows too; leave one')
  return state.replace(
      params={**state.params, **after.params}, slow={key: after.slow[key] for key in state.slow},
      opt_state={**state.opt_state, name: after.opt_state}, world={**state.world, name: after.world},
  ), metrics


def _at_times(take, every: int, state: State, rows: Batch | None):
  """A learner's step where it is due; its metrics are zeros elsewhere, and say so."""
  metrics = jax.eval_shape(take, state, rows)[1]
  due = (state.step + 1) % every == 0
  rest = lambda state, rows: (state, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), metrics))
  state, metrics = jax.lax.cond(due, take, rest, state, rows)
  return state, {**metrics, STEPPED: due.astype(jnp.float32)}


def _part(state: State, name: str, learner: Learner) -> State:
  """The state as a learner sees it: what others train stands still."""
  others = {key: model for key, model in state.params.items() if key not in learner.trained}
  return State(
      step=state.step, params=_own(learner, state.params), slow={**state.slow, **others},
      opt_state=state.opt_state[name], world=state.world[name], key=_key_of(name, state.key),
  )


def _own(learner: Learner, params: Models) -> Models:
  return {name: params[name] for name in learner.trained}


def _key_of(name: str, key: Key) -> Key:
  return jax.random.fold_in(key, zlib.crc32(name.encode()) % 2**31)


def _check_names(rows: Rows, learners: Mapping[str, Learner]) -> None:
  if unknown := sorted(set(rows) - set(learners)):
    raise ValueError(f'there are rows for {unknown}; the learners are {sorted(learners)}')
