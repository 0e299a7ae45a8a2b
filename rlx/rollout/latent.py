"""Rollouts of a policy that reads hybrid inputs (`models/latent.py`), and their log-probs.

The input of a token depends on the distribution that it was drawn from, so a row cannot be read from its
tokens alone. As in the authors' code, the sampler keeps the latent of every token in the batch, and
training takes them as constants: one pass over whole rows computes the log-probs again, with gradients into
the gate and the decoder, but none through what the policy said at earlier tokens. A replay of the recurrence
would have those too, at one pass a token.

The prompt is read as tokens, and so is what stands behind the start of the answer, that token included.
"""

import functools

import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine import shards, stepwise
from rlx.engine.columns import window
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.models import latent
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params
from rlx.rollout.prompts import sampled
from rlx.types import Batch, Key, Models, StatefulRollout


def completions(
    task: Task | Dataset, policy: Speaker, *, batch_size: int, group_size: int, answer_start: str
) -> StatefulRollout:
  """Draws training problems and samples `group_size` completions of each, with hybrid inputs.

  Args:
    task: where problems come from.
    policy: samples.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
    answer_start: the token that ends the hybrid part of a row; '' if none does.
  Returns:
    A `rollout` function, whose batches also have `latents` and `hybrid` of `sample`.
  Raises:
    ValueError: `group_size` does not divide `batch_size`, or `answer_start` is not one token.
  """
  answer_id = token_of(task, answer_start)

  def draw(models: Models, prompts: jax.Array, lengths: jax.Array, key: Key) -> Batch:
    return sample(
        models['policy'], policy.model, prompts, lengths, key, group_size=group_size,
        decoding=policy.decoding, answer_id=answer_id, greedy=False,
    )

  return sampled(task, draw, batch_size=batch_size, group_size=group_size)


def token_of(task: Task | Dataset, answer_start: str) -> int:
  """The token that ends the hybrid part; -1, which no token is, where there is none.

  Raises:
    ValueError: `answer_start` is several tokens.
  """
  tokens = task.encode(answer_start)
  if len(tokens) > 1:
    raise ValueError(f'answer_start={answer_start!r} is {len(tokens)} tokens; name one, or none')
  return int(tokens[0]) if len(tokens) else -1


def sample(
    params: Params,
    model: LanguageModel,
    prompts: jax.Array,
    prompt_lengths: jax.Array,
    key: jax.Array,
    *,
    group_size: int,
    decoding: Decoding,
    answer_id: int,
    greedy: bool,
) -> Batch:
  """`sample.sample` of a policy with a gate; all rows are decoded at once.

  Args:
    params: of `latent.init`.
    model: functions of the decoder.
    prompts: [P, Tp] int32, contiguous from column 0.
    prompt_lengths: [P] int32, at least 1.
    key: the noise of the whole batch.
    group_size: samples a prompt.
    decoding: how to draw. Latents are of its distribution, also where `greedy`.
    answer_id: the token from which on inputs are plain; -1 for none.
    greedy: take the likeliest tokens.
  Returns:
    The batch that `sample.sample` describes, with `latents` [B, T, D], the latent that was read with each
    token, and `hybrid` [B, T] bool, where one was; the last token of a row is not read, and has zeros.
  Raises:
    ValueError: prompt and completion do not fit the context.
  """
  engine.check_context(model, decoding, prompts.shape[1])
  num_rows = prompts.shape[0] * group_size
  read = functools.partial(_think, model=model, decoding=decoding, answer_id=answer_id, greedy=greedy)
  tokens, logprobs, (h, thinks) = shards.over_groups(
      read, params, prompts, prompt_lengths, stepwise.keys_of_rows(key, num_rows), group_size=group_size,
      axes=model.axes, dtype=model.dtype,
  )
  lengths, budgets = jnp.repeat(prompt_lengths, group_size), jnp.full(num_rows, decoding.max_tokens)
  batch = engine.as_rows(prompts, lengths, group_size, tokens, logprobs, budgets, decoding)
  spread = lambda x: window(x, -lengths, batch['tokens'].shape[1])
  hybrid = spread(thinks) & batch['action_mask']
  return {**batch, 'latents': jnp.where(hybrid[..., None], spread(h), 0), 'hybrid': hybrid}


def _think(params, prompts, prompt_lengths, keys, group_size, *, model, decoding, answer_id, greedy):
  """Tokens and log-probs [B, max_tokens] of all rows in step, and what was read with each token."""
  hidden, prompt_kv = model.forward(params, prompts)
  hidden = jnp.take_along_axis(hidden, (prompt_lengths - 1)[:, None, None], axis=1)[:, 0]
  hidden, num_rows = jnp.repeat(hidden, group_size, axis=0), keys.shape[0]
  logits_at = lambda hidden, column: engine.adjusted_logits(
      params, model, decoding, hidden, jnp.full(num_rows, column)
  )

  def advance(state, tokens, logits, column):
    cache, thinks = state
    thinks &= (tokens != answer_id) & ~decoding.is_end(tokens)  # behind its end a row is not read
    h = latent.latents(params, model, logits)
    inputs = _inputs(params, model, tokens, h, thinks)
    hidden, cache = model.decode(params, inputs, column, prompt_lengths, prompt_kv, cache)
    record = (jnp.where(thinks[:, None], h, 0), thinks)
    return logits_at(hidden, column + 1), (cache, thinks), record

  state = (model.empty_cache(num_rows, decoding.max_tokens), jnp.ones(num_rows, bool))
  return stepwise.run(logits_at(hidden, 0), state, advance, keys, decoding=decoding, greedy=greedy)


def score(
    params: Params, model: LanguageModel, batch: Batch, *, decoding: Decoding, chunk_size: int
) -> tuple[jax.Array, jax.Array]:
  """`sample.score` of rows that were read with latents, which are constants here.

  Args:
    params: of `latent.init`.
    model: functions of the decoder.
    batch: rows of `sample`.
    decoding: as the sampler's.
    chunk_size: tokens whose logits exist at one time.
  Returns:
    [B, T] float32 log-probs and entropies in nats; zero where `action_mask` is False.
  """
  def read(params, rows):
    h = jax.lax.stop_gradient(rows['latents'])
    inputs = _inputs(params, model, rows['tokens'], h, rows['hybrid'])
    hidden, _ = model.forward(params, inputs)
    return engine.score_hidden(params, model, rows, hidden, decoding=decoding, chunk_size=chunk_size)

  columns = ('tokens', 'action_mask', 'prompt_lengths', 'latents', 'hybrid')
  rows = {name: batch[name] for name in columns}
  return sharding.over_rows(read, params, rows, axes=model.axes, dtype=model.dtype)


def _inputs(params, model, tokens, h, hybrid):
  """What the decoder reads, [..., D], for tokens [...]: mixed with their latents where `hybrid`."""
  embeddings = model.embed(params, tokens)
  return jnp.where(hybrid[..., None], latent.mix(params, embeddings, h).astype(model.dtype), embeddings)
