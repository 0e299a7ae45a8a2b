"""Mazes for goal-conditioned learning: an observation is [position, goal], and arriving pays 1 and ends.

A layout is rows of cells: `#` is a wall, anything else is free, and letters mark cells that an instance
begins in or heads for. So one layout makes the instance that an agent is tested in (from `S` to `G`) and
those that its data come from: with data from `S` to `M` and from `M` to `G` alone, nobody has ever gone the
whole way, and who reaches `G` from `S` has stitched. `maze` moves continuously, `grid_maze` cell by cell, and
`tabular_maze` is the latter as a table sees it: nothing that is learnt of a cell tells of its neighbours.

Since the goal is a part of the observation, a batch can be relabelled by hand: `achieved`, `goal_of`,
`with_goal` and `relabel` work on columns with any leading axes. `shortest_path` and `shortest_moves` are
policies that know the map, for data sets and as a yardstick.
"""

from collections import deque
from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import (
  Continuous,
  Discrete,
  Environment,
  Timestep,
  timestep,
  with_time_limit,
)
from rlx.types import Batch, Key

CELL = 0.2  # side of a cell; coordinates are 0 in the middle of the maze
STRIDE = CELL / 2  # the longest move along an axis: walls of one cell cannot be jumped
GOAL_RADIUS = CELL / 2
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))  # right, down, left, up: (column, row)
LAYOUTS = {
    'u': """
#######
#S...M#
#####.#
#G....#
#######""",
    'corridor': """
##################
#S......M.......G#
##################""",
    # Above M are two ends to come from, below it two to go to.
    'stitch': """
#########
#S.....A#
###.#####
#..M....#
#####.###
#B.....G#
#########""",
}

Act = Callable[[jax.Array, Key], jax.Array]  # (observations [B, 4], key) -> actions


def maze(*, layout: str, starts: str, goals: str, max_steps: int) -> Environment:
  """Actions are moves of up to half a cell along either axis; into a wall nothing moves along that axis.

  Args:
    layout: a name in `LAYOUTS`, or rows of your own.
    starts: marks of the cells in which episodes begin, e.g. 'S', or 'SM.G' for anywhere in 'u'; the place
      within the cell is random.
    goals: marks of the cells in whose middle the goal is.
    max_steps: after which an episode is cut off.
  Raises:
    ValueError: the layout is not a closed rectangle, no cell has such a mark, or a goal is cut off.
  """

  def step(action):
    return STRIDE * jnp.clip(action, -1, 1)

  return _maze(layout, starts, goals, max_steps, Continuous(2), step, jitter=CELL / 4, random_return=0.0)


def corridor(length: int) -> str:
  """The layout of `length` free cells in a row, from `S` to `G`."""
  wall = '#' * (length + 2)
  return f'{wall}\n#S{"." * (length - 2)}G#\n{wall}'


def grid_maze(*, layout: str, starts: str, goals: str, max_steps: int) -> Environment:
  """`maze` with the actions `MOVES` of one cell each, from middle to middle.

  Random actions arrive in 0.11 of the episodes of 100 steps from `S` to `G` in 'stitch', in 'u' in 0.28.
  """

  def step(action):
    return CELL * jnp.array(MOVES, jnp.float32)[action]

  actions = Discrete(len(MOVES))
  return _maze(layout, starts, goals, max_steps, actions, step, jitter=0.0, random_return=0.11)


def tabular_maze(*, layout: str, starts: str, goals: str, max_steps: int) -> Environment:
  """`grid_maze` that shows `one_hot_cells`, so that networks without hidden layers are tables."""
  env = grid_maze(layout=layout, starts=starts, goals=goals, max_steps=max_steps)

  def reset(key: Key):
    state, seen = env.reset(key)
    return state, one_hot_cells(layout, seen)

  def step(state, action: jax.Array, key: Key) -> Timestep:
    new = env.step(state, action, key)
    return new._replace(observation=one_hot_cells(layout, new.observation))

  return dataclasses.replace(env, reset=reset, step=step, observation_shape=(2 * len(_free(layout)),))


def one_hot_cells(layout: str, observations: jax.Array) -> jax.Array:
  """[..., 2 cells] the positions and the goals in observations [..., 4], one-hot over the free cells each."""
  rows, free = _rows(layout), _free(layout)
  numbers = np.zeros((len(rows), len(rows[0])), np.int32)
  for number, (x, y) in enumerate(free):
    numbers[y, x] = number
  one_hot = lambda place: jax.nn.one_hot(jnp.array(numbers)[_cell(rows, place)], len(free))
  return jnp.concatenate([one_hot(achieved(observations)), one_hot(goal_of(observations))], axis=-1)


