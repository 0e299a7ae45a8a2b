"""Games and their trees: values that are known, and a plain recursion as the oracle."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.games import kuhn, tictactoe, tree

KUHN, CROSSES = kuhn.kuhn(), tictactoe.tictactoe()
TREE = tree.written_out(KUHN)


def row(tree_, seat, *view):
  """The information set of a seat that knows this much."""
  same = (tree_.views == np.array(view)).all(axis=1) & (tree_.movers == seat)
  (found,) = np.flatnonzero(same)
  return found


def equilibrium(alpha):
  """Kuhn's own family: how often each card bets, or calls, of [I, 2]."""
  bets = {
      (0, 0, -1, -1, -1): alpha, (0, 1, -1, -1, -1): 0.0, (0, 2, -1, -1, -1): 3 * alpha,
      (0, 0, 0, 1, -1): 0.0, (0, 1, 0, 1, -1): alpha + 1 / 3, (0, 2, 0, 1, -1): 1.0,
      (1, 0, 0, -1, -1): 1 / 3, (1, 1, 0, -1, -1): 0.0, (1, 2, 0, -1, -1): 1.0,
      (1, 0, 1, -1, -1): 0.0, (1, 1, 1, -1, -1): 1 / 3, (1, 2, 1, -1, -1): 1.0,
  }
  table = np.zeros((12, 2), np.float32)
  for name, bet in bets.items():
    table[row(TREE, *name)] = 1 - bet, bet
  return jnp.asarray(table)


def test_kuhn_has_twelve_information_sets_and_its_payoffs():
  assert len(TREE.views) == 12 and [len(level.info) for level in TREE.levels] == [6, 12, 24, 12]
  play = lambda cards, *moves: {
      'cards': jnp.array(cards), 'history': jnp.array([*moves, *[-1] * (3 - len(moves))])}
  for cards, moves, won in (
      ((2, 0), (0, 0), 1), ((0, 2), (1, 1), -2), ((0, 1), (1, 0), 1), ((2, 1), (0, 1, 0), -1),
      ((2, 1), (0, 1, 1), 2),
  ):
    state = play(cards, *moves)
    assert KUHN.ended(state)
    np.testing.assert_array_equal(KUHN.payoffs(state), [won, -won])


@pytest.mark.parametrize('alpha', [0.0, 0.2, 1 / 3])
def test_kuhns_equilibria_are_worth_their_value_and_cannot_be_exploited(alpha):
  table = equilibrium(alpha)
  np.testing.assert_allclose(tree.values(TREE, table), [kuhn.VALUE, -kuhn.VALUE], atol=1e-6)
  np.testing.assert_allclose(tree.nash_conv(TREE, table), 0, atol=1e-6)


def test_uniform_play_is_eleven_twelfths_from_nash():
  np.testing.assert_allclose(tree.nash_conv(TREE, tree.uniform(TREE)), 11 / 12, rtol=1e-6)


def test_an_illegal_move_is_worth_its_forfeit():
  none = jnp.zeros((12, 2))
  np.testing.assert_allclose(tree.values(TREE, none), [-2, 2])
  np.testing.assert_allclose(tree.nash_conv(TREE, none), 4, rtol=1e-6)  # either could win the other's two
  half = 0.5 * equilibrium(0.2)
  assert tree.nash_conv(TREE, half) > 1


def test_who_draws_a_strategy_and_keeps_to_it_gets_the_mean_of_what_they_get():
  """Of either seat, against any strategy of the other; the plain mean of tables does not (Kuhn, 1953)."""
  rng = np.random.default_rng(0)
  drawn = lambda *sizes: jnp.asarray(rng.dirichlet(np.full(2, 0.3), size=(*sizes, 12)), jnp.float32)
  strategies, other, weights = drawn(3), drawn(), jnp.array([0.5, 0.3, 0.2])
  mix = tree.mixed(TREE, strategies, weights)
  np.testing.assert_allclose(mix.sum(axis=1), 1, rtol=1e-6)
  for seat in (0, 1):
    own = (TREE.movers == seat)[:, None]
    against = lambda table, own=own: tree.values(TREE, jnp.where(own, table, other))
    expected = weights @ jnp.stack([against(table) for table in strategies])
    np.testing.assert_allclose(against(mix), expected, atol=1e-6)
    if seat == 0:  # who moves twice
      plain = against(jnp.einsum('m,mia->ia', weights, strategies))
      assert np.abs(plain - expected).max() > 1e-3


def oracle(game, state, seat, play, chances):
  """What a state is worth to the seats, one position after the other."""
  if game.ended(state):
    return np.asarray(game.payoffs(state), np.float64)
  total, left = np.zeros(len(game.seats)), 1.0
  for action in np.flatnonzero(game.legal(state)):
    chance = chances(state, seat)[action]
    after = play(state, int(action))
    total, left = total + chance * oracle(game, after, 1 - seat, play, chances), left - chance
  return total + left * np.asarray(game.forfeited(jnp.int32(seat)))


def test_values_are_those_of_a_plain_recursion():
  table = np.random.default_rng(0).dirichlet((1, 1, 1), size=12)[:, :2].astype(np.float32)
  play = jax.jit(KUHN.move)
  view = jax.jit(KUHN.view)
  chances = lambda state, seat: table[row(TREE, seat, *np.asarray(view(state, seat)))]
  deals = [jax.tree.map(lambda x, i=i: x[i], KUHN.deals) for i in range(6)]
  expected = np.mean([oracle(KUHN, deal, 0, play, chances) for deal in deals], axis=0)
  np.testing.assert_allclose(tree.values(TREE, jnp.asarray(table)), expected, rtol=1e-5)


@pytest.mark.slow
def test_noughts_and_crosses_is_a_draw():
  """Alternating best answers (policy iteration of two players) ends where nobody can do better."""
  found = tree.written_out(CROSSES)
  assert sum(len(level.info) for level in found.levels) == 5478  # known: positions that can be reached
  random = tree.uniform(found)
  np.testing.assert_allclose(tree.values(found, random)[0], 0.5849 - 0.2881, atol=1e-3)  # known: of chance
  np.testing.assert_allclose(tree.nash_conv(found, _minimax(found)), 0, atol=1e-6)


def _minimax(found):
  """[I, 9], the best move of each position, level by level."""
  table, worth = np.zeros(found.legal.shape, np.float32), None
  for depth in reversed(range(len(found.levels))):
    level, sign = found.levels[depth], 1 - 2 * (depth % 2)
    here = level.payoffs[:, 0].copy()
    if worth is not None:
      best = np.where(level.legal, sign * worth[level.child], -np.inf).argmax(axis=1)
      goes_on = level.info >= 0
      here[goes_on] = worth[level.child[np.arange(len(best)), best]][goes_on]
      table[level.info[goes_on], best[goes_on]] = 1
    worth = here
  return jnp.asarray(table)


def test_a_payoff_that_is_no_number_is_said():
  broken = dataclasses.replace(KUHN, payoffs=lambda state: jnp.array([jnp.nan, 0.0]))
  with pytest.raises(ValueError, match='not finite'):
    tree.written_out(broken)
