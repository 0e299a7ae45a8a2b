"""Tasks that are done by a plan, and an earlier case in front of them: `bca xy>bda` -> `x` -> `.` -> `y`.

A task has parts, letters of which the first alone decides the plan; the others are alike by chance. A case is
an earlier task and the plan that was followed in it, or blanks. Which plan is right is drawn for each problem
(a school, whose cases are right, in which one learns to follow a case), or it is the same for all tasks whose
first parts are equal, and a case helps as far as it was right and is of the same kind.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _PARTS, _REPLIES = '_>.', 'abcdefgh', 'uvwxyz'
_SEED = 0  # of the plans that are always the same


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaseTask(TurnTask):
  """A world whose prompts have room for a case. Problems have the column `parts` [N, P] int32.

  Attributes:
    num_parts: P.
    plan_turns: K, replies of a plan.
    with_cases: `(problems [N], parts [N, P], plans [N, K]) -> problems` with these in their prompts; -1 for
      blanks.
    plans_of: `batch -> [B, K]`, the replies of each episode; -1 where there is none.
  """

  num_parts: int
  plan_turns: int
  with_cases: Callable[[Batch, jax.Array, jax.Array], Batch]
  plans_of: Callable[[Batch], jax.Array]


def casebook(
    *, parts: int, letters: int, replies: int, turns: int, one_rule: bool, told: float, held_out_share: float
) -> CaseTask:
  """Episodes of a plan of `turns` replies, each worth 1 / turns if it is the right one.

  Args:
    parts: of a task, in 1..5.
    letters: that a part can be, in 2..8; so many kinds of tasks there are.
    replies: in 2..6.
    turns: in 1..5.
    one_rule: whether plans are the same for all tasks of a kind; else each problem has its own.
    told: the share of problems that have a case at first, in [0, 1]; it has the right plan.
    held_out_share: in (0, 1), the part of all tasks that is never trained on.
  """
  between(1, 5, parts=parts)
  between(2, 8, letters=letters)
  between(2, 6, replies=replies)
  between(1, 5, turns=turns)
  between(0, 1, told=told)
  alphabet = _MARKS + _PARTS[:letters] + _REPLIES[:replies]
  blank, mark, go_on = text.characters(_MARKS, alphabet)
  shown = text.characters(_PARTS[:letters], alphabet)
  spoken = text.characters(_REPLIES[:replies], alphabet)
  powers = np.array([letters**i for i in range(parts)], np.int32)
  fixed = jax.random.randint(jax.random.key(_SEED), (letters, turns), 0, replies)
  room = parts + turns

  def with_cases(problems: Batch, seen: jax.Array, plans: jax.Array) -> Batch:
    written = lambda numbers, tokens: jnp.where(numbers >= 0, tokens[numbers], blank)
    case = jnp.concatenate([written(seen, shown), written(plans, spoken)], axis=1).astype(jnp.int32)
    return {**problems, 'prompts': problems['prompts'].at[:, :room].set(case)}

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number_key, plan_key, case_key, told_key = jax.random.split(key, 4)
    number = text.draw_indices(
        number_key, num, num_problems=letters**parts, held_out=held_out, held_out_share=held_out_share
    )
    those = (number[:, None] // powers[None] % letters).astype(jnp.int32)
    own = jax.random.randint(plan_key, (num, turns), 0, replies)
    plan = fixed[those[:, 0]] if one_rule else own
    behind = jnp.concatenate([jnp.full((num, 1), mark), shown[those]], axis=1)
    prompts = jnp.pad(behind, ((0, 0), (room, 0))).astype(jnp.int32)
    problems = {
        'parts': those, 'plan': plan, 'prompts': prompts, 'prompt_lengths': jnp.full(num, prompts.shape[1])
    }
    there = jax.random.bernoulli(told_key, told, (num, 1))
    other = jax.random.randint(case_key, those.shape, 0, letters)
    return with_cases(problems, jnp.where(there, other, -1), jnp.where(there, plan, -1))

  def start(problem: Batch):
    return {'plan': problem['plan'], 'turn': jnp.int32(0), 'right': jnp.int32(0)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 2)
    reply, known = index_in(spoken, word[0])
    understood = known & (word[1] == text.PAD_ID)
    right = understood & (reply == state['plan'][state['turn']])
    following = state['turn'] + understood
    after = {**state, 'turn': jnp.minimum(following, turns - 1), 'right': state['right'] + right}
    share = after['right'] / turns
    return Reply(
        after, go_on[None].astype(jnp.int32), jnp.int32(1), right / turns, following >= turns, understood,
        {SUCCESS: (share == 1).astype(jnp.float32), 'right': share.astype(jnp.float32)},
    )

  def expert(state):
    return with_end(spoken[state['plan'][state['turn']]][None], jnp.int32(1), 2)

  def plans_of(batch: Batch) -> jax.Array:
    tokens, mask = batch['tokens'], batch['action_mask']
    replied, known = jax.vmap(jax.vmap(lambda x: index_in(spoken, x)))(tokens)
    here = mask & known
    place = jnp.where(here, jnp.cumsum(here, axis=1) - 1, turns)
    rows = jnp.arange(tokens.shape[0])[:, None]
    none = jnp.full((tokens.shape[0], turns), -1, jnp.int32)
    return none.at[rows, place].set(replied, mode='drop')

  return CaseTask(
      alphabet=alphabet, prompt_columns=room + 1 + parts, answer_columns=2, sample=sample,
      observation_columns=1, start=start, act=act, expert=expert, expert_return=1.0, num_parts=parts,
      plan_turns=turns, with_cases=with_cases, plans_of=plans_of,
  )