def free_cells(layout: str) -> jax.Array:
  """[cells, 2] the middles of the cells that are no walls."""
  return _place(_rows(layout), jnp.array(_free(layout)))


def achieved(observations: jax.Array) -> jax.Array:
  """[..., 2] the positions in observations [..., 4]: the goals that they would have met."""
  return observations[..., :2]


def goal_of(observations: jax.Array) -> jax.Array:
  """[..., 2] the goals in observations [..., 4]."""
  return observations[..., 2:]


def with_goal(observations: jax.Array, goals: jax.Array) -> jax.Array:
  """Observations [..., 4] of the same positions with other goals [..., 2]."""
  return jnp.concatenate([achieved(observations), goals], axis=-1)


def reached(positions: jax.Array, goals: jax.Array) -> jax.Array:
  """[...] bool, True where positions [..., 2] are as good as at the goals [..., 2]."""
  return jnp.linalg.norm(positions - goals, axis=-1) <= GOAL_RADIUS


def relabel(batch: Batch, goals: jax.Array) -> Batch:
  """The batch as it would have been with other goals, which changes what is paid and where it ends.

  Args:
    batch: transitions with `observations, next_observations` [..., 4] and any other columns.
    goals: [..., 2].
  Returns:
    The batch with those goals in both observations, `rewards` 1 and `terminated` where a transition arrives.
    `truncated` is False there, and is otherwise as before.
  """
  arrived = reached(achieved(batch['next_observations']), goals)
  return {
      **batch,
      'observations': with_goal(batch['observations'], goals),
      'next_observations': with_goal(batch['next_observations'], goals),
      'rewards': arrived.astype(jnp.float32),
      'terminated': arrived,
      'truncated': batch['truncated'] & ~arrived,
  }


def shortest_path(layout: str) -> Act:
  """A policy for `maze` that goes from the middle of one cell to the next, the shortest way."""
  rows = _rows(layout)
  table = jnp.array(_moves(rows))

  def act(observations: jax.Array, key: Key) -> jax.Array:
    del key
    here, goals = achieved(observations), goal_of(observations)
    move = table[(*_cell(rows, here), *_cell(rows, goals))]
    ahead = _place(rows, _cells(rows, here) + jnp.array([*MOVES, (0, 0)])[move])
    return jnp.clip((ahead - here) / STRIDE, -1, 1)

  return act


def shortest_moves(layout: str) -> Act:
  """A policy for `grid_maze` that takes the shortest way."""
  rows = _rows(layout)
  table = jnp.array(_moves(rows))

  def act(observations: jax.Array, key: Key) -> jax.Array:
    del key
    move = table[(*_cell(rows, achieved(observations)), *_cell(rows, goal_of(observations)))]
    return jnp.minimum(move, len(MOVES) - 1)  # at the goal there is nothing to do, and an episode has ended

  return act


def _maze(
    layout, starts, goals, max_steps, actions, displacement, *, jitter, random_return
) -> Environment:
  rows = _rows(layout)
  walls = jnp.array([[cell == '#' for cell in row] for row in rows])
  begins, ends = _marked(rows, starts), _marked(rows, goals)
  _check_connected(rows, begins, ends)
  begins, ends = (_place(rows, jnp.array(cells)) for cells in (begins, ends))

  def reset(key: Key):
    start_key, goal_key, jitter_key = jax.random.split(key, 3)
    position = begins[jax.random.randint(start_key, (), 0, begins.shape[0])]
    position += jax.random.uniform(jitter_key, (2,), minval=-jitter, maxval=jitter)
    goal = ends[jax.random.randint(goal_key, (), 0, ends.shape[0])]
    state = jnp.concatenate([position, goal])
    return state, state

  def step(state: jax.Array, action: jax.Array, key: Key) -> Timestep:
    del key
    position, goal = achieved(state), goal_of(state)
    move = displacement(action)
    for axis in (0, 1):
      wanted = position.at[axis].add(move[axis])
      position = jnp.where(walls[_cell(rows, wanted)], position, wanted)
    arrived = reached(position, goal)
    state = jnp.concatenate([position, goal])
    return timestep(state, state, arrived, terminated=arrived, success=arrived)

  def draw(state) -> np.ndarray:
    half = CELL / 2 * np.array([len(rows[0]), len(rows)])
    canvas = drawing.Canvas(-half, half)
    for y, row in enumerate(rows):
      for x in (x for x, mark in enumerate(row) if mark == '#'):
        corner = np.array([x, len(rows) - 1 - y]) * CELL - half  # rows go down, and y up
        canvas.box(corner, corner + CELL, drawing.GREY)
    position, goal = (np.array([place[0], -place[1]]) for place in np.split(state, 2))
    canvas.disc(goal, GOAL_RADIUS, drawing.GREEN)
    canvas.disc(position, CELL / 4, drawing.BLUE)
    return canvas.image

  env = Environment(
      reset=reset, step=step, observation_shape=(4,), actions=actions,
      random_return=random_return, expert_return=1.0, draw=draw,
  )
  return with_time_limit(env, max_steps)


