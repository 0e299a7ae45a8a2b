"""Who is played next, by a table of payoffs; and Elo numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import tracking
from rlx.controllers import league
from rlx.models import league as leagues

ALL = jnp.ones(3, bool)


def table_of(rows):
  payoffs = jnp.pad(jnp.array(rows, jnp.float32), ((0, 1), (0, 1)))
  return league.Table(payoffs, jnp.ones_like(payoffs))


ROCK_PAPER_SCISSORS = table_of([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])


def test_draws_are_chances_of_those_who_are_there():
  there = jnp.array([True, True, False])
  table = league.record(league.fresh(3), jnp.int32(0), jnp.float32(1.0), jnp.float32(-1.0), 10, memory=10.0)
  np.testing.assert_array_equal(league.latest(table, there, jnp.int32(1)), [0, 1, 0])
  np.testing.assert_array_equal(league.uniform(table, there, jnp.int32(1)), [0.5, 0.5, 0])
  # Against the first all is won, the second was never played: even.
  chances = league.prioritised(table, there, jnp.int32(1), power=1.0, scale=1.0)
  np.testing.assert_allclose(chances, [0, 1, 0], atol=1e-5)
  even = league.prioritised(table, there, jnp.int32(1), power=0.0, scale=1.0)
  np.testing.assert_allclose(even, [0.5, 0.5, 0])


def test_the_mix_of_a_cycle_is_even_and_of_a_best_one_is_that_one():
  mix = league.nash_mix(ROCK_PAPER_SCISSORS, ALL, jnp.int32(0), iterations=400)
  np.testing.assert_allclose(mix, [1 / 3] * 3, atol=0.02)
  best = table_of([[0, 1, 1], [-1, 0, 1], [-1, -1, 0]])
  np.testing.assert_allclose(league.nash_mix(best, ALL, jnp.int32(2), iterations=400), [1, 0, 0], atol=0.02)
  two = league.nash_mix(best, jnp.array([False, True, True]), jnp.int32(2), iterations=400)
  np.testing.assert_allclose(two, [0, 1, 0], atol=0.02)


def test_the_table_remembers_by_halves_and_hands_its_row_to_who_joins():
  table = league.record(league.fresh(2), jnp.int32(0), jnp.float32(1.0), jnp.float32(-1.0), 4, memory=4.0)
  assert table.payoffs[2, 0] == 1 and table.payoffs[0, 2] == -1 and table.games[2, 0] == 4
  table = league.record(table, jnp.int32(0), jnp.float32(0.0), jnp.float32(0.0), 4, memory=4.0)
  np.testing.assert_allclose(table.payoffs[2, 0], 1 / 3)  # two games are left of the first four
  joined = league.joined(table, jnp.int32(1), jnp.bool_(True))
  np.testing.assert_allclose(joined.payoffs[1], [1 / 3, 0, 0], atol=1e-6)
  np.testing.assert_allclose(joined.payoffs[:, 1], [-1 / 3, 0, 0], atol=1e-6)
  np.testing.assert_array_equal(league.joined(table, jnp.int32(1), jnp.bool_(False)).payoffs, table.payoffs)


def test_elo_numbers_give_the_scores_that_were_seen():
  payoffs = jnp.array([[0, 0.5, 0.8], [-0.5, 0, 0.4], [-0.8, -0.4, 0]])
  games = 1000 * (1 - jnp.eye(3))
  ratings = np.asarray(league.elo(payoffs, games, scale=1.0))
  assert ratings[0] > ratings[1] > ratings[2] and abs(ratings.mean()) < 1e-3
  expected = 1 / (1 + 10 ** ((ratings[None] - ratings[:, None]) / 400))
  seen = (np.asarray(payoffs) + 1) / 2
  off = ~np.eye(3, dtype=bool)
  np.testing.assert_allclose((expected * off).sum(1), (seen * off).sum(1), atol=5e-3)


def test_a_league_is_joined_in_a_ring_and_read_one_at_a_time():
  slow = {'past': {'policies': {'w': jnp.zeros((2, 3))}, 'count': jnp.int32(1)}, 'else': jnp.ones(1)}
  track = jax.jit(tracking.into_league('past', of='policy', period=2))
  for update in range(6):
    slow = track(slow, {'policy': {'w': jnp.full(3, update + 1.0)}}, jnp.int32(update))
  assert slow['past']['count'] == 4 and leagues.size_of(slow['past']) == 2
  np.testing.assert_array_equal(slow['past']['policies']['w'][:, 0], [4, 6])  # 2 at 1, 4 at 0, 6 at 1
  np.testing.assert_array_equal(leagues.member(slow['past'], jnp.int32(0))['w'], [4, 4, 4])


def test_an_empty_league_is_refused():
  with pytest.raises(ValueError, match='size=0'):
    leagues.league(None, size=0)
