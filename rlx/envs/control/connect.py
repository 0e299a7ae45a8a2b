"""Stones fall into the columns of a board; a row of them wins. And what can be said of a move, in concepts.

The agent plays against somebody who looks one move ahead, or does not look at all and drops stones anywhere;
either begins every other game. What a move does is told by `concepts`, by rules and from the board alone: an
explanation is a set of them, and `explanations` are all the sets that there can be.

Source: the game is Connect 4 (Allen and Allis, 1988) on a smaller board; the concepts are of the kind of Das
et al., 2023, https://arxiv.org/abs/2309.12482.
"""

from collections.abc import Sequence
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Discrete, Environment, Timestep, timestep
from rlx.types import Key

OWN, OTHER = 0, 1  # whose stones
CONCEPTS = (
    'wins', 'blocks the other', 'makes a threat', 'takes the centre', 'lets the other win', 'is wasted'
)


def connect(*, rows: int, columns: int, length: int, sight: float) -> Environment:
  """A game: 1 for a row of `length` stones, -1 for the other's, 0 for a full board; these end an episode.

  Observations [rows, columns, 2] are 1 where there is a stone, the lowest row first: the agent's own, and the
  other's. An action is a column; a stone for a full one is wasted, and the other plays on. No game has more
  steps than the board has cells. `info` has `success`, whether the game was won. The returns behind a score
  were measured with 4 x 5 cells, rows of 3 and `sight=1`; the expert looks one move ahead and likes threats.

  Args:
    rows: of the board.
    columns: of the board.
    length: stones that make a row: upright, level or slanting.
    sight: probability that the other sees, at each of its moves, where it wins at once, or else where it has
      to block; otherwise its move is random, as it is where there is nothing to see.
  Raises:
    ValueError: a row has less than 2 stones, or does not fit on the board; `sight` is no probability.
  """
  if not 2 <= length <= min(rows, columns):
    raise ValueError(f'length={length} on a board of {rows} x {columns}: at least 2, and at most either side')
  if not 0 <= sight <= 1:
    raise ValueError(f'sight={sight}: it is a probability, in [0, 1]')
  lines = _lines(rows, columns, length)

  def fallen(stones: jax.Array, key: Key) -> jax.Array:
    """The board after a stone of the other."""
    sight_key, key = jax.random.split(key)
    is_open = stones.sum(axis=(0, 2)) < rows
    wins, saves = (_winning(stones, player, lines) for player in (OTHER, OWN))
    best = jnp.where(wins.any(), wins, jnp.where(saves.any(), saves, is_open))
    choices = jnp.where(jax.random.bernoulli(sight_key, sight), best, is_open)
    return dropped(stones, jax.random.categorical(key, jnp.where(choices, 0.0, -jnp.inf)), OTHER)

  def reset(key: Key):
    turn_key, key = jax.random.split(key)
    empty = jnp.zeros((rows, columns, 2))
    stones = jnp.where(jax.random.bernoulli(turn_key), fallen(empty, key), empty)
    return stones, stones

  def step(stones: jax.Array, action: jax.Array, key: Key) -> Timestep:
    moved = dropped(stones, action, OWN)
    won = _has_line(moved, OWN, lines)
    stones = jnp.where(won, moved, fallen(moved, key))
    lost = _has_line(stones, OTHER, lines) & ~won
    over = won | lost | (stones.sum() == rows * columns)
    return timestep(stones, stones, won * 1.0 - lost, terminated=over, success=won)

  return Environment(
      reset=reset, step=step, observation_shape=(rows, columns, 2), actions=Discrete(columns),
      random_return=-0.86, expert_return=0.47, draw=_draw,
  )


def dropped(stones: jax.Array, column: jax.Array, player: int) -> jax.Array:
  """The board [rows, columns, 2] with one more stone; as it was where the column is full."""
  height = stones.sum(axis=2)[:, column].sum().astype(jnp.int32)
  return stones.at[height, column, player].set(1.0, mode='drop')


