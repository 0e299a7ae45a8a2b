"""Judges that speak of steps: they read a row, and say of each of its steps whether it is right, `11011`.

What a judge reads is the row up to its end and the last mark of the prompt once more, `3x2y,4,5,7=43:18,..=`;
what it says are ones and zeros, as many as there are steps, and the end token. Whatever else it says is off
format and counts for nothing. So a judge is a language model of the task's own vocabulary, which is sampled,
votes, and learns as any other.

Source of the idea: generative process reward models, as in https://arxiv.org/abs/2509.22558 (StepORLM) and
https://arxiv.org/abs/2512.03244 (SPARK), of which the abstracts were at hand; a verdict without a critique in
front of it is ours.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs import text
from rlx.envs.text import StepTask
from rlx.models.transformer import Params
from rlx.types import Annotate, Batch, Key, Models

WRONG, RIGHT = '0', '1'
MARK = '='  # behind the prompt of the problem, and behind what is to be judged


class Verdicts(NamedTuple):
  """What K samples of a judge say of each of N rows."""

  right: jax.Array  # [N, K, S] bool, the steps that are called right; False behind the last
  in_form: jax.Array  # [N, K] bool, whether as many steps are judged as there are
  counts: jax.Array  # [N] int32, steps of the row
  rows: Batch  # [N * K] as they were sampled

  @property
  def steps(self) -> jax.Array:
    """[N, S] bool, True where there is a step."""
    return jnp.arange(self.right.shape[2])[None] < self.counts[:, None]

  @property
  def called_right(self) -> jax.Array:
    """[N, S] float32, the share of samples in form that call a step right; 1/2 where there is none."""
    known = self.in_form[:, :, None]
    return jnp.where(known.any(axis=1), jnp.mean(self.right, axis=1, where=known), 0.5)

  @property
  def score(self) -> jax.Array:
    """[N] float32, `called_right` as a mean over the steps of the row; 0 where it has none."""
    total = jnp.sum(jnp.where(self.steps, self.called_right, 0), axis=1)
    return total / jnp.maximum(self.counts, 1)


def as_asked(task: StepTask, batch: Batch) -> tuple[jax.Array, jax.Array]:
  """What a judge reads of rows: prompts [B, T + 1] and their lengths [B].

  Args:
    task: whose vocabulary the rows are of.
    batch: rows with `tokens, valid` [B, T]; an end token is left away.
  """
  mark = text.characters(MARK, task.alphabet)[0]
  lengths = jnp.sum(batch['valid'] & (batch['tokens'] != text.EOS_ID), axis=1)
  tokens, place = jnp.pad(batch['tokens'], ((0, 0), (0, 1))), jnp.arange(batch['tokens'].shape[1] + 1)[None]
  prompts = jnp.where(place < lengths[:, None], tokens, text.PAD_ID)
  return jnp.where(place == lengths[:, None], mark, prompts), lengths + 1


def said_of(task: StepTask, right: jax.Array, counts: jax.Array) -> jax.Array:
  """[N, S + 1] tokens of the verdict `right` [N, S] on the first `counts` [N] steps, with the end token."""
  words = text.characters(WRONG + RIGHT, task.alphabet)[jnp.pad(right, ((0, 0), (0, 1))).astype(jnp.int32)]
  place = jnp.arange(words.shape[1])[None] - counts[:, None]
  return jnp.where(place < 0, words, jnp.where(place == 0, text.EOS_ID, text.PAD_ID)).astype(jnp.int32)


def judging(task: StepTask, judge: Speaker) -> Speaker:
  """The judge with room for one verdict."""
  return judge.saying(max_tokens=task.max_steps + 1)


def verdicts(
    task: StepTask, judge: Speaker, params: Params, batch: Batch, completions: jax.Array, key: Key, *,
    votes: int,
) -> Verdicts:
  """Verdicts of a judge on rows.

  Args:
    task: what the rows solve.
    judge: samples, by its own temperature.
    params: of the judge.
    batch: N rows.
    completions: [N, C] what they say.
    key: of the noise.
    votes: K, verdicts on each row.
  """
  speaker = judging(task, judge)
  prompts, lengths = as_asked(task, batch)
  rows = speaker.sample(params, prompts, lengths, key, group_size=votes)
  counts = task.count_steps(completions)
  said = engine.completions_of(rows, speaker.decoding)
  in_form, right = read(task, said, jnp.repeat(counts, votes))
  shape = (len(counts), votes)
  return Verdicts(right.reshape(*shape, -1), in_form.reshape(shape), counts, rows)


def as_reconsidered(
    task: StepTask, batch: Batch, right: jax.Array, counts: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """What a judge reads when it goes over a verdict: `as_asked`, then the verdict and the mark once more.

  Args:
    task: as for `as_asked`.
    batch: rows [B, T].
    right: [B, S] bool, the verdict on each.
    counts: [B] steps of each.
  Returns:
    Prompts [B, T + S + 2] and their lengths [B].
  """
  asked, lengths = as_asked(task, batch)
  mark = text.characters(MARK, task.alphabet)[0]
  words = said_of(task, right, counts)
  tokens = jnp.pad(asked, ((0, 0), (0, words.shape[1])))
  place = jnp.arange(tokens.shape[1])[None] - lengths[:, None]
  verdict = jnp.take_along_axis(words, jnp.clip(place, 0, words.shape[1] - 1), axis=1)
  tokens = jnp.where((place >= 0) & (place < counts[:, None]), verdict, tokens)
  return jnp.where(place == counts[:, None], mark, tokens), lengths + counts + 1


def reconsidered(
    task: StepTask, judge: Speaker, params: Params, batch: Batch, found: Verdicts, key: Key
) -> Verdicts:
  """Verdicts that the judge itself has gone over, one after the other: a meta-critique.

  It reads the row and a verdict on it, and says a verdict again. Where that is off format the first one
  stands, and a first one that is off format is not gone over.

  Args:
    task: what the rows solve.
    judge: samples, by its own temperature; has been shown verdicts to go over (`spoken_steps.taught_again`).
    params: of the judge.
    batch: N rows, as the verdicts are on.
    found: K verdicts on each.
    key: of the noise.
  Returns:
    As many verdicts; `rows` are those in which the judge goes over them.
  Source: SPARK, https://arxiv.org/abs/2512.03244, sequential scaling, from the abstract; that a verdict is
    gone over without words, and by the model that said it, is ours.
  """
  num_rows, votes, num_steps = found.right.shape
  each = {name: jnp.repeat(batch[name], votes, axis=0) for name in ('tokens', 'valid')}
  counts, first = jnp.repeat(found.counts, votes), found.right.reshape(-1, num_steps)
  speaker = judging(task, judge)
  prompts, lengths = as_reconsidered(task, each, first, counts)
  rows = speaker.sample(params, prompts, lengths, key, group_size=1)
  in_form, right = read(task, engine.completions_of(rows, speaker.decoding), counts)
  again = found.in_form & in_form.reshape(num_rows, votes)
  right = jnp.where(again[:, :, None], right.reshape(found.right.shape), found.right)
  return found._replace(right=right, rows=rows)


def read(task: StepTask, said: jax.Array, counts: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Whether verdicts [N, S + 1] are in form [N], and which of `counts` [N] steps they call right [N, S]."""
  wrong, right = text.characters(WRONG + RIGHT, task.alphabet)
  place = jnp.arange(said.shape[1])[None] - counts[:, None]
  is_word = (said == wrong) | (said == right)
  fits = jnp.where(place < 0, is_word, (said == text.EOS_ID) | (place > 0))
  in_form = jnp.all(fits, axis=1)
  return in_form, ((said == right) & (place < 0) & in_form[:, None])[:, :-1]


