"""Who gets which rows: of one learner, of several, of the past; and configs that name seats wrongly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import config as configs
from rlx.config import ConfigError
from rlx.controllers import league as tables_of
from rlx.controllers import schedules
from rlx.envs.worlds import tables
from rlx.models import league as leagues
from rlx.rollout import seats
from rlx.rollout.league import against_league
from rlx.run.build import build
from rlx.types import check
from tests.kuhn_players import KUHN, MODEL, SPEAKER

ONE, TWO = MODEL.init(jax.random.key(0)), MODEL.init(jax.random.key(1))
HOW = dict(
    episodes=12, group_size=3, turn_tokens=1, max_turns=lambda step: schedules.constant(step, value=3)
)
BOTH = {'first': SPEAKER, 'second': SPEAKER}


def drawn(rollout, models):
  return jax.jit(rollout.draw)(models, rollout.begin(jax.random.key(5)), jax.random.key(6))


def test_rows_of_seats_are_one_batch_with_groups_of_a_prompt_and_a_seat():
  rollout = seats.episodes(KUHN, BOTH, learnt=('first', 'second'), **HOW)
  batch, world = drawn(rollout, {'first': ONE, 'second': ONE})
  check(batch)
  assert batch['seats'].tolist() == [0] * 12 + [1] * 12 and world['step'] == 1
  pairs = {(int(g), int(s)) for g, s in zip(batch['groups'], batch['seats'], strict=True)}
  assert len(pairs) == len({g for g, _ in pairs}) == 8
  paid, earned = np.asarray(batch['payoffs']), np.asarray(batch['rewards'])
  np.testing.assert_array_equal(paid[:12], -paid[12:])  # nobody brings money
  assert np.isnan(earned).any() and (np.isnan(earned) | (earned == paid)).all()


@pytest.mark.slow
def test_learners_get_the_rows_of_their_seats_and_frozen_seats_are_in_none():
  models = {'first': ONE, 'second': TWO}
  rollout = seats.for_learners(KUHN, BOTH, learners={'a': ('second',), 'b': ('first',)}, **HOW)
  rows, _ = drawn(rollout, models)
  alone, _ = drawn(seats.episodes(KUHN, BOTH, learnt=('first',), **HOW), models)
  assert set(rows) == {'a', 'b'} and (rows['a']['seats'] == 1).all()
  for name in alone:
    np.testing.assert_array_equal(rows['b'][name], alone[name], err_msg=name)


@pytest.mark.slow
def test_the_past_is_drawn_by_the_table_and_the_learner_sits_everywhere():
  stacked = {
      'policies': jax.tree.map(lambda *x: jnp.stack(x), TWO, ONE, TWO), 'count': jnp.int32(2)
  }
  rollout = against_league(
      KUHN, {'learner': SPEAKER, 'past': SPEAKER}, league_size=3, draw=tables_of.latest, memory=100.0, **HOW
  )
  batch, world = drawn(rollout, {'learner': ONE, 'past': stacked})
  check(batch)
  assert batch['rewards'].shape == (12,) and batch['seats'].tolist() == [0] * 6 + [1] * 6
  assert (batch['league/place'] == 1).all()
  table, count = world['league']
  np.testing.assert_allclose(table.payoffs[3, 1], np.mean(batch['payoffs']), rtol=1e-5)
  np.testing.assert_allclose(table.payoffs[1, 3], -table.payoffs[3, 1], atol=1e-6)
  assert count == 2 and (table.games[3] == jnp.array([0, 12, 0, 0])).all()
  assert leagues.size_of(stacked) == 3


@pytest.mark.parametrize(('changes', 'message'), [
    ({'rollout.names': {'first': 'policy'}}, r"the seats \['second'\] have no model"),
    ({'rollout.names': {'first': 'policy', 'second': 'policy', 'third': 'policy'}}, 'never speak'),
    ({'rollout.learnt': ('first', 'third')}, 'name seats of'),
    ({'rollout.learnt': ()}, 'at least one'),
    ({'rollout.turn_tokens': 9}, 'turn_tokens=9'),
    ({'evals.nash.names': {'first': 'policy'}}, r"the seats \['second'\] have no model"),
    ({'models.other': {'name': 'copy', 'names': {'of': 'policy'}}}, r"\['other'\], which no stage"),
])
def test_configs_that_name_seats_wrongly_are_told_in_one_line(changes, message):
  config = configs.load('selfplay/kuhn_magnet:smoke')
  with config.unlocked():
    for path, value in changes.items():
      *way, last = path.split('.')
      section = config
      for name in way:
        section = section[name]
      if isinstance(value, dict) and last in section:
        del section[last]
      section[last] = value
  with pytest.raises(ConfigError, match=message) as error:
    build(config)
  assert '\n' not in str(error.value)


def test_an_empty_league_is_told_in_one_line():
  config = configs.load('selfplay/kuhn_league:smoke')
  config.models.past.size = 0
  with pytest.raises(ConfigError, match='a league that is empty'):
    build(config)


def test_the_expert_is_shown_at_the_seats_that_are_learnt_where_there_is_one():
  bargain = tables.bargain(moves=2, discount=1.0)
  how = {'episodes': 6, 'turn_tokens': 1, 'max_turns': 2}
  batch, world = drawn(seats.shown(bargain, BOTH, learnt=('second',), **how), {})
  assert batch['seats'].tolist() == [1] * 6 and world['step'] == 1
  said = np.where(batch['action_mask'], batch['tokens'], 0)
  assert [bargain.decode(row[row > 0]) for row in said] == ['y'] * 6 and (batch['rewards'] > 0).all()
  with pytest.raises(ValueError, match='nobody shows how to play'):
    drawn(seats.shown(KUHN, BOTH, learnt=('second',), **how), {})
