"""Facts stand in documents that point to each other: `a2` -> `oa` -> `:d5` -> `od` -> `:b0` -> `ob` -> ... ->
`=7`.

A document has a letter, a link to another one and a digit. The prompt names the first document and how many
links are to be followed; the digit of the last one is asked for. `o` opens a document, `s` searches for a
digit and gets the first document that has it, `=` answers and ends the episode.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _LETTERS, _DIGITS = ':!os=', 'abcdefghijklmnp', '0123456789'
_SEED = 0  # of the libraries: the same number of them are the same


def library(*, documents: int, max_links: int, libraries: int, held_out_share: float) -> TurnTask:
  """Episodes in one of several libraries; the reward is 1 for the right digit.

  Args:
    documents: in 2..10, in one circle of links.
    max_links: links that are followed at most, in 0..9.
    libraries: how many there are, each with other links and digits; nothing tells which one it is.
    held_out_share: in (0, 1), the part of all problems (library, first document, links) that is never trained
      on.
  """
  between(2, 10, documents=documents)
  between(0, 9, max_links=max_links)
  between(1, 10**6, libraries=libraries)
  alphabet = _MARKS + _LETTERS[:documents] + _DIGITS
  fine, wrong, opens, searches, answers = text.characters(_MARKS, alphabet)
  letters, digits = text.characters(_LETTERS[:documents], alphabet), text.characters(_DIGITS, alphabet)

  def contents(number):
    order_key, value_key = jax.random.split(jax.random.fold_in(jax.random.key(_SEED), number))
    circle = jax.random.permutation(order_key, documents)
    links = jnp.zeros(documents, jnp.int32).at[circle].set(jnp.roll(circle, -1))
    return links, jax.random.randint(value_key, (documents,), 0, 10)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=libraries * documents * (max_links + 1), held_out=held_out,
        held_out_share=held_out_share,
    )
    which, number = number % libraries, number // libraries
    first, hops = number % documents, number // documents
    links, values = jax.vmap(contents)(which)
    prompts = jnp.stack([letters[first], digits[hops]], axis=1)
    return {
        'links': links, 'digits': values, 'first': first, 'hops': hops, 'prompts': prompts,
        'prompt_lengths': jnp.full(num, 2),
    }

  def start(problem: Batch):
    known = {name: problem[name] for name in ('links', 'digits', 'first', 'hops')}
    return {**known, 'opened': jnp.zeros(documents, bool)}

  def path(state):
    """[max_links + 1] documents on the way; the last one stays."""
    step = lambda at, hop: (jnp.where(hop < state['hops'], state['links'][at], at), at)
    return jax.lax.scan(step, state['first'], jnp.arange(max_links + 1))[1]

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 3)
    letter, is_letter = index_in(letters, word[1])
    digit, is_digit = index_in(digits, word[1])
    whole = word[2] == text.PAD_ID
    reads, finds, ends = (
        (word[0] == kind) & fits & whole
        for kind, fits in ((opens, is_letter), (searches, is_digit), (answers, is_digit))
    )
    found, there = index_in(state['digits'], digit)
    finds &= there
    solved = (ends & (digit == state['digits'][path(state)[-1]])).astype(jnp.float32)
    page = jnp.stack([fine, letters[state['links'][letter]], digits[state['digits'][letter]]])
    hit = jnp.stack([fine, letters[found], jnp.int32(text.PAD_ID)])
    nothing = jnp.stack([wrong, *[jnp.int32(text.PAD_ID)] * 2])
    observation = jnp.where(reads, page, jnp.where(finds, hit, nothing)).astype(jnp.int32)
    after = {**state, 'opened': state['opened'].at[letter].max(reads)}
    return Reply(
        after, observation, jnp.where(reads, 3, jnp.where(finds, 2, 1)), solved, ends, reads | finds | ends,
        {SUCCESS: solved, 'opened': after['opened'].sum().astype(jnp.float32)},
    )

  def expert(state):
    way = path(state)
    missing = ~state['opened'][way]
    reading = jnp.any(missing)
    read = jnp.stack([opens, letters[way[jnp.argmax(missing)]]])
    answer = jnp.stack([answers, digits[state['digits'][way[-1]]]])
    return with_end(jnp.where(reading, read, answer), jnp.int32(2), 3)

  return TurnTask(
      alphabet=alphabet, prompt_columns=2, answer_columns=3, sample=sample, observation_columns=3,
      start=start, act=act, expert=expert, expert_return=1.0,
  )
