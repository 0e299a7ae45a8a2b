"""A box is pushed to a target on a small board: `GT:AH` -> `e` -> `:BH` -> ...

Cells have letters, row by row. The prompt is the plan of walls (a digit), the target, a sign, the player and
the box; an observation is a sign (`:` fine, `#` blocked, `?` not understood), the player and the box. Actions
are `n`, `e`, `s`, `w`. A box in a corner is lost, and the episode goes on in vain.
"""

import collections

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import at_least, between
from rlx.types import Batch

_SIGNS, _MOVES, _PLANS = ':#?', 'nesw', '0123456789'
_STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))
_SEED = 0  # of the walls: the same numbers have the same plans


def sokoban(*, size: int, num_walls: int, num_plans: int, held_out_share: float) -> TurnTask:
  """Episodes on boards of `size * size` cells with one box; the reward is 1 when it is on the target.

  Args:
    size: of the board, in 3..5.
    num_walls: cells inside that are walls.
    num_plans: boards that differ in their walls, in 1..10.
    held_out_share: in (0, 1), the part of all solvable problems that is never trained on.
  Raises:
    ValueError: an argument out of its range.
  """
  between(3, 5, size=size)
  between(1, 10, num_plans=num_plans)
  at_least(0, num_walls=num_walls)
  cells = size * size
  if num_walls > cells // 3:
    raise ValueError(f'num_walls={num_walls} of {cells} cells: at most a third may be walls')
  letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[:cells]
  alphabet = _SIGNS + _MOVES + letters + _PLANS[:num_plans]
  signs, commands = text.characters(_SIGNS, alphabet), text.characters(_MOVES, alphabet)
  places, plans = text.characters(letters, alphabet), text.characters(_PLANS[:num_plans], alphabet)
  beside, best = _boards(size, num_walls, num_plans)
  solvable = np.argwhere(best >= 0)  # plan, target, player, box
  known, beside, best = jnp.asarray(solvable, jnp.int32), jnp.asarray(beside), jnp.asarray(best)

  def view(state, sign):
    return jnp.stack([signs[sign], places[state['player']], places[state['box']]]).astype(jnp.int32)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=len(solvable), held_out=held_out, held_out_share=held_out_share
    )
    plan, target, player, box = known[number].T
    state = {'plan': plan, 'target': target, 'player': player, 'box': box}
    board = jnp.stack([plans[plan], places[target]], axis=1)
    first = jax.vmap(lambda one: view(one, 0))(state)
    prompts = jnp.concatenate([board, first], axis=1)
    return {**state, 'prompts': prompts, 'prompt_lengths': jnp.full(num, prompts.shape[1])}

  def start(problem: Batch):
    return {name: problem[name] for name in ('plan', 'target', 'player', 'box')}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 2)
    move, known_move = index_in(commands, word[0])
    understood = known_move & (word[1] == text.PAD_ID)
    to = beside[state['plan'], state['player'], move]
    pushes = to == state['box']
    behind = beside[state['plan'], jnp.maximum(to, 0), move]
    free = understood & (to >= 0) & (~pushes | (behind >= 0))
    after = {
        **state, 'player': jnp.where(free, to, state['player']),
        'box': jnp.where(free & pushes, behind, state['box']),
    }
    solved = after['box'] == state['target']
    reward = solved.astype(jnp.float32)
    sign = jnp.where(understood, jnp.where(free, 0, 1), 2)
    return Reply(after, view(after, sign), jnp.int32(3), reward, solved, understood, {SUCCESS: reward})

  def expert(state):
    move = best[state['plan'], state['target'], state['player'], state['box']]
    return with_end(commands[jnp.maximum(move, 0)][None], jnp.int32(1), 2)

  return TurnTask(
      alphabet=alphabet, prompt_columns=5, answer_columns=2, sample=sample, observation_columns=3,
      start=start, act=act, expert=expert, expert_return=1.0,
  )


def _boards(size: int, num_walls: int, num_plans: int) -> tuple[np.ndarray, np.ndarray]:
  """Where each move leads [plans, cells, 4], -1 into walls; and the best move [plans, target, player, box].

  -1 stands where nothing can be done any more, or nothing is left to do.
  """
  random, cells = np.random.default_rng(_SEED), size * size
  beside = np.full((num_plans, cells, 4), -1, np.int32)
  best = np.full((num_plans, cells, cells, cells), -1, np.int32)
  for plan in range(num_plans):
    walls = set(random.choice(cells, num_walls, replace=False).tolist())
    free = [cell for cell in range(cells) if cell not in walls]
    for cell in free:
      for move, (down, right) in enumerate(_STEPS):
        row, column = cell // size + down, cell % size + right
        if 0 <= row < size and 0 <= column < size and row * size + column not in walls:
          beside[plan, cell, move] = row * size + column
    for target in free:
      _search(beside[plan], free, target, best[plan, target])
  return beside, best


def _search(beside: np.ndarray, free: list[int], target: int, best: np.ndarray) -> None:
  """Breadth first from the solved states backwards, into the best moves [player, box]."""
  edge = collections.deque((player, target) for player in free if player != target)
  done = set(edge)
  while edge:
    player, box = edge.popleft()
    for move in range(4):
      back = (move + 2) % 4
      came = beside[player, back]  # where the player was before this move
      if came < 0:
        continue
      before = [(came, box)] if came != box else []
      if beside[player, move] == box:  # the move was a push: the box was where the player is
        before.append((came, player))
      for one in before:
        if one not in done and one[0] != one[1] and one[1] != target:
          done.add(one)
          best[one] = move
          edge.append(one)
