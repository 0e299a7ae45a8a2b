"""A user who has said things in several sessions, and is asked about one of them: `b7 e2`, `B?` -> `m7`.

What was said lies in a memory bank, of which the answerer reads a few entries and the question; it says which
entry has the answer (a citation) and the value, or `-` where none has it. What is asked about is named by
another letter than in the memories, the same for all users: words in common do not find an entry. Of several
values that were said of a topic the newest holds.

The three tasks differ in what an entry of the bank is. `by_topic` reflects on what was said: an entry is a
topic with what holds of it now, as a summary would have it that is written behind each session and merged
with what was there. `by_turn` keeps each thing that was said, and `by_session` each session whole.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.retrieval import RetrievalTask
from rlx.errors import between
from rlx.types import Batch

_TOPICS, _ASKED, _VALUES, _PLACES, _MARKS = 'abcdefgh', 'ABCDEFGH', '01234567', 'mnop', '?-'
_SEED = 0  # of which letter asks for which topic


@dataclasses.dataclass(frozen=True, kw_only=True)
class SessionTask(RetrievalTask):
  """Questions about what was said; the candidates are the entries of a user's bank, in the order of time.

  `prompts` are questions behind some entries, among them the needed one for half: what an answerer learns
  from. `solutions` are what these entries say, with the citation.

  Attributes:
    num_read: k, entries that the answerer reads.
    with_entries: `(queries [N, Q], candidates [N, K, C], chosen [N, k]) -> prompts [N, k C + Q]`, with the
      entries in the order in which they are chosen.
    cited: `completions [N, T] -> [N]` int32, which of the k entries that were read an answer names, -1 for
      none.
  """

  num_read: int
  with_entries: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
  cited: Callable[[jax.Array], jax.Array]


def by_topic(
    *, topics: int, sessions: int, turns: int, values: int, num_read: int, held_out_share: float
) -> SessionTask:
  """Each entry is a topic and the newest that was said of it; the topic that was spoken of last is last.

  Args:
    topics: of a user, in 2..6, out of eight; each is spoken of at least once.
    sessions: of a user, at least 1.
    turns: of a session, in each of which one thing is said; of all sessions at least as many as topics.
    values: that a topic can have, in 2..8.
    num_read: entries that are read, in 1..4 and no more than there are.
    held_out_share: in (0, 1), the part of all (topic, value) that is never asked for in training.
  Raises:
    ValueError: an argument out of its range.
  """

  def entries(said: jax.Array, gold: jax.Array) -> tuple[jax.Array, jax.Array]:
    same = said[:, :, None, 0] == said[:, None, :, 0]
    again = jnp.any(jnp.triu(same, 1), axis=2)  # something newer was said
    newest = jnp.argsort(again, axis=1, stable=True)[:, :topics]
    kept = jnp.take_along_axis(said, newest[:, :, None], axis=1)
    return kept, jnp.argmax(newest == gold[:, None], axis=1)

  return _sessions(
      entries, (topics, 1), topics, sessions * turns, values, num_read, held_out_share=held_out_share
  )


def by_turn(
    *, topics: int, sessions: int, turns: int, values: int, num_read: int, held_out_share: float
) -> SessionTask:
  """Each entry is one thing that was said, also what no longer holds; arguments as for `by_topic`."""
  return _sessions(
      lambda said, gold: (said, gold), (sessions * turns, 1), topics, sessions * turns, values, num_read,
      held_out_share=held_out_share,
  )


def by_session(
    *, topics: int, sessions: int, turns: int, values: int, num_read: int, held_out_share: float
) -> SessionTask:
  """Each entry is all that was said in a session; arguments as for `by_topic`."""
  whole = lambda said, gold: (said.reshape(-1, sessions, 2 * turns), gold // turns)
  return _sessions(
      whole, (sessions, turns), topics, sessions * turns, values, num_read, held_out_share=held_out_share
  )


def _sessions(
    entries: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]], shape: tuple[int, int],
    topics: int, spoken: int, values: int, num_read: int, *, held_out_share: float,
) -> SessionTask:
  """A task whose bank is made of all that was said.

  Args:
    entries: `(said [N, spoken, 2], gold [N]) -> ([N, K, C], [N])`, the bank, and where in it what was said at
      `gold` is now.
    shape: K, and how many things an entry has.
    topics: as for `by_topic`, like what follows.
    spoken: how many things were said.
    values: of a topic.
    num_read: k.
    held_out_share: of what can be asked.
  """
  num_entries, things = shape
  between(2, 6, topics=topics)
  between(topics, 64, spoken=spoken)
  between(2, len(_VALUES), values=values)
  between(1, min(len(_PLACES), num_entries), num_read=num_read)
  alphabet = _TOPICS + _ASKED + _VALUES[:values] + _PLACES[:num_read] + _MARKS
  spelt, asked_by = (text.characters(x, alphabet) for x in (_TOPICS, _ASKED))
  digits, places = text.characters(_VALUES[:values], alphabet), text.characters(_PLACES[:num_read], alphabet)
  question, nothing = text.characters(_MARKS, alphabet)
  asks = asked_by[jax.random.permutation(jax.random.key(_SEED), len(_TOPICS))]  # topic -> who asks for it

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number_key, topic_key, order_key, value_key, shown_key = jax.random.split(key, 5)
    number = text.draw_indices(
        number_key, num, num_problems=len(_TOPICS) * values, held_out=held_out, held_out_share=held_out_share
    )
    topic, value = number % len(_TOPICS), number // len(_TOPICS)
    own = _others_behind(topic_key, topic, len(_TOPICS))[:, :topics]  # the user's; the first is asked about
    which = jax.vmap(lambda key: _each_at_least_once(key, topics, spoken))(jax.random.split(order_key, num))
    last = spoken - 1 - jnp.argmax(which[:, ::-1] == 0, axis=1)
    of = jax.random.randint(value_key, (num, spoken), 0, values).at[jnp.arange(num), last].set(value)
    said = jnp.stack([spelt[jnp.take_along_axis(own, which, axis=1)], digits[of]], axis=2)
    bank, gold = entries(said, last)
    queries = jnp.stack([asks[topic], jnp.broadcast_to(question, (num,))], axis=1)
    shown = _some(shown_key, gold, num_entries, num_read)
    return {
        'queries': queries, 'candidates': bank, 'gold': gold, 'value': digits[value],
        'prompts': with_entries(queries, bank, shown),
        'prompt_lengths': jnp.full(num, 2 * things * num_read + 2),
        'solutions': answers(spelt[topic], bank, shown),
    }

  def with_entries(queries: jax.Array, bank: jax.Array, chosen: jax.Array) -> jax.Array:
    read = jnp.take_along_axis(bank, chosen[:, :, None], axis=1)
    return jnp.concatenate([read.reshape(len(queries), -1), queries], axis=1).astype(jnp.int32)

  def answers(topic: jax.Array, bank: jax.Array, shown: jax.Array) -> jax.Array:
    """[N, 3]: the newest of what is shown of a topic, and where it stands."""
    read = jnp.take_along_axis(bank, shown[:, :, None], axis=1).reshape(len(topic), -1, 2)
    about = read[:, :, 0] == topic[:, None]
    newest = about.shape[1] - 1 - jnp.argmax(about[:, ::-1], axis=1)
    value = jnp.take_along_axis(read[:, :, 1], newest[:, None], axis=1)[:, 0]
    known, end = jnp.any(about, axis=1), jnp.full(len(topic), text.EOS_ID)
    cited = jnp.stack([places[newest // things], value, end], axis=1)
    none = jnp.stack([jnp.broadcast_to(nothing, end.shape), end, jnp.full_like(end, text.PAD_ID)], axis=1)
    return jnp.where(known[:, None], cited, none)

  def cited(completions: jax.Array) -> jax.Array:
    same = completions[:, :1] == places[None]
    return jnp.where(jnp.any(same, axis=1), jnp.argmax(same, axis=1), -1)

  return SessionTask(
      alphabet=alphabet, prompt_columns=2 * things * num_read + 2, answer_columns=3, sample=sample,
      verify=lambda problems, completions: (completions[:, 1] == problems['value']).astype(jnp.float32),
      query_columns=2, candidate_shape=(num_entries, 2 * things), num_read=num_read,
      with_entries=with_entries, cited=cited,
  )


def _others_behind(key: jax.Array, first: jax.Array, num: int) -> jax.Array:
  """[N, num] numbers below `num` in any order, but for the first one [N]."""
  order = jax.random.uniform(key, (len(first), num))
  return jnp.argsort(jnp.where(jnp.arange(num)[None] == first[:, None], -1.0, order), axis=1)


def _each_at_least_once(key: jax.Array, num: int, length: int) -> jax.Array:
  """[length] numbers below `num`, in which each of them is."""
  more_key, order_key = jax.random.split(key)
  more = jax.random.randint(more_key, (length - num,), 0, num)
  return jax.random.permutation(order_key, jnp.concatenate([jnp.arange(num), more]))


def _some(key: jax.Array, gold: jax.Array, num_entries: int, num_read: int) -> jax.Array:
  """[N, k] entries in the order of the bank, the needed one among them for half and by chance."""
  which_key, order_key = jax.random.split(key)
  order = jax.random.uniform(order_key, (len(gold), num_entries))
  needed = jax.random.bernoulli(which_key, 0.5, gold.shape)[:, None]
  first = needed & (jnp.arange(num_entries)[None] == gold[:, None])
  return jnp.sort(jnp.argsort(jnp.where(first, -1.0, order), axis=1)[:, :num_read], axis=1)
