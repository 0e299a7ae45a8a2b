"""CFR: what it goes to is known of Kuhn's poker, and at Werewolf nobody gains by another move."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.games import cfr, kuhn, tree, werewolf
from rlx.envs.games.werewolf import BEFORE, NEXT, QUIET, SEER, VILLAGER, WOLF
from rlx.envs.seat_conformance import check_seat_task
from rlx.envs.worlds import tables


@functools.cache
def solved(game, rounds):
  found = tree.written_out(game())
  regrets = jax.jit(functools.partial(cfr.solved, found, rounds=rounds))(cfr.no_regrets(found))
  return found, regrets


@pytest.mark.parametrize(('game', 'most'), [
    (kuhn.kuhn, 0.005), pytest.param(werewolf.werewolf, 0.01, marks=pytest.mark.slow),
])
def test_the_average_strategy_nears_an_equilibrium(game, most):
  found, regrets = solved(game, 400)
  before = float(tree.nash_conv(found, tree.uniform(found)))
  after = float(tree.nash_conv(found, cfr.average_strategy(found, regrets)))
  assert after + 1e-6 >= 0 and after < most and before > 0.3


def test_kuhns_poker_is_worth_what_is_known():
  found, regrets = solved(kuhn.kuhn, 400)
  values = tree.values(found, cfr.average_strategy(found, regrets))
  np.testing.assert_allclose(values, [kuhn.VALUE, -kuhn.VALUE], atol=2e-3)


def test_a_round_by_hand():
  """The first player with a king: to bet gains more than to pass, against who plays by chance."""
  found = tree.written_out(kuhn.kuhn())
  after = cfr.one_round(found, cfr.no_regrets(found))
  [at] = np.flatnonzero((found.views == [2, -1, -1, -1]).all(axis=1) & (found.movers == 0))
  # Passing: half of the time it ends with 1, else it bets or folds: (2 - 1) / 2. Betting: 1 or 2.
  gain = (1.5 - 0.75) / 2  # of betting, over playing half of each
  np.testing.assert_allclose(after.gained[at], [0, gain * 2 / 6], rtol=1e-5)
  assert int(after.rounds) == 1 and float(after.gained.min()) >= 0


def played(roles, moves):
  game = werewolf.werewolf()
  state = {'roles': jnp.array(roles), 'history': jnp.full(6, -1)}
  for action in moves:
    assert game.legal(state)[action], (moves, action)
    state = game.move(state, jnp.int32(action))
  assert game.ended(state)
  return np.asarray(game.payoffs(state)), game


def test_werewolf_by_hand():
  roles = [WOLF, SEER, VILLAGER]  # the wolf sits before the seer, and behind the villager
  talk = [QUIET, BEFORE, QUIET]
  hanged, game = played(roles, [*talk, NEXT, BEFORE, NEXT])
  np.testing.assert_allclose(hanged, [-1, 0.5, 0.5])
  spared, _ = played(roles, [*talk, NEXT, BEFORE, BEFORE])
  np.testing.assert_allclose(spared, [1, -0.5, -0.5])
  begun = {'roles': jnp.array(roles), 'history': jnp.full(6, -1)}
  assert np.asarray(game.view(begun, 1))[1] == BEFORE and np.asarray(game.view(begun, 2))[1] == -1
  lies = game.legal(game.move(begun, jnp.int32(NEXT)))  # the wolf may claim anything, the seer what it saw
  np.testing.assert_array_equal(lies, [True, False, True])


@pytest.mark.slow
@pytest.mark.parametrize('world', [tables.werewolf, lambda: tables.worded_werewolf(wordings=2)])
def test_the_world_keeps_the_contract(world):
  check_seat_task(world(), num=64, max_turns=6)
