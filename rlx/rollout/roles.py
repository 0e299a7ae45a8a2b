"""Episodes of several seats in which the models change places: who was the first one is the second one next.

A learner's rows are those of the seat at which its model has sat, by turns of each. So every model learns
every role, and none has a role of its own; `seats` says which one a row is of.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.errors import ConfigError, at_least
from rlx.rollout.crowd import stacked
from rlx.rollout.seats import as_table, counting, played
from rlx.rollout.turns import Horizon
from rlx.types import Key, Models, Rows, StatefulRollout, World


def rotated(
    task: Task, speakers: Mapping[str, Speaker], *, episodes: int, group_size: int, turn_tokens: int,
    max_turns: Horizon, learners: Mapping[str, str], period: int,
) -> StatefulRollout:
  """As `seats.for_learners`, but every `period` train steps each model moves on by one seat.

  Args:
    task: the world, as for `seats.for_learners`.
    speakers: seat -> who sits there at first, by `names`; of one shape.
    episodes: of a batch; each learner gets as many rows.
    group_size: episodes a problem.
    turn_tokens: of an action.
    max_turns: actions of an episode.
    learners: learner -> the seat at which its model sits at first; one for each seat.
    period: train steps from one change to the next.
  Raises:
    ValueError: as for `seats.for_learners`, or there is not one learner for each seat.
  """
  at_least(1, period=period)
  table, learners = as_table(task), dict(learners)
  seats = table.seats
  if sorted(learners.values()) != sorted(seats):
    raise ConfigError(f'rollout.learners={learners}: one learner for each of the seats {list(seats)}')
  play = played(
      table, speakers, episodes=episodes, group_size=group_size, turn_tokens=turn_tokens, max_turns=max_turns
  )

  def draw(models: Models, world: World, key: Key) -> tuple[Rows, World]:
    moved = places_moved(world['step'], period=period, num_seats=len(seats))
    params = stacked([models[seat] for seat in seats], list(seats))
    sitting = jax.tree.map(lambda x: jnp.roll(x, moved, axis=0), params)
    at_seats = {seat: jax.tree.map(lambda x, i=i: x[i], sitting) for i, seat in enumerate(seats)}
    rows, world = play(at_seats, world, key)
    of_all = jax.tree.map(lambda *x: jnp.stack(x), *[rows[seat] for seat in seats])
    own = jax.tree.map(lambda x: jnp.roll(x, -moved, axis=0), of_all)
    of_seat = lambda seat: jax.tree.map(lambda x: x[seats.index(seat)], own)
    return {name: of_seat(seat) for name, seat in learners.items()}, world

  return StatefulRollout(begin=counting(table), draw=draw, data=None)


def places_moved(step: jax.Array, *, period: int, num_seats: int) -> jax.Array:
  """[] int32: how many seats further each model sits at a train step."""
  return (step // period) % num_seats
