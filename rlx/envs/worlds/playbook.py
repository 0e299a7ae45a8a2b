"""Situations that have to be met, and a playbook in front of them: `ax__cy>b` -> `x` -> `a` -> `y` -> ...

A playbook holds lessons, each a situation and a reply to it, or blanks. To each situation one reply is right;
the rule that says which is drawn for each problem (a school, in which one learns to use playbooks), or it is
the same in all of them, and what a playbook says then has to be found out.
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

_MARKS, _SITUATIONS, _REPLIES = '_>', 'abcdefgh', 'uvwxyz'
_SEED = 0  # of the rule that is always the same


@dataclasses.dataclass(frozen=True, kw_only=True)
class LessonTask(TurnTask):
  """A world whose prompts have room for lessons: pairs of a key and a value, by their numbers.

  Attributes:
    num_lessons: K, that a prompt has room for.
    sizes: numbers of keys and of values.
    with_lessons: `(problems [N], keys [N, K], values [N, K]) -> problems` with these in their prompts; -1 for
      none.
    with_all: `problems -> problems` with all lessons that are right in their prompts: what somebody says who
      knows.
    pairs_of: `batch -> (keys [B, T], values [B, T])` of an episode's actions, -1 elsewhere.
  """

  num_lessons: int
  sizes: tuple[int, int]
  with_lessons: Callable[[Batch, jax.Array, jax.Array], Batch]
  with_all: Callable[[Batch], Batch]
  pairs_of: Callable[[Batch], tuple[jax.Array, jax.Array]]


def playbook(
    *, situations: int, replies: int, turns: int, one_rule: bool, told: float, each: float,
    held_out_share: float,
) -> LessonTask:
  """Episodes of `turns` situations; to meet all of them right is worth 1.

  Args:
    situations: in 2..8, as many as lessons have room.
    replies: in 2..6.
    turns: in 1..6.
    one_rule: whether all problems have the same one; else each has its own.
    told: the share of lessons that the playbook of a problem has at first, in [0, 1]; they are right.
    each: in [0, 1], so much of it is paid for the share that is met right, at once; the rest for all of them.
    held_out_share: in (0, 1), the part of all problems (the situations in their order) that is never trained
      on.
  """
  between(2, 8, situations=situations)
  between(2, 6, replies=replies)
  between(1, 6, turns=turns)
  between(0, 1, told=told, each=each)
  alphabet = _MARKS + _SITUATIONS[:situations] + _REPLIES[:replies]
  blank, mark = text.characters(_MARKS, alphabet)
  shown = text.characters(_SITUATIONS[:situations], alphabet)
  spoken = text.characters(_REPLIES[:replies], alphabet)
  powers = np.array([situations**i for i in range(turns)], np.int32)
  fixed = jax.random.randint(jax.random.key(_SEED), (situations,), 0, replies)

  def with_lessons(problems: Batch, keys: jax.Array, values: jax.Array) -> Batch:
    there = keys >= 0
    pairs = jnp.stack([jnp.where(there, shown[keys], blank), jnp.where(there, spoken[values], blank)], axis=2)
    book = pairs.reshape(keys.shape[0], -1).astype(jnp.int32)
    return {**problems, 'prompts': problems['prompts'].at[:, : book.shape[1]].set(book)}

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number_key, rule_key, order_key, told_key = jax.random.split(key, 4)
    number = text.draw_indices(
        number_key, num, num_problems=situations**turns, held_out=held_out, held_out_share=held_out_share
    )
    met = (number[:, None] // powers[None] % situations).astype(jnp.int32)
    own = jax.random.randint(rule_key, (num, situations), 0, replies)
    rule = jnp.broadcast_to(fixed, own.shape) if one_rule else own
    behind = jnp.stack([jnp.full(num, mark), shown[met[:, 0]]], axis=1)
    prompts = jnp.pad(behind, ((0, 0), (2 * situations, 0))).astype(jnp.int32)
    order = jnp.argsort(jax.random.uniform(order_key, (num, situations)), axis=1)
    keys = jnp.where(jax.random.bernoulli(told_key, told, order.shape), order, -1)
    problems = {
        'met': met, 'rule': rule, 'prompts': prompts, 'prompt_lengths': jnp.full(num, prompts.shape[1])
    }
    return with_lessons(problems, keys, jnp.take_along_axis(rule, order, axis=1))

  def start(problem: Batch):
    return {'met': problem['met'], 'rule': problem['rule'], 'turn': jnp.int32(0), 'right': jnp.int32(0)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 2)
    reply, known = index_in(spoken, word[0])
    understood = known & (word[1] == text.PAD_ID)
    right = understood & (reply == state['rule'][state['met'][state['turn']]])
    following = state['turn'] + understood
    after = {**state, 'turn': jnp.minimum(following, turns - 1), 'right': state['right'] + right}
    share, ended = after['right'] / turns, following >= turns
    return Reply(
        after, shown[state['met'][after['turn']]][None].astype(jnp.int32), jnp.int32(1),
        each * right / turns + (1 - each) * (ended & (share == 1)), ended, understood,
        {SUCCESS: (share == 1).astype(jnp.float32), 'right': share.astype(jnp.float32)},
    )

  def expert(state):
    return with_end(spoken[state['rule'][state['met'][state['turn']]]][None], jnp.int32(1), 2)

  def with_all(problems: Batch) -> Batch:
    rule = problems['rule']
    return with_lessons(problems, jnp.broadcast_to(jnp.arange(situations), rule.shape), rule)

  def pairs_of(batch: Batch) -> tuple[jax.Array, jax.Array]:
    tokens = batch['tokens']
    keys, are_keys = jax.vmap(jax.vmap(lambda x: index_in(shown, x)))(jnp.roll(tokens, 1, axis=1))
    values, are_values = jax.vmap(jax.vmap(lambda x: index_in(spoken, x)))(tokens)
    here = batch['action_mask'] & are_keys & are_values
    return jnp.where(here, keys, -1), jnp.where(here, values, -1)

  return LessonTask(
      alphabet=alphabet, prompt_columns=2 * situations + 2, answer_columns=2, sample=sample,
      observation_columns=1, start=start, act=act, expert=expert, expert_return=1.0,
      num_lessons=situations, sizes=(situations, replies), with_lessons=with_lessons,
      with_all=with_all, pairs_of=pairs_of,
  )
