"""Episodes against past policies: the one that learns takes each seat in turn, the past sits at the others.

`slow` holds a league (`models/league.py`), which grows by `algorithms/following.joining`. In each train step
one past policy is drawn by a function of the payoffs so far (`controllers/league.py`), and indexed out of the
stack: a league of 16 costs the memory of 16 policies, and the time of one.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from rlx.controllers import league as tables
from rlx.engine import seats as engine
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.errors import ConfigError
from rlx.models import league as leagues
from rlx.rollout import seats
from rlx.rollout.prompts import check_groups
from rlx.rollout.turns import Horizon
from rlx.types import Batch, Key, Models, StatefulRollout, World

LEARNER, PAST = 'learner', 'past'
_DRAW = 3  # beside the keys of `seats.py`


def against_league(
    task: Task, speakers: Mapping[str, Speaker], *, episodes: int, group_size: int, turn_tokens: int,
    max_turns: Horizon, league_size: int, draw: Callable, memory: float,
) -> StatefulRollout:
  """Rows of a policy that plays its past, at every seat of a game as often.

  Args:
    task: a world of two seats or more.
    speakers: `learner`, the policy, and `past`, the league, by `names`.
    episodes: of a batch; the number of seats divides it.
    group_size: episodes a problem and seat.
    turn_tokens: the most tokens of an action.
    max_turns: the most actions of an episode, by the train step.
    league_size: N of the league.
    draw: `(table, present, newest) -> chances [N]`, of `controllers/league.py`.
    memory: games after which a payoff of the learner counts half.
  Returns:
    A `rollout` function; its `world['league']` is the table, and rows have `league/place`, who was played.
  Raises:
    ConfigError: other speakers, or a number of seats that does not fit.
  """
  table_of = seats.as_table(task)
  num = len(table_of.seats)
  if set(speakers) != {LEARNER, PAST} or num < 2:
    raise ConfigError(
        f'against_league has the speakers {sorted(speakers)} and {num} seats; names are learner (the policy) '
        'and past (the league), and there are at least 2 seats'
    )
  check_groups(episodes, num, of='episodes')
  who = [{name: LEARNER if i == own else PAST for i, name in enumerate(table_of.seats)} for own in range(num)]
  plays = [
      seats.played(
          table_of, {seat: speakers[name] for seat, name in one.items()}, episodes=episodes // num,
          group_size=group_size, turn_tokens=turn_tokens, max_turns=max_turns,
      )
      for one in who
  ]

  def begin(key: Key) -> World:
    return {**seats.counting(table_of)(key), 'league': (tables.fresh(league_size), jnp.int32(1))}

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    stacked, (table, count) = models[PAST], world['league']
    if leagues.size_of(stacked) != league_size:
      raise ValueError(f'league_size={league_size}, but the league has room for {leagues.size_of(stacked)}')
    now = stacked[leagues.COUNT]
    newest = (now - 1) % league_size
    table = tables.joined(table, newest, now > count)
    chances = draw(table, jnp.arange(league_size) < now, newest)
    place = jax.random.choice(jax.random.fold_in(key, _DRAW), league_size, p=chances)
    both = {LEARNER: models[LEARNER], PAST: leagues.member(stacked, place)}
    found, paid = [], []
    for own, (one, play) in enumerate(zip(who, plays, strict=True)):
      sat = {seat: both[name] for seat, name in one.items()}
      rows, after = play(sat, {**world, 'step': world['step']}, jax.random.fold_in(key, own))
      found.append(rows[table_of.seats[own]])
      others = jnp.stack([rows[seat]['payoffs'] for seat, name in one.items() if name == PAST])
      paid.append((found[-1]['payoffs'], others))
    own, theirs = (_mean_of(each) for each in zip(*paid, strict=True))
    table = tables.record(table, place, own, theirs, episodes, memory=memory)
    batch = engine.together(dict(enumerate(found)), tuple(range(num)))
    batch['league/place'] = jnp.full(batch['rewards'].shape, place)
    return batch, {**after, 'league': (table, now)}

  return StatefulRollout(begin=begin, draw=rollout, data=None)


def _mean_of(rewards: tuple[jax.Array, ...]) -> jax.Array:
  """[] of rewards of any shapes."""
  return jnp.mean(jnp.concatenate([x.reshape(-1) for x in rewards]))
