"""Judges that speak: a language model reads answers, may think, and gives a verdict that becomes a score.

A *form* says what a judge is asked and how its verdict is read; any form goes with either way of asking:

| form | reads | verdict, behind a marker | a row's score |
|---|---|---|---|
| `pointwise` | problem, one answer | a grade | the grade, from 0 to 1 |
| `pairwise` | problem, two answers of a group | which is better | how often it is, over all ordered pairs |
| `listwise` | problem, all answers of a group | a grade for each | its grade, over several orders |

`by_verdicts` samples what the judge says, its thoughts in front of the marker (a critique) and the verdict,
as often as there are votes. `by_chances` puts the marker there itself and reads how likely each word of a
verdict is: of a `pointwise` form with the words no and yes that is the chance of yes. Either is a reward in
the compiled step. A judge is a model of the run with the task's own vocabulary, frozen or learning; rows are
read as they stand, nothing is tokenised again.

Source: as a reward in general, Zheng et al., 2023, https://arxiv.org/abs/2306.05685; the others beside the
functions.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs import text
from rlx.envs.text import Piece, Task
from rlx.errors import at_least, between
from rlx.types import Annotate, Batch, Key, Models


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Form:
  """What a judge is asked, and how its verdict is read.

  Attributes:
    lists: [L, k] which answers of a group are shown together, in this order: a question each.
    beside: tokens between two answers.
    asks: tokens behind the last answer.
    marker: token in front of the verdict.
    words: [W] tokens that a verdict is made of.
    num_words: v, how many of them it has.
    read: `[..., v]` places in `words` -> `[..., k]` scores of the answers in 0..1.
    say: `[..., k]` scores in 0..1 -> `[..., v]` places in `words`: a right verdict.
  """

  lists: np.ndarray
  beside: np.ndarray
  asks: np.ndarray
  marker: int
  words: np.ndarray
  num_words: int
  read: Callable[[jax.Array], jax.Array]
  say: Callable[[jax.Array], jax.Array]

  @property
  def group_size(self) -> int:
    """G, how many rows of a problem stand behind one another."""
    return int(self.lists.max()) + 1


def pointwise(task: Task | Dataset, *, asks: str, marker: str, words: str) -> Form:
  """One answer and a grade; two words, no and yes, are the plainest.

  Args:
    task: whose tokens these are.
    asks: what stands behind the answer.
    marker: one token, in front of the grade.
    words: the grades from the worst to the best, each one token, with spaces between them.
  """
  return _graded(task, np.array([[0]]), '', asks, marker, words)


def listwise(
    task: Task | Dataset, *, group_size: int, orders: int, beside: str, asks: str, marker: str, words: str
) -> Form:
  """All answers of a group and a grade for each, in the order in which they stand.

  A judge may favour a place. Orders are turned by as much each: with as many as there are answers every
  one of them stands in every place once.

  Args:
    task: whose tokens these are.
    group_size: G, rows of a problem.
    orders: R, questions about each group, in 1..G.
    beside: what stands between two answers.
    asks: what stands behind the last one.
    marker: as for `pointwise`.
    words: as for `pointwise`.
  """
  at_least(2, group_size=group_size)
  between(1, group_size, orders=orders)
  turned = [np.roll(np.arange(group_size), -(i * group_size // orders)) for i in range(orders)]
  return _graded(task, np.stack(turned), beside, asks, marker, words)


def _graded(task, lists, beside, asks, marker, words) -> Form:
  found = _words(task, words)
  most = max(len(found) - 1, 1)
  return Form(
      lists=lists, beside=_tokens(task, beside), asks=_tokens(task, asks),
      marker=text.one_token(task, marker), words=found, num_words=lists.shape[1],
      read=lambda places: places / most,
      say=lambda scores: jnp.round(scores * most).astype(jnp.int32),
  )


def pairwise(
    task: Task | Dataset, *, group_size: int, beside: str, asks: str, marker: str, words: str
) -> Form:
  """Two answers of a group and which is better, for all ordered pairs.

  A row's score is its win rate. Each pair is asked in both orders, so what a judge has for the first answer
  falls out: less 1/2, scores are the advantages of `advantages.pairwise`.

  Args:
    task: whose tokens these are.
    group_size: G, rows of a problem.
    beside: what stands between two answers.
    asks: what stands behind the second one.
    marker: as for `pointwise`.
    words: two: the first is better, the second is.
  Raises:
    ValueError: there are not two words.
  """
  at_least(2, group_size=group_size)
  found = _words(task, words)
  if len(found) != 2:
    raise ValueError(f'words={words!r}: a verdict on a pair is one of two words')
  pairs = [(i, j) for i in range(group_size) for j in range(group_size) if i != j]
  return Form(
      lists=np.array(pairs), beside=_tokens(task, beside), asks=_tokens(task, asks),
      marker=text.one_token(task, marker), words=found, num_words=1,
      read=lambda places: jnp.concatenate([1 - places, places], axis=-1),
      say=lambda scores: (scores[..., 1:] > scores[..., :1]).astype(jnp.int32),
  )


def _tokens(task, said: str) -> np.ndarray:
  return np.asarray(task.encode(said) if said else [], np.int32)


def _words(task, words: str) -> np.ndarray:
  if len(set(words.split())) != len(words.split()) or len(words.split()) < 2:
    raise ValueError(f'words={words!r}: at least two, all different, with spaces between them')
  return np.array([text.one_token(task, word) for word in words.split()], np.int32)


# --- questions and verdicts ---------------------------------------------------------------------------------


def questions(form: Form, policy: Speaker, batch: Batch) -> Piece:
  """What is asked about P groups of rows: [P * L, C] tokens, those about a group behind one another.

  Args:
    form: what is asked.
    policy: says how long completions can be, and what ends them.
    batch: rows [P * G] of one turn, those of a group behind one another; end tokens are left away.
  Raises:
    ValueError: groups do not fill the batch.
  """
  size, (num_rows, width) = form.group_size, batch['tokens'].shape
  if num_rows % size:
    raise ValueError(f'{num_rows} rows are no groups of {size}; the form of the judge says their size')
  said = engine.completions_of(batch, policy.decoding)
  counts = jnp.sum(batch['action_mask'] & ~policy.decoding.is_eos(batch['tokens']), axis=1)
  first = np.arange(0, num_rows, size)[:, None, None]
  asked = (first + form.lists[None]).reshape(-1, form.lists.shape[1])  # [P * L, k] rows
  piece = lambda rows: Piece(said[rows], counts[rows])
  fixed = lambda x: Piece(jnp.tile(jnp.asarray(x)[None], (len(asked), 1)), jnp.full(len(asked), len(x)))
  pieces = [Piece(batch['tokens'][asked[:, 0]], batch['prompt_lengths'][asked[:, 0]]), piece(asked[:, 0])]
  for rows in asked.T[1:]:
    pieces += [fixed(form.beside), piece(rows)]
  more = (asked.shape[1] - 1) * (said.shape[1] + len(form.beside)) + len(form.asks)
  return text.join(*pieces, fixed(form.asks), columns=width + more)


def read(form: Form, judge: Speaker, said: jax.Array, counts: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Which words the verdicts are, places in `form.words` [N, v], and whether they are in form [N].

  Args:
    form: what a verdict is.
    judge: what ends its rows.
    said: [N, C] what it says; a verdict stands behind the marker, and nothing behind it but an end token.
    counts: [N] how many tokens of it count.
  """
  at = lambda back: jnp.take_along_axis(said, jnp.maximum(counts - back, 0)[:, None], axis=1)[:, 0]
  verdict = jnp.stack([at(1 + back) for back in range(form.num_words, 0, -1)], axis=1)
  is_word = verdict[..., None] == jnp.asarray(form.words)[None, None]
  in_form = judge.decoding.is_eos(at(1)) & (at(2 + form.num_words) == form.marker)
  in_form &= is_word.any(axis=-1).all(axis=-1) & (counts >= 2 + form.num_words)
  return jnp.argmax(is_word, axis=-1), in_form


