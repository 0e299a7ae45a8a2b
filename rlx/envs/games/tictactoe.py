"""Noughts and crosses: three in a row win, an occupied place loses; with best play nobody wins."""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.games.game import Game

PLACES = 9
EMPTY = -1
LINES = np.array([
    [0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6],
])
VALUE = 0.0  # of the first player, where both play their best


def tictactoe() -> Game:
  """The game; a state is `board` [9], the seat that took each place or -1."""

  def move(state, action: jax.Array):
    mover = jnp.sum(state['board'] != EMPTY) % 2
    return {'board': state['board'].at[action].set(mover)}

  def wins(board: jax.Array, seat: int) -> jax.Array:
    return jnp.any(jnp.all(board[LINES] == seat, axis=1))

  def payoffs(state) -> jax.Array:
    won = wins(state['board'], 0) * 1.0 - wins(state['board'], 1)
    return jnp.stack([won, -won])

  def ended(state) -> jax.Array:
    board = state['board']
    return wins(board, 0) | wins(board, 1) | jnp.all(board != EMPTY)

  return Game(
      seats=('crosses', 'noughts'), num_actions=PLACES, max_moves=PLACES,
      deals={'board': jnp.full((1, PLACES), EMPTY, jnp.int32)},
      legal=lambda state: state['board'] == EMPTY, move=move, ended=ended, payoffs=payoffs,
      view=lambda state, seat: state['board'], forfeit=1.0,
  )
