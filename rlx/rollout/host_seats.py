"""Rollouts of episodes with several seats whose table is Python, and where any seat may have tools.

`names: {seat: model}` says who speaks where, as in `seats.py`. A text with calls goes to the tools of the
seat, which reads the results and speaks on (`host_turns.py`); a text without one goes to the table
(`tabletop.py`), which says what seats read, what they are paid, and who is next. Every seat reads the prompt
of the row, what `reset` told it, and then what it is told alone.

A row is one seat's view of an episode: what it said counts (`action_mask`), what tools or the table wrote is
read. Where a table, or a world of tools, was lost, the rows of all seats of the episode are left out.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from rlx.data.dataset import Dataset
from rlx.engine.seats import together
from rlx.engine.speaker import Speaker
from rlx.rollout.circle import Circle
from rlx.rollout.host_turns import Horizon
from rlx.rollout.prompts import check_chance, check_groups
from rlx.rollout.seats import check_seats
from rlx.rollout.tabletop import Tabletop
from rlx.rollout.toolbox import Toolbox
from rlx.types import Batch, HostRollout, Key, Models, Rows, World


def episodes(
    task: Dataset, speakers: Mapping[str, Speaker], table: Tabletop, toolboxes: Mapping[str, Toolbox], *,
    episodes: int, group_size: int, num_slots: int, turn_tokens: int, max_turns: Horizon,
    learnt: tuple[str, ...],
) -> HostRollout:
  """Draws training problems, and plays `group_size` episodes of each; rows of the seats that are learnt from.

  Args:
    task: the data set. Its columns begin the tables.
    speakers: seat -> who speaks there, by `names`. Their `max_tokens` is the room of each seat behind its
      prompt, what it reads included.
    table: in Python.
    toolboxes: seat -> what it may call; a seat that is not named calls nothing.
    episodes: E of a batch.
    group_size: episodes a problem; divides `episodes`.
    num_slots: episodes that are in the loop at a time; 0 for all.
    turn_tokens: the most tokens of a turn, its end token included.
    max_turns: the most turns of an episode, of all seats together and those with calls included, by the train
      step.
    learnt: the seats whose rows make the batch, one after the other; [len(learnt) * E] rows.
  Returns:
    A rollout on the host; the columns are those of `engine.seats.sample` without `anchors`, `scored`, and
    `tools/..`.
  Raises:
    ValueError: a seat without a speaker, a speaker without a seat, a toolbox of nobody, or a size that does
      not fit.
  """
  check_seats(table, learnt)
  circle = Circle(
      task, speakers, table, toolboxes, group_size=group_size, num_slots=num_slots, turn_tokens=turn_tokens
  )
  return _drawing(circle, speakers, episodes, max_turns, lambda rows: together(rows, learnt), ())


def for_learners(
    task: Dataset, speakers: Mapping[str, Speaker], table: Tabletop, toolboxes: Mapping[str, Toolbox], *,
    episodes: int, group_size: int, num_slots: int, turn_tokens: int, max_turns: Horizon,
    learners: Mapping[str, tuple[str, ...]],
) -> HostRollout:
  """The same for several learners: each gets the rows of the seats at which its model sits.

  Args:
    task: as for `episodes`, like all that follows.
    speakers: seat -> who speaks there.
    table: in Python.
    toolboxes: of seats.
    episodes: of a batch.
    group_size: episodes a problem.
    num_slots: in the loop.
    turn_tokens: of a turn.
    max_turns: turns of an episode.
    learners: learner -> its seats, each of one learner; seats of nobody are played and not learnt from.
  Raises:
    ValueError: as for `episodes`, or two learners have one seat.
  """
  learners = {name: tuple(seats) for name, seats in learners.items()}
  check_seats(table, tuple(seat for seats in learners.values() for seat in seats))
  for seats in learners.values():
    check_seats(table, seats)
  circle = Circle(
      task, speakers, table, toolboxes, group_size=group_size, num_slots=num_slots, turn_tokens=turn_tokens
  )
  chosen = lambda rows: {name: together(rows, seats) for name, seats in learners.items()}
  return _drawing(circle, speakers, episodes, max_turns, chosen, tuple(learners))


def _drawing(
    circle: Circle, speakers: Mapping[str, Speaker], episodes: int, max_turns: Horizon,
    chosen: Callable[[dict[str, Batch]], Rows], learners: tuple[str, ...],
) -> HostRollout:
  """A rollout of the rows that are chosen of all seats'."""
  task, num_groups = circle.task, check_groups(episodes, circle.group_size, of='episodes')
  for speaker in speakers.values():
    check_chance(speaker, circle.group_size)
  chosen = jax.jit(chosen)  # as one program; they are NumPy arrays before it and behind it

  def draw(models: Models, world: World, key: Key) -> tuple[Rows, World]:
    problem_key, sample_key = jax.random.split(key)
    problems, drawn = task.draw({**world['task'], 'data': world['data']}, problem_key, num_groups)
    rows = circle.sample(
        models, problems, sample_key, record=f'step_{int(world["at_step"]):08d}',
        max_turns=max(int(max_turns(world['step'])), 1),
    )
    return jax.device_get(chosen(rows)), {'task': drawn, 'step': world['step'] + 1}

  def shapes(models: Models, world: World, key: Key) -> tuple[Rows, World]:
    problems, drawn = task.draw({**world['task'], 'data': world['data']}, key, num_groups)
    return chosen(circle.shapes(models, problems, key)), {'task': drawn, 'step': world['step'] + 1}

  return HostRollout(
      begin=lambda key: {'task': task.begin(key), 'step': jnp.int32(0)}, draw=draw, data=task.data,
      shapes=shapes, host=circle, learners=learners,
  )
