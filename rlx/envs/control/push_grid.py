"""Blocks on a grid that are pushed to where they belong, and an agent that has a place of its own to end at.

An observation is the places [x, y] of N + 1 entities, the agent first, and behind them the place where each
is wanted. The blocks are alike but for that: to exchange two blocks together with their goals changes
nothing, and instances that differ in `num_blocks` differ in the length of the observation alone. A block
cannot enter the outermost ring of cells, so a lone block can be pushed from all sides wherever it is.

Every task is long: the agent walks round a block to push it, block after block. `pusher` is a policy that
knows how.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Discrete, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key

CELL = 1.0  # side of a cell; coordinates are 0 in the middle of the grid
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))  # [x, y]
_FAR = 1e6  # longer than any way

Act = Callable[[jax.Array, Key], jax.Array]  # (observations [B, O], key) -> actions [B]


def push_grid(*, size: int, num_blocks: int, max_steps: int) -> Environment:
  """Pays 1 when every entity is where it is wanted, which ends the episode, and 0 before.

  An action is a move to a neighbouring cell. A block that is there moves on in the same direction; where it
  cannot, because of the ring or another block, nothing moves. `info` has `success`, and `placed`, the share
  of the blocks that are where they are wanted. With size=5 and 30 steps a block, `pusher` arrives in 0.87 of
  the episodes with 2 blocks and in 0.55 with 3, random actions in 0.01 with 2; the most that can be had is
  taken for the expert's return.

  Args:
    size: cells along each side of the grid; blocks stay within the size - 2 in the middle.
    num_blocks: N.
    max_steps: after which an episode is cut off.
  Raises:
    ValueError: the blocks do not leave room to be moved.
  """
  inner = size - 2
  if num_blocks < 1 or inner**2 < 2 * num_blocks:
    raise ValueError(
        f'num_blocks={num_blocks} on a grid of size={size}: at least 1, and at most half of the '
        f'{max(inner, 0) ** 2} cells within the outermost ring'
    )

  def reset(key: Key):
    begin_key, goal_key = jax.random.split(key)
    state = _scattered(begin_key, size, num_blocks), _scattered(goal_key, size, num_blocks)
    return state, _observe(state, size)

  def step(state, action: jax.Array, key: Key) -> Timestep:
    del key
    cells, goals = state
    state = moved(cells, action, size=size), goals
    there = (state[0] == goals).all(axis=-1)
    arrived = there.all()
    return timestep(
        state, _observe(state, size), arrived, terminated=arrived, success=arrived, placed=there[1:].mean()
    )

  def draw(state) -> np.ndarray:
    """Blocks in blue and the agent in red; the cells where they are wanted are of pale gold and red."""
    places = [[(size - 1 - y, x) for x, y in np.asarray(entities)] for entities in state]
    colors = np.full((size, size, 3), drawing.PALE, float)
    for i, place in enumerate(places[1]):
      colors[place] = drawing.shaded(0.5, drawing.RED if i == 0 else drawing.GOLD, drawing.PAPER)
    whose = [drawing.RED] + [drawing.BLUE] * num_blocks
    return drawing.cells(colors, list(zip(places[0], whose, strict=True)))

  env = Environment(
      reset=reset, step=step, observation_shape=(4 * (num_blocks + 1),), actions=Discrete(len(MOVES)),
      random_return=0.0, expert_return=1.0, draw=draw,
  )
  return with_time_limit(env, max_steps)


def moved(cells: jax.Array, action: jax.Array, *, size: int) -> jax.Array:
  """[N + 1, 2] int32, where the entities are after a move of the agent, the first of them."""
  agent, blocks = cells[0], cells[1:]
  move = jnp.array(MOVES)[action]
  pushed = (blocks == (agent + move)[None]).all(axis=-1)
  new_blocks = blocks + jnp.where(pushed[:, None], move[None], 0)
  in_ring = ((new_blocks < 1) | (new_blocks > size - 2)).any()
  same = (new_blocks[:, None] == new_blocks[None]).all(axis=-1)
  outside = ((agent + move < 0) | (agent + move >= size)).any()
  blocked = in_ring | outside | (same.sum() > blocks.shape[0])
  return jnp.where(blocked, cells, jnp.concatenate([(agent + move)[None], new_blocks]))


def pusher(size: int) -> Act:
  """A policy that puts block after block in place, in the order in which their goals are read, then itself.

  It takes the nearest side from which a push brings the block closer, and leaves a block for the next one
  where there is none. It does not look ahead, so that blocks may stand in each other's way.
  """
  moves = jnp.array(MOVES)

  def act_on_one(observation: jax.Array, key: Key) -> jax.Array:
    cells, goals = (_cells(x, size) for x in jnp.split(observation, 2))
    blocks = cells[1:]
    free = jnp.ones((size, size), bool).at[blocks[:, 0], blocks[:, 1]].set(False)

    def from_side(block, goal, move):
      """The length of the way to the side to push from, and the first action of it."""
      side, target = block - move, block + move
      useful = (jnp.dot(goal - block, move) > 0) & free[target[0], target[1]] & free[side[0], side[1]]
      length, action = first_move(side)
      length, action = jnp.where(useful, length, _FAR), jnp.where(length > 0, action, _number(move))
      return length, action

    def first_move(target):
      lengths = _lengths(free, target)
      onward = _neighbours(lengths)[:, cells[0, 0], cells[0, 1]]
      return lengths[cells[0, 0], cells[0, 1]], jnp.argmin(onward).astype(jnp.int32)

    each_side = jax.vmap(jax.vmap(from_side, (None, None, 0)), (0, 0, None))
    lengths, actions = each_side(blocks, goals[1:], moves)  # [N, 4]
    rank = goals[1:, 0] + size * goals[1:, 1]
    costs = jnp.where(lengths < _FAR, lengths + 1000.0 * rank[:, None], jnp.inf)  # no way is as long as 1000
    push = actions.reshape(-1)[jnp.argmin(costs)]
    home = first_move(goals[0])[1]
    placed = (blocks == goals[1:]).all()
    stuck = jnp.isinf(costs).all() & ~placed
    anyhow = jax.random.randint(key, (), 0, len(MOVES))
    return jnp.where(placed, home, jnp.where(stuck, anyhow, push))

  return lambda observations, key: jax.vmap(act_on_one)(
      observations, jax.random.split(key, observations.shape[0])
  )


def _scattered(key: Key, size: int, num_blocks: int) -> jax.Array:
  """[N + 1, 2] int32 distinct cells, those of the blocks within the ring."""
  block_key, agent_key = jax.random.split(key)
  inner = size - 2
  blocks = jax.random.choice(block_key, inner**2, (num_blocks,), replace=False)
  blocks = jnp.stack([blocks % inner, blocks // inner], axis=-1) + 1
  free = jnp.ones((size, size)).at[blocks[:, 0], blocks[:, 1]].set(0)
  agent = jax.random.categorical(agent_key, jnp.log(free).reshape(-1))
  agent = jnp.stack([agent // size, agent % size])
  return jnp.concatenate([agent[None], blocks]).astype(jnp.int32)


def _observe(state, size: int) -> jax.Array:
  return CELL * (jnp.concatenate([x.reshape(-1) for x in state]) - (size - 1) / 2)


def _cells(places: jax.Array, size: int) -> jax.Array:
  """[E, 2] int32 cells of places [2 E]."""
  return jnp.round(places / CELL + (size - 1) / 2).astype(jnp.int32).reshape(-1, 2)


def _number(move: jax.Array) -> jax.Array:
  """Which action a move is."""
  return jnp.argmax((jnp.array(MOVES) == move[None]).all(axis=-1)).astype(jnp.int32)


def _neighbours(lengths: jax.Array) -> jax.Array:
  """[4, size, size], what is one move away from each cell, and far beyond the border."""
  padded = jnp.pad(lengths, 1, constant_values=_FAR)
  size = lengths.shape[0]
  at = lambda x, y: jax.lax.slice(padded, (1 + x, 1 + y), (1 + x + size, 1 + y + size))
  return jnp.stack([at(*move) for move in MOVES])


def _lengths(free: jax.Array, target: jax.Array) -> jax.Array:
  """[size, size] float32, how many moves each cell is from the target, round what is not free."""
  size = free.shape[0]
  begin = jnp.full((size, size), _FAR).at[target[0], target[1]].set(0)
  relax = lambda _, lengths: jnp.where(free, jnp.minimum(lengths, 1 + _neighbours(lengths).min(axis=0)), _FAR)
  return jax.lax.fori_loop(0, 4 * size, relax, begin)
