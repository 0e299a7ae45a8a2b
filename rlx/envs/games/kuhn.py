"""Kuhn's poker: three cards, one each, a coin in the pot of either, and one bet of one more.

    pass, pass: the higher card takes 1      bet, bet: the higher card takes 2
    bet, pass: the one who bet takes 1       pass, bet, bet: the higher card takes 2
    pass, bet, pass: the second takes 1

The first player's best is to lose 1/18 a game; uniform play has a NashConv of 11/12.

Source: Kuhn, 1950, A simplified two-person poker.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.games.game import Game

PASS, BET = 0, 1
NUM_CARDS, MAX_MOVES = 3, 3
VALUE = -1 / 18  # of the first player, where both play their best
SIDES = np.array([1.0, -1.0], np.float32)
NOTHING = -1  # in the history, where no move has been made


def kuhn(*, handicap: float = 0.0) -> Game:
  """The game; a state is `cards` [2] in 0..2 and the moves so far, `history` [3].

  Args:
    handicap: what the first player pays the second for every game; it changes what the seats are worth, and
      not how they are best played.
  """
  cards = np.array(list(itertools.permutations(range(NUM_CARDS), 2)), np.int32)
  deals = {
      'cards': jnp.asarray(cards), 'history': jnp.full((len(cards), MAX_MOVES), NOTHING, jnp.int32)
  }

  def move(state, action: jax.Array):
    made = jnp.sum(state['history'] != NOTHING)
    return {**state, 'history': state['history'].at[made].set(action)}

  def ended(state) -> jax.Array:
    first, second, third = state['history']
    return (third != NOTHING) | (second == PASS) | ((first == BET) & (second == BET))

  def payoffs(state) -> jax.Array:
    first, second, third = state['history']
    folds_first = (first == PASS) & (second == BET) & (third == PASS)
    folds_second = (first == BET) & (second == PASS)
    stake = jnp.where((first == BET) | (second == BET), 2.0, 1.0)
    higher = jnp.where(state['cards'][0] > state['cards'][1], stake, -stake)
    won = jnp.where(folds_first, -1.0, jnp.where(folds_second, 1.0, higher))
    return jnp.stack([won, -won]) - handicap * SIDES

  def view(state, seat) -> jax.Array:
    return jnp.concatenate([state['cards'][seat][None], state['history']])

  return Game(
      seats=('first', 'second'), num_actions=2, max_moves=MAX_MOVES, deals=deals,
      legal=lambda state: jnp.ones(2, bool), move=move, ended=ended, payoffs=payoffs, view=view,
      forfeit=2.0 + 2.0 * handicap,  # never less than what can be lost
  )
