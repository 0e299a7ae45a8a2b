"""Rollouts of episodes with several seats: self-play, debate, proposer and solver, judge and writer.

`names: {seat: model}` says who speaks where: one model at several seats is self-play, two are two learners, a
model in `slow` is frozen, and its rows are in no batch. A row is one seat's view of an episode, so everything
that learns from rows learns from these; `groups` are prompt x seat, and every baseline is one of a role.
`advantages/seats.py` has those that are not.

`league.py` has seats at which past policies play.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from rlx.engine import seats as engine
from rlx.engine.speaker import Speaker
from rlx.engine.turns import Turns
from rlx.envs.seats import SeatTask, one_seat
from rlx.envs.text import Task
from rlx.errors import ConfigError, at_least
from rlx.rollout.prompts import check_chance, check_groups, columns_of
from rlx.rollout.turns import Horizon, as_world
from rlx.types import Batch, Key, Models, Rows, StatefulRollout, World

_WORLD = 2  # beside the keys 0 and 1 that are split off, as in `turns.py`
Play = Callable[[Models, World, Key], tuple[dict[str, Batch], World]]


def episodes(
    task: Task, speakers: Mapping[str, Speaker], *, episodes: int, group_size: int, turn_tokens: int,
    max_turns: Horizon, learnt: tuple[str, ...],
) -> StatefulRollout:
  """Draws training problems, and plays `group_size` episodes of each; rows of the seats that are learnt from.

  Args:
    task: the world; a world of turns is one with a single seat, `policy`.
    speakers: seat -> who speaks there, by `names`.
    episodes: E of a batch.
    group_size: episodes a problem; divides `episodes`.
    turn_tokens: the most tokens of an action, its end token included.
    max_turns: the most actions of an episode, of all seats together, by the train step.
    learnt: the seats whose rows make the batch, one after the other; [len(learnt) * E] rows.
  Returns:
    A `rollout` function. Rows have the columns of `engine/turns.as_rows`, and `seats`.
  Raises:
    ValueError: a seat without a speaker, a speaker without a seat, or a size that does not fit.
  """
  world_of = as_table(task)
  check_seats(world_of, learnt)
  play = played(
      world_of, speakers, episodes=episodes, group_size=group_size, turn_tokens=turn_tokens,
      max_turns=max_turns,
  )

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    rows, world = play(models, world, key)
    return engine.together(rows, learnt), world

  return StatefulRollout(begin=counting(world_of), draw=draw, data=None)


def for_learners(
    task: Task, speakers: Mapping[str, Speaker], *, episodes: int, group_size: int, turn_tokens: int,
    max_turns: Horizon, learners: Mapping[str, tuple[str, ...]],
) -> StatefulRollout:
  """The same for several learners: each gets the rows of the seats at which its model sits.

  Args:
    task: as for `episodes`, like all that follows.
    speakers: seat -> who speaks there.
    episodes: of a batch.
    group_size: episodes a problem.
    turn_tokens: of an action.
    max_turns: actions of an episode.
    learners: learner -> its seats, each of one learner; seats of nobody are played and not learnt from.
  Raises:
    ValueError: as for `episodes`, or two learners have one seat.
  """
  world_of, learners = as_table(task), {name: tuple(seats) for name, seats in learners.items()}
  check_seats(world_of, tuple(seat for seats in learners.values() for seat in seats))
  for seats in learners.values():
    check_seats(world_of, seats)
  play = played(
      world_of, speakers, episodes=episodes, group_size=group_size, turn_tokens=turn_tokens,
      max_turns=max_turns,
  )

  def draw(models: Models, world: World, key: Key) -> tuple[Rows, World]:
    rows, world = play(models, world, key)
    return {name: engine.together(rows, seats) for name, seats in learners.items()}, world

  return StatefulRollout(begin=counting(world_of), draw=draw, data=None)


def shown(
    task: Task, speakers: Mapping[str, Speaker], *, episodes: int, turn_tokens: int, max_turns: int,
    learnt: tuple[str, ...],
) -> StatefulRollout:
  """Draws training problems with the episodes of the world's expert at all seats, for supervised stages.

  Args:
    task: as for `episodes`.
    speakers: seat -> who learns to speak there, by `names`; for their decoding.
    episodes: E of a batch, one a problem.
    turn_tokens: the most tokens of an action.
    max_turns: the most actions of an episode, of all seats together.
    learnt: the seats whose rows make the batch.
  Raises:
    ValueError: as for `episodes`.
  """
  world_of = as_table(task)
  check_seats(world_of, learnt)
  at_least(1, episodes=episodes, max_turns=max_turns)
  decoding = engine.decoding_of(world_of, speakers)
  engine.check(world_of, decoding, Turns(turn_tokens, max_turns))

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    problem_key, key = jax.random.split(key)
    problems, drawn = world_of.draw(world['task'], problem_key, episodes)
    rows = engine.demonstrate(
        world_of, problems, key, decoding=decoding, turn_tokens=turn_tokens, max_turns=max_turns
    )
    columns = columns_of(problems, 1)
    batch = engine.together({seat: {**columns, **one} for seat, one in rows.items()}, learnt)
    return batch, {**world, 'task': drawn, 'step': world['step'] + 1}

  return StatefulRollout(begin=counting(world_of), draw=draw, data=None)


def played(
    task: SeatTask, speakers: Mapping[str, Speaker], *, episodes: int, group_size: int, turn_tokens: int,
    max_turns: Horizon,
) -> Play:
  """`(models, world, key) -> ({seat: rows}, world)`; arguments as for `episodes`."""
  check_groups(episodes, group_size, of='episodes')
  ask = asking(task, speakers, group_size=group_size, turn_tokens=turn_tokens, max_turns=max_turns)

  def play(models: Models, world: World, key: Key) -> tuple[dict[str, Batch], World]:
    problem_key, sample_key = jax.random.split(key)
    problems, drawn = task.draw(world['task'], problem_key, episodes // group_size)
    rows = ask(models, problems, sample_key, jax.random.fold_in(key, _WORLD), world['step'])
    return rows, {**world, 'task': drawn, 'step': world['step'] + 1}

  return play


def asking(
    task: SeatTask, speakers: Mapping[str, Speaker], *, group_size: int, turn_tokens: int, max_turns: Horizon
) -> Callable[[Models, Batch, Key, Key, jax.Array], dict[str, Batch]]:
  """`(models, problems, key, world_key, step) -> {seat: rows}`; arguments as for `episodes`."""
  for speaker in speakers.values():
    check_chance(speaker, group_size)
  engine.check(task, engine.decoding_of(task, speakers), Turns(turn_tokens, 2))

  def ask(models: Models, problems: Batch, key: Key, world_key: Key, step: jax.Array) -> dict[str, Batch]:
    rows = engine.sample(
        engine.seen(models, task), speakers, task, problems, key, group_size=group_size,
        turns=Turns(turn_tokens, jnp.maximum(max_turns(step), 1)), world_key=world_key,
    )
    columns = columns_of(problems, group_size)
    return {seat: {**columns, **batch} for seat, batch in rows.items()}

  return ask


def as_table(task: Task) -> SeatTask:
  """A task as a world of seats. Raises `ConfigError` for a data set, which answers nothing."""
  return task if isinstance(task, SeatTask) else one_seat(as_world(task))


def check_seats(task: SeatTask, seats: tuple[str, ...]) -> None:
  """Raises `ConfigError` where these are no seats of a task, each once and at least one."""
  if not seats or sorted(set(seats)) != sorted(seats) or not set(seats) <= set(task.seats):
    raise ConfigError(
        f'rollout: learnt from are {list(seats)}; name seats of {list(task.seats)}, each once, at least one'
    )


def counting(task: SeatTask) -> Callable[[Key], World]:
  """`key -> world` with the task's memory and the number of the train step."""
  return lambda key: {'task': task.begin(key), 'step': jnp.int32(0)}
