"""Decoding in step, for samplers that read more than the token which they drew.

`sample.py` knows how a language model is read; here the caller does. What it carries from token to token,
what it makes of the last one and what it wants recorded are its own; when a row ends, where its noise comes
from and what its log-probs are of is the same for all.

`run` is that loop. `together` is the loop for several decoders that make one distribution, and `base_logits`
computes what each of them said of finished rows again.
"""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.engine import sample, shards
from rlx.engine.columns import window
from rlx.engine.decoding import Decoding
from rlx.kernels import loops
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params
from rlx.types import Batch, Models

# (state, tokens [B], logits [B, V] that they were drawn from, column []) -> (logits, state, record).
Advance = Callable[[Any, jax.Array, jax.Array, jax.Array], tuple[jax.Array, Any, Any]]
# (models, hidden states [B, D] of each, column [B]) -> adjusted logits [B, V].
Mix = Callable[[Models, dict[str, jax.Array], jax.Array], jax.Array]


def run(
    logits: jax.Array, state: Any, advance: Advance, keys: jax.Array, *, decoding: Decoding, greedy: bool
) -> tuple[jax.Array, jax.Array, Any]:
  """All rows token by token, until the last one has ended.

  Args:
    logits: [B, V] adjusted logits of the first tokens.
    state: what `advance` carries.
    advance: reads token number `column` of every row: adjusted logits of the next one, its state, and what is
      to be recorded of the token that was read, a tree of arrays [B, ...].
    keys: [B], the noise of each row; that of a token is fold_in(key, column), as in `sample.sample`.
    decoding: when a row ends, and which sampler draws.
    greedy: take the likeliest tokens, whatever `decoding` says.
  Returns:
    Tokens and log-probs [B, max_tokens], and records [B, max_tokens, ...] of the tokens that were read; zeros
    for the others, the last column among them.
  """
  num_rows, columns = logits.shape[0], decoding.max_tokens
  choice = dataclasses.replace(decoding, temperature=0.0) if greedy else decoding
  draw = lambda logits, column: sample.draw(choice, keys, logits, jnp.full(num_rows, column))
  write = lambda array, column, x: jax.lax.dynamic_update_slice_in_dim(array, x[:, None], column, axis=1)

  tokens, logprobs = draw(logits, 0)
  recorded = jax.eval_shape(advance, state, tokens, logits, jnp.int32(0))[2]
  out = (
      write(jnp.full((num_rows, columns), decoding.pad_id, jnp.int32), 0, tokens),
      write(jnp.zeros((num_rows, columns), jnp.float32), 0, logprobs),
      jax.tree.map(lambda x: jnp.zeros((num_rows, columns, *x.shape[1:]), x.dtype), recorded),
  )

  def unfinished(carry):
    column, _, _, done, *_ = carry
    return (column < columns) & ~jnp.all(done)

  def step(carry):
    column, tokens, logits, done, state, (out_tokens, out_logprobs, records) = carry
    logits, state, record = advance(state, tokens, logits, column - 1)
    records = jax.tree.map(lambda a, x: write(a, column - 1, x), records, record)
    tokens, logprobs = draw(logits, column)
    tokens = jnp.where(done, decoding.pad_id, tokens)
    out_tokens = write(out_tokens, column, tokens)
    out_logprobs = write(out_logprobs, column, jnp.where(done, 0, logprobs))
    done |= decoding.is_end(tokens)
    return column + 1, tokens, logits, done, state, (out_tokens, out_logprobs, records)

  carry = (jnp.int32(1), tokens, logits, decoding.is_end(tokens), state, out)
  with loops.times(columns):
    return jax.lax.while_loop(unfinished, step, carry)[-1]


def keys_of_rows(key: jax.Array, num: int) -> jax.Array:
  """[num] keys of the rows of a batch, by their numbers."""
  return jax.vmap(functools.partial(jax.random.fold_in, key))(jnp.arange(num))


