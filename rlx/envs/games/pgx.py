"""Board games of pgx, https://github.com/sotetsuk/pgx, which is imported when one is asked for."""

import jax
import jax.numpy as jnp

from rlx.envs.games.game import Game
from rlx.errors import ConfigError, at_least
from rlx.names import imported

_HIDDEN = ('backgammon', 'kuhn_poker', 'leduc_holdem')  # of two players: cards, dice
NOTHING = -1  # in the history, where no move has been made


def board_game(*, game: str, max_moves: int) -> Game:
  """A game of two who move by turns and see all, by its rules in pgx.

  A state is pgx's own, who of its players moves first, and the moves so far. A seat knows the moves.

  Args:
    game: pgx's name for it, such as `connect_four`.
    max_moves: after so many of both together nobody wins.
  Raises:
    ConfigError: pgx is not installed or does not know the name, or the game is none of this kind.
  """
  at_least(1, max_moves=max_moves)
  pgx = imported('pgx', extra='pgx', who=f'pgx:{game}')
  if game not in pgx.available_envs():
    raise ConfigError(f'pgx:{game} is none of {", ".join(pgx.available_envs())}')
  theirs = pgx.make(game)
  if theirs.num_players != 2 or game in _HIDDEN:
    raise ConfigError(f'pgx:{game} has hidden cards, dice, or not two players; take a game of a board')
  begun = theirs.init(jax.random.PRNGKey(0))
  state = {
      'board': begun, 'first': begun.current_player.astype(jnp.int32),
      'history': jnp.full(max_moves, NOTHING, jnp.int32),
  }

  def move(state, action: jax.Array):
    made = jnp.sum(state['history'] != NOTHING)
    return {
        **state, 'board': theirs.step(state['board'], action),
        'history': state['history'].at[made].set(action),
    }

  def ended(state) -> jax.Array:
    board = state['board']
    return board.terminated | board.truncated | (state['history'][-1] != NOTHING)

  def payoffs(state) -> jax.Array:
    paid, first = state['board'].rewards.astype(jnp.float32), state['first']
    return jnp.where(state['board'].terminated, jnp.stack([paid[first], paid[1 - first]]), 0)

  return Game(
      seats=('first', 'second'), num_actions=theirs.num_actions, max_moves=max_moves,
      deals=jax.tree.map(lambda x: x[None], state), legal=lambda state: state['board'].legal_action_mask,
      move=move, ended=ended, payoffs=payoffs, view=lambda state, seat: state['history'], forfeit=1.0,
  )
