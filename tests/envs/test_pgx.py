"""Games of pgx, where it is installed, beside the same game of ours."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.games.tictactoe import tictactoe
from rlx.envs.seat_conformance import check_seat_task
from rlx.errors import ConfigError
from rlx.names import resolve


def played_at_random(game, key, *, games):
  """Moves [games, max_moves] (-1 behind the end), and what both got [games, 2], by uniform legal moves."""
  def one(key):
    state = jax.tree.map(lambda x: x[0], game.deals)

    def step(carry, key):
      state, over = carry
      action = jax.random.categorical(key, jnp.where(game.legal(state), 0.0, -jnp.inf))
      new = jax.tree.map(lambda new, old: jnp.where(over, old, new), game.move(state, action), state)
      return (new, over | game.ended(new)), jnp.where(over, -1, action)

    keys = jax.random.split(key, game.max_moves)
    (state, _), moves = jax.lax.scan(step, (state, jnp.bool_(False)), keys)
    return moves, game.payoffs(state)

  return jax.jit(jax.vmap(one))(jax.random.split(key, games))


@pytest.fixture
def ranks():
  """pgx adds arrays of different ranks."""
  pytest.importorskip('pgx')
  with jax.numpy_rank_promotion('allow'):
    yield


def test_noughts_and_crosses_of_pgx_are_ours(ranks):
  world = resolve('pgx:tic_tac_toe', 'rlx.envs')(max_moves=9)
  theirs = played_at_random(world.game, jax.random.key(0), games=200)
  ours = played_at_random(tictactoe(), jax.random.key(0), games=200)
  for x, y in zip(theirs, ours, strict=True):
    np.testing.assert_array_equal(x, y)
  assert {-1.0, 0.0, 1.0} == set(np.unique(ours[1]))


def test_connect_four_keeps_the_contract_and_ends_where_moves_do(ranks):
  world = resolve('pgx:connect_four', 'rlx.envs')(max_moves=6)
  assert world.alphabet == '12abcdefg'
  check_seat_task(world, num=16, max_turns=6)
  moves, paid = played_at_random(world.game, jax.random.key(1), games=8)
  assert (np.asarray(moves) >= 0).all() and (np.asarray(paid) == 0).all()  # four in a row take seven


def test_games_of_another_kind_are_told_in_one_line(ranks):
  with pytest.raises(ConfigError, match='hidden cards'):
    resolve('pgx:kuhn_poker', 'rlx.envs')(max_moves=3)
  with pytest.raises(ConfigError, match='is none of'):
    resolve('pgx:ludo', 'rlx.envs')(max_moves=3)
