"""A game in which there is more than one way to say a thing: talk is free, and means one of a few moves.

The first moves of a game, its talk, are said in one of several wordings that mean the same; others hear which
one. The moves behind them (votes) are as they were. What is heard may depend on the wording, so there are
many more things to know than before, and nothing more that matters: a solver of the game first has to find
out which wordings are one move (`latent.py`).
"""

import jax
import jax.numpy as jnp

from rlx.envs.games.game import Game
from rlx.errors import ConfigError, at_least

NOTHING = -1  # in the history, where no move has been made


def in_wordings(game: Game, *, wordings: int, talked: int) -> Game:
  """The game with W ways to say each of the A moves that are talk.

  There are A (W + 1) moves: wording w of move a is a W + w, and behind the talk, move a is A W + a. A state
  has the `inner` one, and what was `said` so far, [max_moves].

  Args:
    game: what is known in it ends with its history, [max_moves] of moves or -1.
    wordings: W, at least 1.
    talked: how many moves are talk, the first ones of an episode; between 0 and all of them.
  Raises:
    ConfigError: an argument out of its range.
  """
  at_least(1, wordings=wordings)
  if not 0 <= talked <= game.max_moves:
    raise ConfigError(f'talked={talked} of {game.max_moves} moves; in 0..{game.max_moves}')
  num_words = game.num_actions * wordings
  nothing = jnp.full((game.num_deals, game.max_moves), NOTHING, jnp.int32)

  def legal(state) -> jax.Array:
    inner, talks = game.legal(state['inner']), made(state) < talked
    return jnp.concatenate([jnp.repeat(inner, wordings) & talks, inner & ~talks])

  def move(state, action: jax.Array):
    meant = jnp.where(action < num_words, action // wordings, action - num_words)
    said = state['said'].at[made(state)].set(action)
    return {'inner': game.move(state['inner'], meant), 'said': said}

  def view(state, seat) -> jax.Array:
    hand = game.view(state['inner'], seat)[: -game.max_moves]
    return jnp.concatenate([hand, state['said']])

  return Game(
      seats=game.seats, num_actions=num_words + game.num_actions, max_moves=game.max_moves,
      deals={'inner': game.deals, 'said': nothing}, legal=legal, move=move,
      ended=lambda state: game.ended(state['inner']), payoffs=lambda state: game.payoffs(state['inner']),
      view=view, forfeit=game.forfeit,
  )


def made(state) -> jax.Array:
  """[] int32: the moves so far."""
  return jnp.sum(state['said'] != NOTHING)
