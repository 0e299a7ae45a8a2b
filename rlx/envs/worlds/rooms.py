"""A walk through rooms that are seen one at a time: `H>:Ase` -> `e` -> `:Bws` -> ..., and `t` at the goal.

Rooms lie on a grid and have letters, row by row. The prompt names the goal and shows the first room; an
observation is a sign (`:` fine, `#` a wall, `?` not understood, `!` locked, `+` a key was taken), the letter
of the room, its open doors in the order `nesw`, and `k` where a key lies. Actions are one letter: `n`, `e`,
`s`, `w` walk, `t` takes the keys of a room, and opens the goal where all of them are held. Which doors are
open is one of `num_mazes` plans, and nothing tells which. Without `loops` a plan is a tree.

Options by number: a graph (`num_keys=0`, `loops` above 0), a maze (`loops=0`), a locked goal (`num_keys=1`),
many keys.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, compact, said, with_end
from rlx.errors import at_least
from rlx.types import Batch

_SIGNS, _MOVES, _TAKE, _KEY, _GOAL = ':#?!+', 'nesw', 't', 'k', '>'
_STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # rows and columns of the moves
_PLANS_SEED = 0  # the same number of plans has the same plans


def rooms(
    *, height: int, width: int, num_mazes: int, loops: int, num_keys: int, held_out_share: float
) -> TurnTask:
  """Episodes in `height * width` rooms; the reward is 1 when the goal is opened.

  Args:
    height: rows of the grid.
    width: columns; 2 to 26 rooms in all.
    num_mazes: M plans of doors, of which each problem has one.
    loops: doors more than a tree has, where there are walls to put them.
    num_keys: keys, each in a room that is not the goal; they may lie together.
    held_out_share: in (0, 1), the part of all problems (plan, start, goal, keys) that is never trained on.
  Raises:
    ValueError: an argument out of its range, or more problems than have numbers.
  """
  at_least(1, height=height, width=width, num_mazes=num_mazes)
  at_least(0, loops=loops, num_keys=num_keys)
  num_rooms = height * width
  num_problems = num_mazes * num_rooms * (num_rooms - 1) ** (1 + num_keys)
  if not 2 <= num_rooms <= 26 or num_problems >= 2**31:
    raise ValueError(
        f'{height} x {width} rooms with {num_keys} keys and {num_mazes} plans: need 2 to 26 rooms and fewer '
        f'than 2**31 problems, these are {num_problems}; take fewer'
    )
  letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[:num_rooms]
  alphabet = _SIGNS + _MOVES + _TAKE + _KEY + _GOAL + letters
  token = lambda character: text.characters(character, alphabet)[0]
  of_rooms, of_moves = text.characters(letters, alphabet), text.characters(_MOVES, alphabet)
  signs, commands = text.characters(_SIGNS, alphabet), text.characters(_MOVES + _TAKE, alphabet)
  neighbour, doors, ways = _plans(height, width, num_mazes, loops)
  ways, neighbour, doors = jnp.asarray(ways), jnp.asarray(neighbour), jnp.asarray(doors)
  columns = 2 + len(_MOVES) + 1  # of an observation

  def view(state, sign):
    room = state['room']
    here = jnp.any((state['keys'] == room) & ~state['held'])
    tokens = jnp.concatenate([signs[sign][None], of_rooms[room][None], of_moves, token(_KEY)[None]])
    shown = jnp.concatenate([jnp.ones(2, bool), doors[state['maze'], room], here[None]])
    return compact(tokens, shown)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=num_problems, held_out=held_out, held_out_share=held_out_share
    )
    maze, number = number % num_mazes, number // num_mazes
    goal, number = number % num_rooms, number // num_rooms
    elsewhere = []
    for _ in range(1 + num_keys):
      elsewhere.append((goal + 1 + number % (num_rooms - 1)) % num_rooms)
      number = number // (num_rooms - 1)
    state = {
        'maze': maze, 'goal': goal, 'room': elsewhere[0],
        'keys': jnp.stack(elsewhere[1:], axis=1) if num_keys else jnp.zeros((num, 0), jnp.int32),
    }
    first, lengths = jax.vmap(lambda problem: view(start(problem), 0))(state)
    asked = jnp.stack([of_rooms[goal], jnp.broadcast_to(token(_GOAL), (num,))], axis=1)
    return {**state, 'prompts': jnp.concatenate([asked, first], axis=1), 'prompt_lengths': 2 + lengths}

  def start(problem: Batch):
    known = {name: problem[name] for name in ('maze', 'goal', 'room', 'keys')}
    return {**known, 'held': jnp.zeros(num_keys, bool)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 2)
    command = jnp.argmax(commands == word[0])
    understood = jnp.any(commands == word[0]) & (word[1] == text.PAD_ID)
    takes, room = understood & (command == len(_MOVES)), state['room']
    move = jnp.minimum(command, len(_MOVES) - 1)
    walks = understood & ~takes & doors[state['maze'], room, move]
    here = (state['keys'] == room) & ~state['held']
    held = state['held'] | (here & takes)
    opened = takes & (room == state['goal']) & jnp.all(held)
    sign = jnp.select(
        [~understood, walks, takes & jnp.any(here), takes & (room == state['goal'])],
        [jnp.int32(2), jnp.int32(0), jnp.int32(4), jnp.int32(3)], jnp.int32(1),
    )
    after = {**state, 'room': jnp.where(walks, neighbour[room, move], room), 'held': held}
    observation, length = view(after, sign)
    reward = opened.astype(jnp.float32)
    return Reply(after, observation, length, reward, opened, understood, {SUCCESS: reward})

  def expert(state):
    missing = ~state['held']
    target = state['goal']
    if num_keys:
      target = jnp.where(jnp.any(missing), state['keys'][jnp.argmax(missing)], target)
    way = ways[state['maze'], state['room'], target]
    return with_end(commands[way][None], jnp.int32(1), 2)

  return TurnTask(
      alphabet=alphabet, prompt_columns=2 + columns, answer_columns=2, sample=sample,
      observation_columns=columns, start=start, act=act, expert=expert, expert_return=1.0,
  )


def _plans(height: int, width: int, num_mazes: int, loops: int):
  """Neighbours [R, 4], open doors [M, R, 4] and the first command on the way [M, R, R] from room to room."""
  random, num_rooms = np.random.default_rng(_PLANS_SEED), height * width
  neighbour = np.zeros((num_rooms, 4), np.int32)
  walls = []
  for room in range(num_rooms):
    for move, (down, right) in enumerate(_STEPS):
      row, column = room // width + down, room % width + right
      inside = 0 <= row < height and 0 <= column < width
      neighbour[room, move] = row * width + column if inside else room
      if inside and move in (1, 2):
        walls.append((room, move))
  doors = np.zeros((num_mazes, num_rooms, 4), bool)
  for plan in doors:
    part, left = np.arange(num_rooms), loops
    order = random.permutation(len(walls))
    for room, move in (walls[i] for i in order):  # Kruskal's tree, of random weights
      other = neighbour[room, move]
      joins = part[room] != part[other]
      if joins or left:
        left -= not joins
        part[part == part[other]] = part[room]
        plan[room, move] = plan[other, (move + 2) % 4] = True
  ways = np.stack([_ways(plan, neighbour) for plan in doors])
  return neighbour, doors, ways


def _ways(plan: np.ndarray, neighbour: np.ndarray) -> np.ndarray:
  """[R, R] int32: the move that goes from a room towards another; 4, take, where one is there."""
  num_rooms = len(plan)
  ways = np.full((num_rooms, num_rooms), len(_MOVES), np.int32)
  for target in range(num_rooms):
    reached, edge = {target}, [target]
    while edge:  # breadth first, from the target
      found = []
      for room in edge:
        for move in range(4):
          other = neighbour[room, move]
          if plan[room, move] and other not in reached:
            reached.add(other)
            ways[other, target] = (move + 2) % 4
            found.append(other)
      edge = found
  return ways
