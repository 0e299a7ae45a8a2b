"""Questions to unfinished rows: cut them, say something, and see how a policy would go on from there.

What a row is worth half way (the chance that a prover finishes it, how sure an answer is, the reward under a
smaller budget) is read off short continuations. The policy that continues need not be the one that began.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.columns import window
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params
from rlx.types import Batch, Key


class Probe(NamedTuple):
  """What was said behind B rows, each cut at N places, S times."""

  tokens: jax.Array  # [B, N, S, max_tokens] int32, padding behind the end
  mask: jax.Array  # [B, N, S, max_tokens] bool, True where a token was sampled
  logprobs: jax.Array  # [B, N, S, max_tokens] float32, 0 behind the end


def prefix_probe(
    params: Params,
    model: LanguageModel,
    batch: Batch,
    cuts: jax.Array,
    key: Key,
    *,
    appended: jax.Array,
    decoding: Decoding,
    samples: int,
) -> Probe:
  """Continuations of rows that are cut: prefix, appended tokens, then `samples` times whatever comes.

  Args:
    params: of the policy that goes on; any one with the tokens of the rows.
    model: its functions.
    batch: rows with `tokens, prompt_lengths`.
    cuts: [B, N] int32, how many actions are kept, at most as many as the row has.
    key: the noise; it is named by row, cut and sample.
    appended: [K] int32 tokens behind each cut, such as those of `The answer is`; K may be 0.
    decoding: how to sample; its `max_tokens` and `min_tokens` count from behind the appended tokens.
    samples: S.
  Raises:
    ValueError: rows, appended tokens and continuations do not fit the context.
  Source: what SPAE, PAV (https://arxiv.org/abs/2410.08146) and BRPO need of a rollout.
  """
  prompts, lengths = cut_rows(batch, cuts, appended)
  said = engine.sample(params, model, prompts, lengths, key, group_size=samples, decoding=decoding)
  shape = (*cuts.shape, samples, decoding.max_tokens)
  behind = lambda name: engine.actions(said, said[name], decoding.max_tokens).reshape(shape)
  return Probe(behind('tokens'), behind('action_mask'), behind('sampler_logprobs'))


def up_to_mark(batch: Batch, mark: int, decoding: Decoding) -> tuple[jax.Array, jax.Array]:
  """Actions up to the token that ends thinking [B, T], with it; and how many they are without it [B].

  Args:
    batch: rows with `tokens, action_mask`.
    mark: the token; an end counts as little as it.
    decoding: says what an end is.
  """
  tokens, mask = batch['tokens'], batch['action_mask']
  is_mark = (tokens == mark) & mask
  thinking = mask & (jnp.cumsum(is_mark, axis=1) - is_mark == 0)
  return thinking, jnp.sum(thinking & ~is_mark & ~decoding.is_end(tokens), axis=1)


def success_of_cuts(
    params: Params, speaker: Speaker, task: Task, batch: Batch, cuts: jax.Array, key: Key, *, samples: int,
    best_of: int,
) -> jax.Array:
  """The chance that one of K completions of each prefix is right, without bias from `samples` of them.

  With K = 1 it is the share of right completions, with K = `samples` whether there is one.

  Args:
    params: of the speaker.
    speaker: goes on, for up to its `max_tokens` more.
    task: verifies.
    batch: rows with `tokens, prompt_lengths`, and the columns of their problems.
    cuts: [B, N] int32, how many actions are kept.
    key: the noise.
    samples: n, completions of each prefix.
    best_of: K.
  Returns:
    [B, N] float32: 1 - C(n - right, K) / C(n, K).
  """
  prompts, lengths = cut_rows(batch, cuts, jnp.zeros(0, jnp.int32))
  said = speaker.sample(params, prompts, lengths, key, group_size=samples)
  each = lambda x: jnp.repeat(x, cuts.shape[1] * samples, axis=0)
  problems = {k: each(v) for k, v in batch.items() if k not in said}
  whole = {'prompt_lengths': each(batch['prompt_lengths'])}
  completions = engine.actions(whole, said['tokens'], said['tokens'].shape[1])
  right = task.verify(problems, completions).reshape(*cuts.shape, samples).sum(axis=-1)
  missed = jnp.ones_like(right)
  for i in range(best_of):
    missed *= jnp.maximum(samples - right - i, 0) / (samples - i)
  return 1 - missed


def answer_logprobs(
    params: Params,
    model: LanguageModel,
    batch: Batch,
    cuts: jax.Array,
    *,
    appended: jax.Array,
    answers: jax.Array,
    answer_lengths: jax.Array,
    decoding: Decoding,
    chunk_size: int,
) -> jax.Array:
  """How likely given answers are behind rows that are cut: log-probs, summed over the answer's tokens.

  Args:
    params: of the policy that is asked.
    model: its functions.
    batch: rows with `tokens, prompt_lengths`.
    cuts: [B, N] int32, how many actions are kept.
    appended: [K] int32 tokens between the cut and the answer; K may be 0.
    answers: [B, A] int32, an answer for each row, at most `decoding.max_tokens` long.
    answer_lengths: [B] int32.
    decoding: temperature and filters apply, as in `sample.score`.
    chunk_size: tokens whose logits exist at one time.
  Returns:
    [B, N] float32.
  Raises:
    ValueError: answers are longer than what is scored.
  """
  if answers.shape[1] > decoding.max_tokens:
    raise ValueError(
        f'answers of {answers.shape[1]} tokens, but decoding.max_tokens={decoding.max_tokens} are scored; '
        'raise it'
    )
  prompts, lengths = cut_rows(batch, cuts, appended)
  per_cut = lambda x: jnp.repeat(x, cuts.shape[1], axis=0)
  columns = prompts.shape[1] + answers.shape[1]
  placed = window(per_cut(answers), -lengths, columns)
  index = jnp.arange(columns)[None] - lengths[:, None]
  mask = (index >= 0) & (index < per_cut(answer_lengths)[:, None])
  room = jnp.pad(prompts, ((0, 0), (0, answers.shape[1])))
  rows = {'tokens': jnp.where(mask, placed, room), 'action_mask': mask, 'prompt_lengths': lengths}
  logprobs, _ = engine.score(params, model, rows, decoding=decoding, chunk_size=chunk_size)
  return logprobs.sum(axis=1).reshape(cuts.shape)


def cut_rows(batch: Batch, cuts: jax.Array, appended: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The prompts, the first actions of each row, and the appended tokens, as prompts of their own.

  Args:
    batch: rows with `tokens, prompt_lengths`.
    cuts: [B, N] int32, how many actions are kept.
    appended: [K] int32.
  Returns:
    [B * N, T + K] int32 tokens with zeros behind the end, and their lengths [B * N].
  """
  num_cuts, extra = cuts.shape[1], appended.shape[0]
  tokens = jnp.repeat(jnp.pad(batch['tokens'], ((0, 0), (0, extra))), num_cuts, axis=0)
  kept = (batch['prompt_lengths'][:, None] + cuts).reshape(-1)
  index = jnp.arange(tokens.shape[1])[None] - kept[:, None]
  behind = window(jnp.broadcast_to(appended, (tokens.shape[0], extra)), -kept, tokens.shape[1])
  return jnp.where(index < 0, tokens, behind), kept + extra