def together(
    models: Models,
    decoders: dict[str, LanguageModel],
    prompts: jax.Array,
    prompt_lengths: jax.Array,
    key: jax.Array,
    mix: Mix,
    *,
    group_size: int,
    decoding: Decoding,
    greedy: bool,
) -> Batch:
  """`sample.sample` of a distribution that several decoders make together; all rows are decoded at once.

  Args:
    models: over the same vocabulary.
    decoders: functions of each model that is read.
    prompts: [P, Tp] int32, contiguous from column 0.
    prompt_lengths: [P] int32, at least 1.
    key: the noise of the whole batch.
    mix: the distribution of the next tokens, from what each of `decoders` makes of those before. It takes the
      models from its argument: each shard of devices has them whole.
    group_size: samples a prompt.
    decoding: when a row ends, and which sampler draws; temperature and filters are applied in `mix`.
    greedy: take the likeliest tokens.
  Returns:
    The batch that `sample.sample` describes; `sampler_logprobs` are of what `mix` says.
  Raises:
    ValueError: prompt and completion do not fit the context of one of them.
  """
  for model in decoders.values():
    sample.check_context(model, decoding, prompts.shape[1])
  num_rows = prompts.shape[0] * group_size
  read = functools.partial(_read_together, decoders=decoders, mix=mix, decoding=decoding, greedy=greedy)
  tokens, logprobs = shards.over_groups(
      read, {name: models[name] for name in decoders}, prompts, prompt_lengths,
      keys_of_rows(key, num_rows), group_size=group_size,
      axes={name: axis for model in decoders.values() for name, axis in model.axes.items()},
      dtype=jnp.result_type(*(model.dtype for model in decoders.values())),
  )
  lengths, budgets = jnp.repeat(prompt_lengths, group_size), jnp.full(num_rows, decoding.max_tokens)
  return sample.as_rows(prompts, lengths, group_size, tokens, logprobs, budgets, decoding)


def _read_together(
    models, prompts, prompt_lengths, keys, group_size, *, decoders: dict[str, LanguageModel], mix: Mix,
    decoding, greedy,
):
  """Tokens and log-probs [B, max_tokens] of all rows in step."""
  num_rows = keys.shape[0]
  read = {name: model.forward(models[name], prompts) for name, model in decoders.items()}
  last = lambda x: jnp.take_along_axis(x, (prompt_lengths - 1)[:, None, None], axis=1)[:, 0]
  hidden = {name: jnp.repeat(last(x), group_size, axis=0) for name, (x, _) in read.items()}
  logits_at = lambda hidden, column: mix(models, hidden, jnp.full(num_rows, column))

  def advance(caches, tokens, logits, column):
    del logits
    new = {
        name: model.decode(models[name], tokens, column, prompt_lengths, read[name][1], caches[name])
        for name, model in decoders.items()
    }
    hidden, caches = ({name: x[i] for name, x in new.items()} for i in (0, 1))
    return logits_at(hidden, column + 1), caches, ()

  caches = {name: model.empty_cache(num_rows, decoding.max_tokens) for name, model in decoders.items()}
  tokens, logprobs, _ = run(logits_at(hidden, 0), caches, advance, keys, decoding=decoding, greedy=greedy)
  return tokens, logprobs


def predicting(params: Params, model: LanguageModel, batch: Batch, *, decoding: Decoding) -> jax.Array:
  """The hidden states behind which an action can stand.

  Args:
    params: of the model that reads.
    model: its functions.
    batch: rows with `tokens, prompt_lengths`.
    decoding: how many actions a row may have.
  Returns:
    [B, max_tokens, D]; entry n is the one that predicts action number n.
  """
  hidden, _ = model.forward(params, batch['tokens'])
  return window(hidden, batch['prompt_lengths'] - 1, decoding.max_tokens)


def base_logits(params: Params, model: LanguageModel, batch: Batch, *, decoding: Decoding) -> jax.Array:
  """Adjusted logits at the places of a row where an action can stand, [B, max_tokens, V] float32.

  Args:
    params: of the policy.
    model: its functions.
    batch: rows with `tokens, prompt_lengths`.
    decoding: as the sampler's.
  """
  def read(params, rows):
    return model.logits(params, predicting(params, model, rows, decoding=decoding))

  rows = {name: batch[name] for name in ('tokens', 'prompt_lengths')}
  logits = sharding.over_rows(read, params, rows, axes=model.axes, dtype=model.dtype)
  may_end = jnp.arange(decoding.max_tokens)[None, :, None] >= decoding.min_tokens
  return decoding.adjust(logits, may_end=may_end)
