"""What a game is: players who move by turns, as pure functions of one state; and its tree, where it is small.

A `Game` knows moves as numbers. Worlds give them words (`envs/worlds/tables.py`); `tree.py` writes a small
game out and says what strategies are worth, exactly.

A move that is not allowed loses: it ends the game, its mover pays `forfeit`, and the others share it.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True, kw_only=True)
class Game:
  """A game of N seats, each of whose moves is one of A. All functions are of *one* state, and compile.

  Attributes:
    seats: names of the seats, in the order in which they move.
    num_actions: A.
    max_moves: after so many the game is over.
    deals: a tree of arrays [D, ...], the states that it begins in, all equally likely.
    legal: `state -> [A] bool`, the moves that are allowed; looked at where the game goes on.
    move: `(state, action []) -> state`, for an allowed move.
    ended: `state -> [] bool`.
    payoffs: `state -> [N] float32`, what each seat gets where the game has ended.
    view: `(state, seat) -> [W] int32`, what a seat knows: its history too, so that it forgets nothing.
    forfeit: what an illegal move costs, in the units of payoffs.
  """

  seats: tuple[str, ...]
  num_actions: int
  max_moves: int
  deals: Any
  legal: Callable[[Any], jax.Array]
  move: Callable[[Any, jax.Array], Any]
  ended: Callable[[Any], jax.Array]
  payoffs: Callable[[Any], jax.Array]
  view: Callable[[Any, int | jax.Array], jax.Array]
  forfeit: float

  @property
  def num_deals(self) -> int:
    return jax.tree.leaves(self.deals)[0].shape[0]

  def forfeited(self, seat: jax.Array) -> jax.Array:
    """[N] float32: what the seats get when one of them makes an illegal move."""
    others = self.forfeit / (len(self.seats) - 1)
    return jnp.where(jnp.arange(len(self.seats)) == seat, -self.forfeit, others).astype(jnp.float32)
