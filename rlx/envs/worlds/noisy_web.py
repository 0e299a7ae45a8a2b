"""What is known of a subject is looked up in a web that fails, and answered; the reward is an F1.

    a -> `sa` ! | `sa` :da | `r2` ! | `r2` :a47 | `=47`

`s` searches for a subject and gets the titles of two pages; `r` has one of them read. Who reads is the
world's own reader, a rule: of a page it hands back one line, which subject it is about and the two digits
that it says of it. `=` answers.

The web is what is noisy: a call comes back with nothing (`!`), and a page is about another subject. It is
also another web for every call, since what a search finds is drawn anew. Without noise the first page is
always there, and right.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _SUBJECTS, _DIGITS = ':!sr=', 'abcdefg', '0123456789'


def noisy_web(
    *, subjects: int, digits: int, dropped: float, distracting: float, held_out_share: float
) -> TurnTask:
  """Questions about a subject; the reward is the F1 of the digits of the answer.

  Args:
    subjects: N that there are, in 3..7.
    digits: K that there are, in 3..10; N K^2N problems have to be fewer than 2^31.
    dropped: the chance that a call, a search or a page, comes back with nothing, in [0, 0.9].
    distracting: the chance that a page that is found is about another subject, in [0, 0.9]. A search whose
      pages all are is of no use.
    held_out_share: in (0, 1), the part of all problems (subject, what is known) that is never trained on.
  Raises:
    ValueError: an argument out of its range.
  """
  between(3, len(_SUBJECTS), subjects=subjects)
  between(3, len(_DIGITS), digits=digits)
  between(0, 0.9, dropped=dropped, distracting=distracting)
  base, num_problems = digits, subjects * digits ** (2 * subjects)
  between(1, 2**31 - 1, num_problems=num_problems)
  alphabet = _MARKS + _SUBJECTS[:subjects] + _DIGITS[:base]
  fine, wrong, searches, reads, answers = text.characters(_MARKS, alphabet)
  names, figures = text.characters(_SUBJECTS[:subjects], alphabet), text.characters(_DIGITS[:base], alphabet)
  places = figures[1:3]  # of the pages that were found

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=num_problems, held_out=held_out, held_out_share=held_out_share
    )
    asked, facts = number % subjects, number // subjects
    facts = facts[:, None] // base ** jnp.arange(2 * subjects)[None] % base
    return {
        'asked': asked, 'facts': facts.reshape(num, subjects, 2), 'prompts': names[asked][:, None],
        'prompt_lengths': jnp.full(num, 1),
    }

  def start(problem: Batch):
    return {
        'asked': problem['asked'], 'facts': problem['facts'], 'found': jnp.full(2, -1, jnp.int32),
        'known': jnp.bool_(False), 'calls': jnp.int32(0),
    }

  def found(subject: jax.Array, key: jax.Array) -> jax.Array:
    """[2] subjects of the pages that a search gets."""
    astray_key, other_key = jax.random.split(key)
    astray = jax.random.bernoulli(astray_key, float(distracting), (2,))
    others = (subject + jax.random.randint(other_key, (2,), 1, subjects)) % subjects
    return jnp.where(astray, others, subject)

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    word = said(action, length, 4)
    drop_key, found_key = jax.random.split(key)
    pair, page_there = word[2] == text.PAD_ID, jnp.all(state['found'] >= 0)
    (subject, is_subject), (place, is_place) = index_in(names, word[1]), index_in(places, word[1])
    seeks = (word[0] == searches) & is_subject & pair
    opens = (word[0] == reads) & is_place & pair & page_there
    said_digits, is_digit = jax.vmap(lambda token: index_in(figures, token))(word[1:3])
    ends = (word[0] == answers) & is_digit[0] & (is_digit[1] | pair) & (word[3] == text.PAD_ID)
    there = ~jax.random.bernoulli(drop_key, float(dropped))
    pages = jnp.where(seeks & there, found(subject, found_key), jnp.where(seeks, -1, state['found']))
    about = jnp.maximum(pages[place], 0)
    noted, hit = opens & there, seeks & there
    share = f1_of_two(said_digits, is_digit, state['facts'][state['asked']]) * ends
    pad = jnp.int32(text.PAD_ID)
    note = jnp.concatenate([jnp.stack([fine, names[about]]), figures[state['facts'][about]]])
    titles = jnp.concatenate([fine[None], names[jnp.maximum(pages, 0)], pad[None]])
    told = jnp.where(noted, note, jnp.where(hit, titles, jnp.stack([wrong, pad, pad, pad]))).astype(jnp.int32)
    known = state['known'] | ((state['asked'] == about) & noted)
    after = {
        **state, 'found': pages.astype(jnp.int32), 'known': known, 'calls': state['calls'] + ~ends,
    }
    return Reply(
        after, told, jnp.where(noted, 4, jnp.where(hit, 3, 1)), share, ends, seeks | opens | ends,
        {SUCCESS: (share == 1).astype(jnp.float32), 'f1': share, 'calls': after['calls'].astype(jnp.float32)},
    )

  def expert(state):
    """Searches, reads the first page about the subject, each until it comes back, and answers."""
    right = state['found'] == state['asked']
    call = jnp.where(
        jnp.any(right), jnp.stack([reads, places[jnp.argmax(right)]]),
        jnp.stack([searches, names[state['asked']]]),
    )
    answer = jnp.concatenate([answers[None], figures[state['facts'][state['asked']]]])
    known = state['known']
    return with_end(jnp.where(known, answer, jnp.pad(call, (0, 1))), jnp.where(known, 3, 2), 4)

  return TurnTask(
      alphabet=alphabet, prompt_columns=1, answer_columns=4, sample=sample, observation_columns=4,
      start=start, act=act, expert=expert, expert_return=1.0,
  )


def f1_of_two(said_: jax.Array, counts: jax.Array, wanted: jax.Array) -> jax.Array:
  """[] float32: 2 m / (said + 2), where m digits of an answer of up to two are wanted, each once.

  Args:
    said_: [2] digits.
    counts: [2] bool, which of them were said.
    wanted: [2] digits, in any order.
  """
  straight = (counts & (said_ == wanted)).sum()
  crossed = (counts & (said_ == wanted[::-1])).sum()
  return (2 * jnp.maximum(straight, crossed) / (counts.sum() + 2)).astype(jnp.float32)
