"""Coloured cells of a small grid, visited in an order that nobody says: subgoals whose ends nothing marks.

A demonstrator walks from colour to colour. Each time it reaches one it draws the next, among those that may
follow; its paths are shortest ones around the other colours, with ties drawn. A row holds what it saw and
did,

    begin, o_1, a_1, o_2, a_2, ..., o_T, a_T

where o is the agent's cell: the goal is in no token, a reader infers it from the moves. Some successions of
colours can be left out of the demonstrations. A task is an order of colours (`advance`): reward for the whole
order alone, and another colour on the way ends it. So a policy that was cloned from demonstrations has almost
no chance at an order with successions that it has not seen, though it knows the way to each colour.

Everything is arrays and tables; `demonstrate` and `move` are pure functions for `jit` and `vmap`.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rlx.types import Batch

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left: rows and columns
FAILED = -1


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
  """A grid world.

  Attributes:
    size: cells are numbered row by row, 0 to size² - 1; that is their token, too.
    cells: [K] int32, where the colours are.
    colours: [size²] int32, the colour of each cell or -1.
    landing: [size², 4] int32, where a move leads; against a wall, nowhere else.
    ways: [K, size², 4] bool, moves that are on a shortest path to a colour around the others.
    follows: [K, K] bool, whether demonstrations go from one colour to another.
  """

  size: int
  cells: jax.Array
  colours: jax.Array
  landing: jax.Array
  ways: jax.Array
  follows: jax.Array

  @property
  def first_action(self) -> int:
    """The token of the first of the four moves."""
    return self.size**2

  @property
  def begin(self) -> int:
    """The token in front of every row."""
    return self.size**2 + len(MOVES)

  @property
  def vocab_size(self) -> int:
    """Cells, moves and `begin`."""
    return self.begin + 1

  @property
  def eos_ids(self) -> tuple[int, ...]:
    """Tokens that end a row: the one that never comes behind its first place. Rows are equally long."""
    return (self.begin,)

  @property
  def pad_id(self) -> int:
    """What would stand behind the end of a row."""
    return self.begin


def subgoals(*, size: int, cells: tuple[int, ...], unseen: tuple[tuple[int, int], ...]) -> Grid:
  """A grid with a colour on each of `cells`.

  Args:
    size: of its sides.
    cells: where the colours are, numbered row by row.
    unseen: pairs of colours (from, to) that demonstrations leave out.
  Raises:
    ValueError: a cell outside or twice, a colour that cannot be reached or that none may follow.
  """
  num_cells, num_colours = size**2, len(cells)
  if len(set(cells)) < num_colours or not set(cells) <= set(range(num_cells)):
    raise ValueError(f'cells={cells}: need different cells from 0 to {num_cells - 1}')
  row, column = np.divmod(np.arange(num_cells), size)
  down, right = np.array(MOVES).T
  landing = np.clip(row[:, None] + down, 0, size - 1) * size + np.clip(column[:, None] + right, 0, size - 1)
  colours = np.full(num_cells, -1)
  colours[list(cells)] = np.arange(num_colours)
  follows = ~np.eye(num_colours, dtype=bool)
  for before, after in unseen:
    follows[before, after] = False
  if not follows.any(axis=1).all():
    raise ValueError(f'unseen={unseen} leaves a colour that nothing may follow; allow one')
  ways = np.stack([_ways(landing, colours, goal) for goal in range(num_colours)])
  as_int = lambda x: jnp.asarray(x, jnp.int32)
  return Grid(size, as_int(cells), as_int(colours), as_int(landing), jnp.asarray(ways), jnp.asarray(follows))


def _ways(landing, colours, goal):
  """[size², 4] bool: breadth-first from the goal; paths may begin at other colours, and do not lead there."""
  distance = np.where(colours == goal, 0, np.inf)
  for _ in range(len(colours)):
    open_distance = np.where((colours >= 0) & (colours != goal), np.inf, distance)
    distance = np.where(colours == goal, 0, 1 + open_distance[landing].min(axis=1))
  if np.isinf(distance).any():
    cell = int(np.argmax(np.isinf(distance)))
    raise ValueError(f'cell {cell} has no way to colour {goal}; move the colours apart')
  return open_distance[landing] == distance[:, None] - 1


def start(grid: Grid, key: jax.Array, num: int) -> jax.Array:
  """[num] int32 cells without a colour."""
  plain = jnp.where(grid.colours < 0, 0.0, -jnp.inf)
  return jax.random.categorical(key, plain, shape=(num,)).astype(jnp.int32)


def move(grid: Grid, cells: jax.Array, actions: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Where moves lead [B], and the colour there [B]: -1 for none, and where a wall was in the way."""
  landed = grid.landing[cells, actions]
  return landed, jnp.where(landed == cells, -1, grid.colours[landed])


def advance(progress: jax.Array, entered: jax.Array, order: jax.Array) -> jax.Array:
  """How many colours of an order are visited after entering a cell, [B] int32: all of them when it is done.

  Args:
    progress: [B] int32 before; `FAILED` stays, and so does an order that is done.
    entered: [B] int32 colours, -1 for none.
    order: [K] int32.
  """
  wanted = order[jnp.clip(progress, 0, order.shape[0] - 1)]
  after = jnp.where(entered == wanted, progress + 1, FAILED)
  open_ = (progress >= 0) & (progress < order.shape[0]) & (entered >= 0)
  return jnp.where(open_, after, progress)


def demonstrate(grid: Grid, key: jax.Array, num: int, steps: int) -> Batch:
  """Rows of a demonstrator.

  Args:
    grid: the world.
    key: consumed.
    num: rows.
    steps: T, moves of a row; the last colour may not be reached.
  Returns:
    `tokens` [num, 2 T + 1] int32 (begin, o_1, a_1, ...) and, which no policy sees, `goals` [num, T] int32,
    the colour that each move is meant for.
  """
  start_key, goal_key, key = jax.random.split(key, 3)
  cells = start(grid, start_key, num)
  goals = jax.random.randint(goal_key, (num,), 0, grid.cells.shape[0])
  draw = lambda key, allowed: jax.random.categorical(key, jnp.where(allowed, 0.0, -jnp.inf))

  def step(carry, step_key):
    cells, goals = carry
    action_key, next_key = jax.random.split(step_key)
    actions = draw(action_key, grid.ways[goals, cells])
    landed, entered = move(grid, cells, actions)
    following = jnp.where(entered == goals, draw(next_key, grid.follows[goals]), goals)
    return (landed, following), (cells, actions + grid.first_action, goals)

  _, (seen, done, meant) = jax.lax.scan(step, (cells, goals), jax.random.split(key, steps))
  tokens = jnp.stack([seen, done], axis=-1).astype(jnp.int32)  # [T, B, 2]
  tokens = jnp.moveaxis(tokens, 1, 0).reshape(num, 2 * steps)
  return {'tokens': jnp.pad(tokens, ((0, 0), (1, 0)), constant_values=grid.begin), 'goals': meant.T}
