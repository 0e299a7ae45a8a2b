"""A desk of pages with a field each, filled by clicks and letters or by a call: `b=x a` -> `cb` -> `tx` ->
`r`.

The prompt names fields and the values that they are to have, and behind `@` the fields that can be set by a
call. `c` and a page opens it, `t` and a value types into the field of the open page, `s`, field and value is
the call, where there is one, and `r` hands everything in, which ends the episode. An observation is a sign
(`:` fine, `!` no such call, `?` not understood), the open page and what stands in its field.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, compact, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _PAGES, _VALUES = ':!?.=@ctsr', 'ABCDEF', 'xyzuvw'


def desk(*, pages: int, values: int, goals: int, calls: int, cost: float, held_out_share: float) -> TurnTask:
  """Episodes at a desk; handing in what was asked for is worth 1, less `cost` for each turn before.

  `info` has `calls` and `refused`, how many calls worked and how many did not, and `called`, 1 where all is
  right and a call has worked.

  Args:
    pages: with a field each, in 1..6.
    values: that a field can have, in 2..6; at first it has none.
    goals: fields that are asked for, in 1..pages.
    calls: how many of the fields can be set by a call, in 0..pages; which ones is a matter of the problem.
    cost: of a turn that is understood.
    held_out_share: in (0, 1), the part of all problems (fields, values, calls) that is never trained on.
  """
  between(1, 6, pages=pages)
  between(2, 6, values=values)
  between(1, pages, goals=goals)
  between(0, pages, calls=calls)
  between(0, 1, cost=cost)
  alphabet = _MARKS + _PAGES[:pages] + _VALUES[:values]
  fine, refused, lost, empty, equals, at, clicks, types, sets, hands = text.characters(_MARKS, alphabet)
  names, words = text.characters(_PAGES[:pages], alphabet), text.characters(_VALUES[:values], alphabet)
  powers, everywhere = np.array([values**i for i in range(goals)], np.int32), jnp.arange(pages)
  choices = pages if 0 < calls < pages else 1  # of the fields that can be called

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=pages * choices * values**goals, held_out=held_out,
        held_out_share=held_out_share,
    )
    first, number = number % pages, number // pages
    callable_from, number = number % choices, number // choices
    fields = (first[:, None] + jnp.arange(goals)[None]) % pages
    wanted = (number[:, None] // powers[None] % values).astype(jnp.int32)
    has_call = (everywhere[None] - callable_from[:, None]) % pages < calls
    asked = jnp.stack([names[fields], jnp.full_like(fields, equals), words[wanted]], axis=2)
    tail = jnp.concatenate([jnp.full((num, 1), at), jnp.broadcast_to(names, (num, pages))], axis=1)
    tokens = jnp.concatenate([asked.reshape(num, -1), tail], axis=1)
    keep = jnp.concatenate([jnp.ones((num, 3 * goals + 1), bool), has_call], axis=1)
    prompts, lengths = jax.vmap(compact)(tokens, keep)
    rows = jnp.arange(num)[:, None]
    target = jnp.full((num, pages), -1).at[rows, fields].set(wanted)
    return {'target': target, 'has_call': has_call, 'prompts': prompts, 'prompt_lengths': lengths}

  def start(problem: Batch):
    known = {'target': problem['target'], 'has_call': problem['has_call']}
    none = {'called': jnp.float32(0), 'refused': jnp.float32(0)}  # calls so far, that worked or did not
    return {**known, **none, 'page': jnp.int32(0), 'fields': jnp.full(pages, -1)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 4)
    page, is_page = index_in(names, word[1])
    typed, is_value = index_in(words, word[1])
    value, is_second = index_in(words, word[2])
    one, two, three = (word[i] == text.PAD_ID for i in (1, 2, 3))
    opens, writes = (word[0] == clicks) & is_page & two, (word[0] == types) & is_value & two
    asks = (word[0] == sets) & is_page & is_second & three
    calls_it, ends = asks & state['has_call'][page], (word[0] == hands) & one
    fields = jnp.where(writes & (everywhere == state['page']), typed, state['fields'])
    fields = jnp.where(calls_it & (everywhere == page), value, fields)
    after = {
        **state, 'fields': fields, 'page': jnp.where(opens | calls_it, page, state['page']),
        'called': state['called'] + calls_it, 'refused': state['refused'] + (asks & ~calls_it),
    }
    right = ends & jnp.all((fields == state['target']) | (state['target'] < 0))
    understood = opens | writes | asks | ends
    sign = jnp.where(understood, jnp.where(asks & ~calls_it, refused, fine), lost)
    content = after['fields'][after['page']]
    shown = jnp.where(content < 0, empty, words[jnp.maximum(content, 0)])
    observation = jnp.stack([sign, names[after['page']], shown]).astype(jnp.int32)
    solved = right.astype(jnp.float32)
    called = solved * (after['called'] > 0)
    info = {SUCCESS: solved, 'called': called, 'calls': after['called'], 'refused': after['refused']}
    reward = solved - cost * (understood & ~ends)
    return Reply(after, observation, jnp.int32(3), reward, ends, understood, info)

  def expert(state):
    missing = (state['target'] >= 0) & (state['fields'] != state['target'])
    field = jnp.argmax(missing)
    value, pad = words[jnp.maximum(state['target'][field], 0)], jnp.int32(text.PAD_ID)
    there = state['page'] == field
    call, open_ = jnp.stack([sets, names[field], value]), jnp.stack([clicks, names[field], pad])
    write, done = jnp.stack([types, value, pad]), jnp.stack([hands, pad, pad])
    by_hand, length = jnp.where(there, write, open_), jnp.int32(2)
    short = state['has_call'][field] & ~there
    todo = jnp.any(missing)
    tokens = jnp.where(todo, jnp.where(short, call, by_hand), done)
    return with_end(tokens, jnp.where(todo, jnp.where(short, 3, length), 1), 4)

  # Fields follow each other, and the first page is open at first: so many turns, over all problems.
  turns = _mean_turns(pages, goals, calls)
  return TurnTask(
      alphabet=alphabet, prompt_columns=3 * goals + 1 + pages, answer_columns=4, sample=sample,
      observation_columns=3, start=start, act=act, expert=expert, expert_return=1 - cost * turns,
  )


def _mean_turns(pages: int, goals: int, calls: int) -> float:
  """Turns of the expert before it hands in: one where there is a call or the page is open, two elsewhere."""
  total = 0
  for first in range(pages):
    for callable_from in range(pages):
      page = 0
      for field in sorted((first + i) % pages for i in range(goals)):  # in the order of the pages
        short = page == field or (field - callable_from) % pages < calls
        total, page = total + (1 if short else 2), field
  return total / pages**2