# --- rewards ------------------------------------------------------------------------------------------------


def right_steps(task: StepTask, policy: Speaker, judge: Speaker, *, votes: int) -> Annotate:
  """Adds `rewards` [B]: the share of a row's steps that the judge calls right, and nothing of the answer.

  A row of one step is right in all of its steps as easily as a row that is complete: see `in_form`.

  Args:
    task: what the rows solve.
    policy: says how long completions can be.
    judge: `models['judge']`.
    votes: verdicts on each row.
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    completions = engine.completions_of(batch, policy.decoding)
    found = verdicts(task, judge, models['judge'], batch, completions, key, votes=votes)
    off_format = 1 - found.in_form.mean(axis=1)
    return {**batch, 'rewards': found.score, 'judge/off_format': off_format}

  return reward


def in_form(task: StepTask, policy: Speaker, reward: Annotate) -> Annotate:
  """A reward that is 0 for rows without a solution's form: what a process reward is guarded by.

  Args:
    task: what the rows solve.
    policy: says how long completions can be.
    reward: a section of its own, which adds `rewards` [B].
  """

  def guarded(models: Models, batch: Batch, key: Key) -> Batch:
    fits = task.in_form(batch, engine.completions_of(batch, policy.decoding))
    batch = reward(models, batch, key)
    rewards = jnp.where(fits, batch['rewards'], 0)
    return {**batch, 'rewards': rewards, 'reward/in_form': fits.astype(jnp.float32)}

  return guarded