def concepts(observations: jax.Array, actions: jax.Array, *, length: int) -> jax.Array:
  """Which of `CONCEPTS` a move is an instance of.

  A move wins where it makes a row; blocks where the other would win with a stone in its place; makes a threat
  where the next stone would win in a column in which it would not have before; takes the centre in the middle
  column, or the two of them; lets the other win where the other can make a row at once, and it does not win
  itself; and is wasted in a full column.

  Args:
    observations: [..., rows, columns, 2] before the moves.
    actions: [...] int32 columns.
    length: stones that make a row.
  Returns:
    [..., len(CONCEPTS)] bool.
  """
  *batch, rows, columns, _ = observations.shape
  lines = _lines(rows, columns, length)
  of_one = lambda stones, action: _concepts(stones, action, lines)
  flat = jax.vmap(of_one)(observations.reshape(-1, rows, columns, 2), actions.reshape(-1))
  return flat.reshape(*batch, len(CONCEPTS))


def explanations() -> jax.Array:
  """[22, len(CONCEPTS)] float32: the sets of concepts that go together, 1 where one is in the set."""
  every = np.array(list(itertools.product((0.0, 1.0), repeat=len(CONCEPTS))), np.float32)
  wins, blocks, threatens, centre, lets, wasted = every.astype(bool).T
  fits = ~(wins & (threatens | lets)) & ~(wasted & (wins | blocks | threatens | centre))
  return jnp.array(every[fits])


def sentence(explanation: Sequence[float]) -> str:
  """An explanation in words.

  Args:
    explanation: [len(CONCEPTS)], a row of `explanations`.
  """
  said = [name for name, holds in zip(CONCEPTS, explanation, strict=True) if holds]
  return f'this move {" and ".join(said) or "is a quiet one"}'


def _concepts(stones: jax.Array, action: jax.Array, lines: np.ndarray) -> jax.Array:
  columns = stones.shape[1]
  moved = dropped(stones, action, OWN)
  wasted = (moved == stones).all()
  wins = _has_line(moved, OWN, lines)
  could, can = (_winning(board, OWN, lines) for board in (stones, moved))
  centre = jnp.abs(2 * action - (columns - 1)) <= 1
  return jnp.stack([
      wins,
      _winning(stones, OTHER, lines)[action],
      (can & ~could).any() & ~wins,
      centre & ~wasted,
      _winning(moved, OTHER, lines).any() & ~wins,
      wasted,
  ])


def _winning(stones: jax.Array, player: int, lines: np.ndarray) -> jax.Array:
  """[columns] bool, where a stone of the player makes a row; nowhere if there is one already."""
  tried = jax.vmap(lambda column: dropped(stones, column, player))(jnp.arange(stones.shape[1]))
  made = jax.vmap(lambda board: _has_line(board, player, lines))(tried)
  return made & ~_has_line(stones, player, lines)


def _has_line(stones: jax.Array, player: int, lines: np.ndarray) -> jax.Array:
  return (stones[..., player].reshape(-1)[lines] > 0).all(axis=1).any()


def _lines(rows: int, columns: int, length: int) -> np.ndarray:
  """[N, length] int32 the cells of every row that can be made, counted row by row."""
  lines = []
  for y, x in itertools.product(range(rows), range(columns)):
    for up, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
      cells = [(y + k * up, x + k * right) for k in range(length)]
      if all(0 <= b < rows and 0 <= a < columns for b, a in cells):
        lines.append([b * columns + a for b, a in cells])
  return np.array(lines, np.int32)


def _draw(stones) -> np.ndarray:
  """The board, the agent's stones in blue and the other's in gold."""
  rows, columns, _ = stones.shape
  colors = {OWN: drawing.BLUE, OTHER: drawing.GOLD}
  dots = [((rows - 1 - y, x), colors[player]) for y, x, player in np.argwhere(stones > 0)]
  return drawing.cells(np.full((rows, columns, 3), drawing.PALE), dots)
