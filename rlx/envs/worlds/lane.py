"""A road of lanes with things in the way, driven step by step or in strides: `B>.x.` -> `g` -> ... -> `G3` ->
...

The car is in a lane and sees what is ahead in each of them: `.` free, `x` blocked. `g` goes on by a cell, `l`
and `r` change lanes on the way, and a macro action, `G` and a digit, goes on so many cells at once, as one
turn: fast, and blind to what comes behind the next cells. Whoever drives into something is out; the end of
the road is the goal.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _LANES, _DIGITS = '.x?>lrgG', 'ABCD', '123456789'
_SEED = 0  # of the roads


def lane(*, lanes: int, length: int, sight: int, stride: int, cost: float, held_out_share: float) -> TurnTask:
  """Episodes on a road; its end is worth 1, less `cost` for each turn.

  Args:
    lanes: in 2..4.
    length: of the road, in cells, in 2..30; every second cell has one lane blocked.
    sight: cells ahead that are seen in each lane, in 1..4.
    stride: the most cells of a macro action, in 1..9; 1 for none that is longer than a step.
    cost: of a turn.
    held_out_share: in (0, 1), the part of all problems (road, first lane) that is never trained on.
  """
  between(2, 4, lanes=lanes)
  between(2, 30, length=length)
  between(1, 4, sight=sight)
  between(1, 9, stride=stride)
  between(0, 1, cost=cost)
  alphabet = _MARKS + _LANES[:lanes] + _DIGITS[:stride]
  free, blocked, lost, mark, left, right, ahead, far = text.characters(_MARKS, alphabet)
  names, digits = text.characters(_LANES[:lanes], alphabet), text.characters(_DIGITS[:stride], alphabet)
  cells, roads = jnp.arange(length + stride + sight + 1), 997

  def blocks(road):
    """[lanes, cells] bool."""
    where = jax.random.randint(jax.random.fold_in(jax.random.key(_SEED), road), cells.shape, 0, lanes)
    there = (cells % 2 == 0) & (cells > 0) & (cells < length)
    return (where[None] == jnp.arange(lanes)[:, None]) & there[None]

  def view(state, sign):
    seen = jax.lax.dynamic_slice_in_dim(blocks(state['road']), state['cell'] + 1, sight, axis=1)
    picture = jnp.where(seen, blocked, free).reshape(-1)
    return jnp.concatenate([names[state['lane']][None], sign[None], picture]).astype(jnp.int32)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=roads * lanes, held_out=held_out, held_out_share=held_out_share
    )
    problems = {'road': number // lanes, 'lane': number % lanes}
    prompts = jax.vmap(lambda one: view(start(one), mark))(problems)
    return {**problems, 'prompts': prompts, 'prompt_lengths': jnp.full(num, prompts.shape[1])}

  def start(problem: Batch):
    return {'road': problem['road'], 'lane': problem['lane'], 'cell': jnp.int32(0)}

  def act(state, action: jax.Array, length_said: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length_said, 3)
    step, is_step = index_in(digits, word[1])
    one, two = word[1] == text.PAD_ID, word[2] == text.PAD_ID
    to_left, to_right, goes = ((word[0] == token) & one for token in (left, right, ahead))
    strides = (word[0] == far) & is_step & two
    understood = to_left | to_right | goes | strides
    side = jnp.clip(state['lane'] - to_left + to_right, 0, lanes - 1)
    moved = jnp.where(strides, step + 1, 1) * understood
    cell = state['cell'] + moved
    way = (cells > state['cell']) & (cells <= cell)
    crashed = jnp.any(blocks(state['road'])[side] & way)
    arrived = ~crashed & (cell >= length)
    after = {**state, 'lane': side, 'cell': jnp.minimum(cell, length)}
    solved = arrived.astype(jnp.float32)
    observation = view(after, jnp.where(understood, mark, lost))
    info = {SUCCESS: solved, 'way': after['cell'] / length}
    told = jnp.int32(observation.shape[0])
    return Reply(after, observation, told, solved - cost * understood, crashed | arrived, understood, info)

  def expert(state):
    """Around what is next, one cell at a time; with a stride of two or more, as far as the lane is free."""
    road = blocks(state['road'])
    mine = jax.lax.dynamic_slice_in_dim(road[state['lane']], state['cell'] + 1, stride)
    clear = jnp.sum(jnp.cumsum(mine) == 0)
    clear = jnp.minimum(clear, jnp.maximum(length - state['cell'], 1))
    # To the side there may be no road: then the other one, and of a cell one lane only is blocked.
    aside = jnp.where(state['lane'] > 0, left, right)
    macro = jnp.stack([far, digits[jnp.maximum(clear, 1) - 1]])
    plain = jnp.stack([jnp.where(clear > 0, ahead, aside), jnp.int32(text.PAD_ID)])
    uses = clear > 1
    return with_end(jnp.where(uses, macro, plain), jnp.where(uses, 2, 1), 3)

  return TurnTask(
      alphabet=alphabet, prompt_columns=2 + lanes * sight, answer_columns=3, sample=sample,
      observation_columns=2 + lanes * sight, start=start, act=act, expert=expert,
      expert_return=_expert_return(lanes, length, stride, cost, roads, blocks, start),
  )


def _expert_return(lanes, length, stride, cost, roads, blocks, start) -> float:
  """1 less the cost of the expert's turns, over all roads and lanes."""
  road = np.asarray(jax.vmap(blocks)(jnp.arange(roads)))
  where, cell = np.tile(np.arange(lanes), (roads, 1)), np.zeros((roads, lanes), int)
  turns, number = np.zeros((roads, lanes), int), np.arange(roads)[:, None]
  while np.any(cell < length):
    clear = np.zeros_like(cell)
    for ahead in range(1, stride + 1):
      free = ~road[number, where, np.minimum(cell + ahead, road.shape[2] - 1)]
      clear += (clear == ahead - 1) & free
    clear = np.minimum(clear, np.maximum(length - cell, 1))
    going = cell < length
    aside = np.where(where > 0, where - 1, where + 1)
    where = np.where(going & (clear == 0), aside, where)
    cell = np.where(going, cell + np.maximum(clear, 1), cell)
    turns += going
  return float(1 - cost * turns.mean())


def free_cells(task: TurnTask, *, lanes: int, sight: int) -> Callable[[jax.Array], jax.Array]:
  """What can be read off a view [2 + lanes sight], as a note [lanes]: how many cells are free in each lane.

  Args:
    task: a road of that shape, whose strides are no shorter than what is seen.
    lanes: of the road.
    sight: cells ahead that are seen.
  """
  signs, blocked = jnp.asarray(task.encode('x' + _DIGITS[:sight])), text.characters('x', task.alphabet)[0]

  def note(view: jax.Array) -> jax.Array:
    picture = view[2:].reshape(lanes, sight)
    return signs[jnp.sum(jnp.cumsum(picture == blocked, axis=1) == 0, axis=1)]

  return note
