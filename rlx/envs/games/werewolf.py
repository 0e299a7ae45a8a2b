"""Werewolf for three, in one night: a wolf, a seer and a villager talk once, then all vote, and that is it.

Who is what is dealt anew, and each knows its own role; the seer also knows who the wolf is. First each may
claim to be the seer and say who the wolf is, or be quiet: the seer does not lie, the villager has nothing to
claim, the wolf says what it likes. Then each votes for one of the others, and all see it. The wolf is hanged
by two votes. The village has 1/2 each and the wolf loses 1 where it is hanged, and else the other way round.

A seat is named as the next one or the one before, so that what is said does not depend on who is dealt what.

Source: LSPO, https://arxiv.org/abs/2502.04686, for the game, which has seven players and more rounds there.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.games.game import Game

SEATS = ('first', 'second', 'third')
WOLF, SEER, VILLAGER = 0, 1, 2
QUIET, NEXT, BEFORE = 0, 1, 2  # moves: nothing is claimed; the next seat, the seat before, is the wolf
NUM_SEATS, MAX_MOVES = 3, 6
NOTHING = -1  # in the history, where no move has been made


def werewolf() -> Game:
  """The game; a state is `roles` [3], of the seats, and the moves so far, `history` [6]."""
  roles = np.array(list(itertools.permutations(range(NUM_SEATS))), np.int32)
  deals = {
      'roles': jnp.asarray(roles), 'history': jnp.full((len(roles), MAX_MOVES), NOTHING, jnp.int32)
  }

  def legal(state) -> jax.Array:
    made = _made(state)
    role, wolf = state['roles'][made % NUM_SEATS], wolf_of(state, made % NUM_SEATS)
    moves = jnp.arange(NUM_SEATS)
    claims = jnp.where(role == WOLF, True, (role == SEER) & (moves == wolf))
    return jnp.where(made < NUM_SEATS, (moves == QUIET) | claims, moves != QUIET)

  def move(state, action: jax.Array):
    return {**state, 'history': state['history'].at[_made(state)].set(action)}

  def payoffs(state) -> jax.Array:
    votes = (jnp.arange(NUM_SEATS) + jnp.where(state['history'][NUM_SEATS:] == NEXT, 1, -1)) % NUM_SEATS
    is_wolf = state['roles'] == WOLF
    hanged = jnp.sum(is_wolf[votes]) >= 2
    return jnp.where(is_wolf, -1.0, 0.5) * jnp.where(hanged, 1.0, -1.0)

  def view(state, seat) -> jax.Array:
    role = state['roles'][seat]
    seen = jnp.where(role == SEER, wolf_of(state, seat), NOTHING)
    return jnp.concatenate([jnp.stack([role, seen]), state['history']])

  return Game(
      seats=SEATS, num_actions=NUM_SEATS, max_moves=MAX_MOVES, deals=deals, legal=legal, move=move,
      ended=lambda state: _made(state) == MAX_MOVES, payoffs=payoffs, view=view, forfeit=1.0,
  )


def wolf_of(state, seat: jax.Array) -> jax.Array:
  """[] int32: NEXT or BEFORE, where the wolf sits as seen from a seat; QUIET from its own."""
  return (jnp.argmax(state['roles'] == WOLF) - seat) % NUM_SEATS


def _made(state) -> jax.Array:
  return jnp.sum(state['history'] != NOTHING)