def of_rows(form: Form, scores: jax.Array, counts: jax.Array) -> jax.Array:
  """[P * G] float32: the mean score of each row over the questions about it; NaN where none counts.

  Args:
    form: which answers are in which question.
    scores: [P * L, K, k] of K answers to each question.
    counts: [P * L, K] bool, which of them count.
  """
  groups = len(scores) // len(form.lists)
  place = np.eye(form.group_size, dtype=np.float32)[form.lists]  # [L, k, G]
  shape = (groups, len(form.lists), *scores.shape[1:])
  known = counts.astype(jnp.float32).reshape(shape[:3])
  sums = jnp.einsum('plna,pln,lag->pg', scores.reshape(shape).astype(jnp.float32), known, place)
  seen = jnp.einsum('pln,lag->pg', known, place)
  return jnp.where(seen > 0, sums / jnp.maximum(seen, 1), jnp.nan).reshape(-1)


# --- rewards ------------------------------------------------------------------------------------------------


def by_verdicts(policy: Speaker, judge: Speaker, form: Form, *, thoughts: int, votes: int) -> Annotate:
  """Adds `rewards` [B]: the mean of what sampled verdicts give a row.

  A verdict that is off format counts for nothing, and a row without any has no reward: NaN, and never 0.

  Args:
    policy: says how long completions can be.
    judge: `models['judge']`, by its own temperature.
    form: a section of its own: `judges.pointwise`, `pairwise` or `listwise`.
    thoughts: the most tokens in front of the marker; 0 for a verdict at once.
    votes: K, samples for each question.
  Returns:
    A reward; `judge/off_format`, the share of verdicts that are none, is a metric.
  Source: with thoughts and votes, generative verifiers, https://arxiv.org/abs/2408.15240; of all answers at
    once, as the judge of https://arxiv.org/abs/2504.02495.
  """
  at_least(0, thoughts=thoughts)
  at_least(1, votes=votes)
  speaker = judge.saying(max_tokens=thoughts + form.num_words + 2, min_tokens=0)

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    asked = questions(form, policy, batch)
    rows = speaker.sample(models['judge'], asked.tokens, asked.lengths, key, group_size=votes)
    said = engine.completions_of(rows, speaker.decoding)
    places, in_form = read(form, speaker, said, rows['action_mask'].sum(axis=1))
    in_form = in_form.reshape(-1, votes)
    rewards = of_rows(form, form.read(places).reshape(*in_form.shape, -1), in_form)
    return {**batch, 'rewards': rewards, 'judge/off_format': _for_each(form, 1 - in_form.mean(axis=1))}

  return reward


