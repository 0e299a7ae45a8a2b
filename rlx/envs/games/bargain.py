"""Bargaining over three things by alternating offers: what each is worth to a seat, only that seat knows.

A move says which things the mover would take, the other getting the rest; or it accepts what was offered
last. The things are worth 1, 2 and 4 to a seat, in an order of its own, so all bundles are worth unlike, and
the whole 7. Who agrees gets its share of its own 7, times `discount` for each offer that was refused before.
Who never agrees gets nothing.

Source: Rubinstein, 1982, Perfect equilibrium in a bargaining model, for the alternating offers.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.games.game import Game
from rlx.errors import at_least, between

NUM_THINGS, TOTAL = 3, 7
NUM_BUNDLES = 2**NUM_THINGS
ACCEPT = NUM_BUNDLES  # behind the bundles
NOTHING = -1  # in the history, where no move has been made
BUNDLES = (np.arange(NUM_BUNDLES)[:, None] >> np.arange(NUM_THINGS) & 1).astype(np.int32)  # [8, 3]


def bargain(*, moves: int, discount: float) -> Game:
  """The game; a state is `worth` [2, 3] and the moves so far, `history` [moves].

  Args:
    moves: of both together, after which nobody gets anything; at least 2.
    discount: of what is shared, for each offer that was refused, in [0, 1].
  Raises:
    ConfigError: an argument out of its range.
  """
  at_least(2, moves=moves)
  between(0, 1, discount=discount)
  orders = list(itertools.permutations(1 << np.arange(NUM_THINGS)))
  worth = np.array([*itertools.product(orders, orders)], np.int32)
  deals = {'worth': jnp.asarray(worth), 'history': jnp.full((len(worth), moves), NOTHING, jnp.int32)}

  def legal(state) -> jax.Array:
    return (jnp.arange(ACCEPT + 1) < ACCEPT) | (state['history'][0] != NOTHING)

  def move(state, action: jax.Array):
    return {**state, 'history': state['history'].at[made(state)].set(action)}

  def ended(state) -> jax.Array:
    return (made(state) == moves) | jnp.any(state['history'] == ACCEPT)

  def payoffs(state) -> jax.Array:
    offers = made(state) - 1  # where the last move accepts
    taken = jnp.asarray(BUNDLES)[state['history'][offers - 1]]
    shares = jnp.where((jnp.arange(2) == (offers - 1) % 2)[:, None], taken, 1 - taken)
    got = (shares * state['worth']).sum(axis=1) / TOTAL * discount ** jnp.maximum(offers - 1, 0)
    return jnp.where(jnp.any(state['history'] == ACCEPT), got, 0).astype(jnp.float32)

  def view(state, seat) -> jax.Array:
    return jnp.concatenate([state['worth'][seat], state['history']])

  return Game(
      seats=('first', 'second'), num_actions=ACCEPT + 1, max_moves=moves, deals=deals, legal=legal, move=move,
      ended=ended, payoffs=payoffs, view=view, forfeit=0.5,
  )


def made(state) -> jax.Array:
  """[] int32: the moves so far."""
  return jnp.sum(state['history'] != NOTHING)


def pending(state, seat: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The bundle [3] that is offered to a seat, and whether there is one; all zeros where there is none."""
  last = state['history'][made(state) - 1]
  there = (made(state) > 0) & (last != ACCEPT)
  return jnp.where(there, 1 - jnp.asarray(BUNDLES)[last], 0), there


def best_split(worth: jax.Array) -> jax.Array:
  """[] int32: the bundle of the first seat by which both together get most; of equals, the fairest.

  Args:
    worth: [2, 3] of each thing, to each seat.
  """
  bundles = jnp.asarray(BUNDLES)
  got = jnp.stack([bundles @ worth[0], (1 - bundles) @ worth[1]])
  return jnp.argmax(got.sum(axis=0) * (TOTAL + 1) + got.min(axis=0)).astype(jnp.int32)


def asked_for(worth: jax.Array, least: jax.Array) -> jax.Array:
  """[] int32: the cheapest bundle that is worth so much to a seat.

  Args:
    worth: [3], to the seat.
    least: [] int32, in 0..7.
  """
  return jnp.argmax(jnp.asarray(BUNDLES) @ worth == least).astype(jnp.int32)