def _rows(layout: str) -> list[str]:
  rows = LAYOUTS.get(layout, layout).split()
  closed = rows and set(rows[0] + rows[-1] + ''.join(row[0] + row[-1] for row in rows)) == {'#'}
  if not closed or len({len(row) for row in rows}) != 1:
    raise ValueError(
        f'layout={layout!r} is neither a name in {sorted(LAYOUTS)} nor rows of one length with `#` all round'
    )
  return rows


def _free(layout: str) -> list[tuple[int, int]]:
  """(column, row) of the cells that are no walls."""
  return [(x, y) for y, row in enumerate(_rows(layout)) for x, mark in enumerate(row) if mark != '#']


def _marked(rows, marks: str) -> list[tuple[int, int]]:
  """(column, row) of the cells with one of the marks."""
  free = set(marks) - {'#'}
  cells = [(x, y) for y, row in enumerate(rows) for x, mark in enumerate(row) if mark in free]
  if not cells:
    raise ValueError(f'no cell has one of the marks {marks!r}; the layout has {sorted(set("".join(rows)))}')
  return cells


def _place(rows, cells: jax.Array) -> jax.Array:
  """[..., 2] the middles of cells [..., 2] (column, row)."""
  middle = jnp.array([len(rows[0]) - 1, len(rows) - 1]) / 2
  return CELL * (cells - jnp.broadcast_to(middle, cells.shape))


def _cells(rows, positions: jax.Array) -> jax.Array:
  """[..., 2] int32 (column, row) of the cells that positions [..., 2] are in."""
  size = jnp.array([len(rows[0]), len(rows)])
  cells = jnp.floor(positions / CELL + jnp.broadcast_to(size / 2, positions.shape)).astype(jnp.int32)
  return jnp.clip(cells, 0, jnp.broadcast_to(size - 1, cells.shape))


def _cell(rows, positions: jax.Array) -> tuple[jax.Array, jax.Array]:
  """(row, column), as arrays are indexed."""
  cells = _cells(rows, positions)
  return cells[..., 1], cells[..., 0]


def _distances(rows, goal) -> np.ndarray:
  """[rows, columns] the number of moves from each cell to the goal; infinite where there is no way."""
  distances = np.full((len(rows), len(rows[0])), np.inf)
  distances[goal[1], goal[0]] = 0
  queue = deque([goal])
  while queue:
    x, y = queue.popleft()
    for dx, dy in MOVES:
      if rows[y + dy][x + dx] != '#' and np.isinf(distances[y + dy, x + dx]):
        distances[y + dy, x + dx] = distances[y, x] + 1
        queue.append((x + dx, y + dy))
  return distances


def _moves(rows) -> np.ndarray:
  """[row, column, goal row, goal column] int32 the first move on a shortest way; len(MOVES) at the goal."""
  free = _free('\n'.join(rows))
  table = np.full((len(rows), len(rows[0])) * 2, len(MOVES), np.int32)
  for goal in free:
    distances = _distances(rows, goal)
    for x, y in free:
      if (x, y) != goal:
        table[y, x, goal[1], goal[0]] = np.argmin([distances[y + dy, x + dx] for dx, dy in MOVES])
  return table


def _check_connected(rows, begins, ends):
  for end in ends:
    distances = _distances(rows, end)
    for x, y in begins:
      if np.isinf(distances[y, x]):
        raise ValueError(f'no way leads from the cell {(x, y)} to {end}; open one in the layout')