def by_chances(policy: Speaker, judge: Speaker, form: Form, *, thoughts: int, votes: int) -> Annotate:
  """Adds `rewards` [B]: the score that is to be expected of a verdict, by the chances of its words.

      r = Σ_w p(w) score(w) / Σ_w p(w),   p the judge's own chances behind the marker, over the form's words

  With the words no and yes of a `pointwise` form it is p(yes) / (p(yes) + p(no)), with those of a `pairwise`
  form the mean chance to be preferred. There is a score of every row, and nothing is off format.

  Args:
    policy: as for `by_verdicts`.
    judge: likewise; its temperature and filters are those of its thoughts, and leave the chances alone.
    form: with verdicts of one word: `judges.pointwise` or `pairwise`.
    thoughts: tokens of a critique, which is sampled up to the marker; 0 for none.
    votes: K, critiques whose chances are averaged; 1 without thoughts.
  Returns:
    A reward; `judge/certainty` [B], the chance that a verdict is one of the form's words, is a metric.
  Raises:
    ValueError: the form's verdicts have several words, or there are several votes without a thought.
  Source: the chance of yes, with and without a critique in front of it: generative verifiers,
    https://arxiv.org/abs/2408.15240; the expected grade: G-Eval, https://arxiv.org/abs/2303.16634.
  """
  at_least(0, thoughts=thoughts)
  at_least(1, votes=votes)
  if form.num_words > 1:
    raise ValueError(f'a verdict of {form.num_words} words has no chance by its first one; ask by_verdicts')
  if votes > 1 and not thoughts:
    raise ValueError(f'votes={votes} without thoughts are {votes} times the same; set votes=1')
  own_chances = judge.saying(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, min_tokens=0)

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    asked = questions(form, policy, batch)
    if thoughts:
      asked = _thought(form, judge.saying(max_tokens=thoughts, min_tokens=0), models, asked, key, votes)
    size = len(asked.lengths)
    marker = Piece(jnp.full((size, 1), form.marker, jnp.int32), jnp.ones(size, jnp.int32))
    whole = text.join(asked, marker, columns=asked.tokens.shape[1] + 1)
    logits = own_chances.next_logits(models['judge'], whole.tokens, whole.lengths, prompt_columns=0)
    chances = jax.nn.softmax(logits.astype(jnp.float32))[:, form.words]
    certain = chances.sum(axis=1)
    log_chances = jax.nn.log_softmax(logits.astype(jnp.float32)[:, form.words])
    of_words = form.read(jnp.arange(len(form.words))[:, None])  # [W, k]
    scores = (jnp.exp(log_chances) @ of_words).reshape(-1, votes, of_words.shape[1])
    known = jnp.ones(scores.shape[:2], bool)
    told = _for_each(form, certain.reshape(-1, votes).mean(axis=1))
    return {**batch, 'rewards': of_rows(form, scores, known), 'judge/certainty': told}

  return reward


def _thought(form: Form, speaker: Speaker, models, asked: Piece, key: Key, votes: int) -> Piece:
  """Questions with critiques behind them, cut in front of the marker or the end: [N * votes, ..]."""
  rows = speaker.sample(models['judge'], asked.tokens, asked.lengths, key, group_size=votes)
  said = engine.completions_of(rows, speaker.decoding)
  place = jnp.arange(said.shape[1])[None]
  over = (said == form.marker) | speaker.decoding.is_eos(said)
  over |= place >= rows['action_mask'].sum(axis=1, keepdims=True)
  counts = jnp.where(over.any(axis=1), jnp.argmax(over, axis=1), said.shape[1])
  each = lambda x: jnp.repeat(x, votes, axis=0)
  columns = asked.tokens.shape[1] + said.shape[1]
  return text.join(Piece(each(asked.tokens), each(asked.lengths)), Piece(said, counts), columns=columns)


def _for_each(form: Form, x: jax.Array) -> jax.Array:
  """[P * G]: the mean over the questions about a group [P * L], at each of its rows."""
  return jnp.repeat(x.reshape(-1, len(form.lists)).mean(axis=1), form.group_size)
