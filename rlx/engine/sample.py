"""Sampling completions from a decoder: prefill, then one decoding loop, in one program.

What a sequence says is decided by `fold_in(fold_in(key, sequence_id), position)` alone: not by its row, its
neighbours, the batch size or the mesh. Unique prompts are read once; the samples of a group share their keys
and values. The loop ends as soon as every row has ended.

The sampler and the scorer go through the same `Decoding.adjust`, so that under a temperature or a filter
`sampler_logprobs` and the log-probs of training are of the same (filtered, renormalised) distribution.
"""

import functools

import chex
import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.engine import packing as packings
from rlx.engine import shards, slots, speculate
from rlx.engine.columns import window
from rlx.engine.decoding import Decoding
from rlx.engine.packing import Layout, Packing
from rlx.engine.speculate import Speculation
from rlx.errors import at_least
from rlx.kernels import loops
from rlx.kernels.linear_logprob import linear_logprob
from rlx.kernels.sampler import inverse_cdf
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params
from rlx.types import Batch


def sample(
    params: Params,
    model: LanguageModel,
    prompts: jax.Array,
    prompt_lengths: jax.Array,
    key: jax.Array,
    *,
    group_size: int,
    decoding: Decoding,
    num_slots: int = 0,
    prompt_of_row: jax.Array | None = None,
    sequence_ids: jax.Array | None = None,
    budgets: jax.Array | None = None,
    speculation: Speculation | None = None,
) -> Batch:
  """Completions of prompts, `group_size` samples each; the rows of a group are consecutive.

  Args:
    params: of the policy.
    model: its functions.
    prompts: [P, Tp] int32, contiguous from column 0.
    prompt_lengths: [P] int32, at least 1.
    key: the noise of the whole batch.
    group_size: samples a prompt.
    decoding: how to draw, and when to stop.
    num_slots: rows that are decoded at a time; a row that ends makes room for the next one (`slots.py`). 0
      decodes all at once, which shares the keys and values of a prompt within its group: better where rows
      are of about the same length.
    prompt_of_row: [P * group_size] int32 in 0..P-1, for samples that are dealt out unevenly
      (`allocation.expand`): `group_size` is then their mean, and `groups` says the prompt. With slots prompts
      are still read once, without them once a row.
    sequence_ids: [P * group_size] int32 names of the sequences, which choose their noise; 0, 1, 2, ... if
      not given.
    budgets: [P * group_size] int32, the most actions of each row, in 1..max_tokens; max_tokens if not given.
    speculation: how tokens are guessed ahead (`speculate.py`), which needs slots and changes nothing about
      what is said; not at all if not given.
  Returns:
    A batch of B = P * group_size rows of Tp + max_tokens tokens with `tokens, valid, action_mask,
    prompt_lengths, turns, groups, truncated, sampler_logprobs`, and `speculation/..` of `Tally.describe`
    where there is speculation.
  Raises:
    ValueError: prompt and completion do not fit the context, or there is speculation without slots.
  """
  chex.assert_rank([prompts, prompt_lengths], [2, 1])
  num_prompts, prompt_columns = prompts.shape
  num_rows = num_prompts * group_size
  check_context(model, decoding, prompt_columns)
  at_least(0, num_slots=num_slots)
  if speculation is not None:
    decoding.is_end(prompts)  # raises where strings end a row
    speculate.check(
        num_slots=num_slots, draft_tokens=speculation.draft_tokens, max_live=speculation.max_live
    )
  if sequence_ids is None:
    sequence_ids = jnp.arange(num_rows)
  if budgets is None:
    budgets = jnp.full(num_rows, decoding.max_tokens)
  if prompt_of_row is not None and not num_slots:
    rows = sample(
        params, model, prompts[prompt_of_row], prompt_lengths[prompt_of_row], key, group_size=1,
        decoding=decoding, sequence_ids=sequence_ids, budgets=budgets,
    )
    return {**rows, 'groups': prompt_of_row}
  keys = jax.vmap(functools.partial(jax.random.fold_in, key))(sequence_ids)
  tokens, logprobs, columns = _decode_on_shards(
      params, model, prompts, prompt_lengths, keys, budgets, group_size=group_size, decoding=decoding,
      num_slots=num_slots, speculation=speculation, prompt_of_row=prompt_of_row,
  )
  if prompt_of_row is None:
    lengths = jnp.repeat(prompt_lengths, group_size)
    return {**as_rows(prompts, lengths, group_size, tokens, logprobs, budgets, decoding), **columns}
  prompts, lengths = prompts[prompt_of_row], prompt_lengths[prompt_of_row]
  rows = as_rows(prompts, lengths, 1, tokens, logprobs, budgets, decoding)
  return {**rows, **columns, 'groups': prompt_of_row}


def check_context(model: LanguageModel, decoding: Decoding, prompt_columns: int) -> None:
  """Raises `ValueError` where prompt and completion do not fit the context."""
  if prompt_columns + decoding.max_tokens > model.context_length:
    raise ValueError(
        f'prompts of {prompt_columns} tokens and max_tokens={decoding.max_tokens} do not fit the context '
        f'of {model.context_length}; lower max_tokens or raise context_length'
    )


def _decode_on_shards(
    params, model, prompts, prompt_lengths, keys, budgets, *, group_size, decoding, num_slots, speculation,
    prompt_of_row,
):
  """Tokens and log-probs [B, max_tokens] and columns [B]; each shard of devices decodes its own rows."""
  num_shards = sharding.row_shards()
  how = {'model': model, 'decoding': decoding}
  if num_slots:
    part = lambda number: -(-number // num_shards)
    if speculation is not None:
      speculation = speculation._replace(max_live=part(speculation.max_live))
    decode = functools.partial(_decode_in_slots, num_slots=part(num_slots), speculation=speculation, **how)
  else:
    decode = functools.partial(_decode_together, **how)
  if prompt_of_row is not None and num_shards == 1:
    decode = functools.partial(decode, prompt_of_row=prompt_of_row)
    return decode(
        params, prompts=prompts, prompt_lengths=prompt_lengths, keys=keys, budgets=budgets,
        group_size=group_size,
    )
  if prompt_of_row is not None:
    prompts, prompt_lengths, group_size = prompts[prompt_of_row], prompt_lengths[prompt_of_row], 1
  return shards.over_groups(
      lambda params, prompts, lengths, rows, size: decode(
          params, prompts=prompts, prompt_lengths=lengths, group_size=size, **rows
      ),
      params, prompts, prompt_lengths, {'keys': keys, 'budgets': budgets}, group_size=group_size,
      axes=model.axes, dtype=model.dtype,
  )


def _decode_together(params, model, prompts, prompt_lengths, keys, budgets, *, group_size, decoding):
  """All rows in step, until the last one has ended: tokens and log-probs [B, max_tokens], no columns."""
  num_rows = keys.shape[0]
  hidden, prompt_kv = model.forward(params, prompts)
  hidden = jnp.take_along_axis(hidden, (prompt_lengths - 1)[:, None, None], axis=1)[:, 0]
  cache = model.empty_cache(num_rows, max(decoding.max_tokens - 1, 1))
  params, prompt_kv, cache = model.to_decode(params, prompt_kv, cache)
  draw = functools.partial(draw_tokens, params, model, decoding, keys)
  said = _said_in(prompts, prompt_lengths, model, group_size) if decoding.looks_back else None
  tokens, logprobs = draw(jnp.repeat(hidden, group_size, axis=0), 0, said)
  said = _say(said, tokens)

  write = lambda array, column, x: jax.lax.dynamic_update_slice(array, x[:, None], (0, column))
  out_tokens = jnp.full((num_rows, decoding.max_tokens), decoding.pad_id, jnp.int32)
  out_logprobs = jnp.zeros((num_rows, decoding.max_tokens), jnp.float32)
  out_tokens, out_logprobs = write(out_tokens, 0, tokens), write(out_logprobs, 0, logprobs)
  heard, ended = decoding.follow(decoding.unsaid(num_rows), tokens)
  carry = (jnp.int32(1), tokens, ended | (budgets <= 1), cache, out_tokens, out_logprobs, (said, heard))

  def unfinished(carry):
    column, _, done, *_ = carry
    return (column < decoding.max_tokens) & ~jnp.all(done)

  def step(carry):
    column, tokens, done, cache, out_tokens, out_logprobs, (said, heard) = carry
    hidden, cache = model.decode(params, tokens, column - 1, prompt_lengths, prompt_kv, cache)
    tokens, logprobs = draw(hidden, column, said)
    tokens = jnp.where(done, decoding.pad_id, tokens)
    out_tokens = write(out_tokens, column, tokens)
    out_logprobs = write(out_logprobs, column, jnp.where(done, 0, logprobs))
    heard, ended = decoding.follow(heard, tokens)
    done |= ended | (budgets <= column + 1)
    return column + 1, tokens, done, cache, out_tokens, out_logprobs, (_say(said, tokens), heard)

  with loops.times(max(decoding.max_tokens - 1, 1)):
    *_, out_tokens, out_logprobs, _ = jax.lax.while_loop(unfinished, step, carry)
  return out_tokens, out_logprobs, {}


def _said_in(prompts, lengths, model, group_size):
  """Which tokens stand in the prompt of each row [B, V], and in its answer: none yet."""
  columns = jnp.where(jnp.arange(prompts.shape[1])[None] < lengths[:, None], prompts, model.vocab_size)
  asked = jnp.zeros((prompts.shape[0], model.vocab_size), bool)
  asked = asked.at[jnp.arange(prompts.shape[0])[:, None], columns].set(True, mode='drop')
  asked = jnp.repeat(asked, group_size, axis=0)
  return asked, jnp.zeros_like(asked)


def _say(said, tokens):
  """What is said with one more token [B] of each row; what stands behind an end does not matter."""
  if said is None:
    return None
  asked, answered = said
  return asked, answered.at[jnp.arange(tokens.shape[0]), tokens].set(True)


def replay(
    params: Params,
    model: LanguageModel,
    batch: Batch,
    *,
    group_size: int,
    decoding: Decoding,
    num_slots: int,
) -> jax.Array:
  """Log-probs of the actions of a batch, from the decoding loop itself with the actions forced on it.

  With the parameters and slots that sampled the batch (without speculation) they are `sampler_logprobs` to
  the bit: an oracle of what the sampler computed, where `score` only comes as close as rounding.

  Args:
    params: of the policy.
    model: its functions.
    batch: rows of `sample`.
    group_size: as it was sampled with.
    decoding: as it was sampled with.
    num_slots: as it was sampled with, and not 0.
  Returns:
    [B, T] float32, zero where `action_mask` is False.
  """
  forced = window(batch['tokens'], batch['prompt_lengths'], decoding.max_tokens)
  room = batch['tokens'].shape[1] - decoding.max_tokens
  prompts, lengths = batch['tokens'][::group_size, :room], batch['prompt_lengths'][::group_size]
  prompts = jnp.where(jnp.arange(room)[None] < lengths[:, None], prompts, decoding.pad_id)

  num_slots = -(-num_slots // sharding.row_shards())  # of each shard, as they were sampled
  queue = functools.partial(_forced, model=model, decoding=decoding, num_slots=num_slots)
  # What others said is read again, too.
  rows = {'forced': forced, 'budgets': batch['valid'].sum(axis=1) - batch['prompt_lengths']}
  logprobs = shards.over_groups(
      queue, params, prompts, lengths, rows, group_size=group_size, axes=model.axes, dtype=model.dtype
  )
  logprobs = window(logprobs, -batch['prompt_lengths'], batch['tokens'].shape[1])
  return jnp.where(batch['action_mask'], logprobs, 0)


def _forced(params, prompts, lengths, rows, group_size, *, model, decoding, num_slots):
  """Log-probs [B, max_tokens] of the tokens that are forced on the rows of a queue."""
  forced = jnp.concatenate([rows['forced'], rows['forced'][:1]])

  def draw(params, model, hidden, sequence, count):
    tokens = forced[sequence, count]
    return tokens, _logprobs(adjusted_logits(params, model, decoding, hidden, count), tokens)

  _, logprobs, _ = _run_queue(
      params, model, prompts, lengths, rows['budgets'], draw, group_size=group_size, decoding=decoding,
      num_slots=num_slots, is_end=lambda tokens: jnp.zeros(tokens.shape, bool),
  )
  return logprobs


def _decode_in_slots(
    params, model, prompts, prompt_lengths, keys, budgets, *, group_size, decoding, num_slots, speculation,
    prompt_of_row=None,
):
  """A queue of rows through a few slots: tokens and log-probs [B, max_tokens], and columns [B]."""
  keys = jnp.concatenate([keys, keys[:1]])  # an empty slot draws too, for nothing

  def draw(params, model, hidden, sequence, count):
    return draw_tokens(params, model, decoding, keys[sequence], hidden, count)

  return _run_queue(
      params, model, prompts, prompt_lengths, budgets, draw, group_size=group_size, decoding=decoding,
      num_slots=num_slots, is_end=decoding.is_eos, speculation=speculation, prompt_of_row=prompt_of_row,
  )


def _hear_stops(decoding, heard, slots, drawn):
  """For `slots.converse`, with what `heard` [N + 1] remembers of each sequence: strings end one too."""
  state, ended = decoding.follow(heard[slots.sequence], drawn[0])
  return drawn, lambda tokens: ended[:, None], slots, heard.at[slots.sequence].set(state), None


def _run_queue(
    params, model, prompts, prompt_lengths, budgets, draw, *, group_size, decoding, num_slots, is_end,
    speculation=None, prompt_of_row=None,
):
  params, bank, queue, begun = open_queue(
      params, model, prompts, prompt_lengths, budgets, group_size=group_size, decoding=decoding,
      num_slots=num_slots, prompt_of_row=prompt_of_row,
  )
  if speculation is None and decoding.stops is not None and is_end == decoding.is_eos:
    draw, heard = functools.partial(draw, params, model), decoding.unsaid(queue.budgets.shape[0] + 1)
    hear = functools.partial(_hear_stops, decoding)
    end, counted = slots.converse(params, model, bank, queue, begun, heard, draw, hear)[0], {}
  elif speculation is None:
    draw = functools.partial(draw, params, model)
    end, counted = slots.run(params, model, bank, queue, begun, draw, is_end), {}
  else:
    end, tally = speculate.run(
        params, model, bank, queue, begun, draw, is_end, speculation=speculation, beginnings=prompts
    )
    counted = tally.describe(end)
  return end.tokens[:-1], end.logprobs[:-1], counted


def open_queue(
    params, model, prompts, prompt_lengths, budgets, *, group_size, decoding, num_slots, prompt_of_row=None,
    order=None, length=None,
):
  """Parameters as a decoding loop reads them, and the bank, the queue and the slots that it begins with.

  With `order` and `length`, as `slots.Queue` has them, the others wait for somebody to name them.
  """
  num_rows, columns = prompts.shape[0] * group_size, prompts.shape[1] + decoding.max_tokens
  bank = slots.read_prompts(params, model, prompts, prompt_lengths, columns=columns)
  queue = slots.fresh(prompt_lengths, budgets, group_size=group_size, max_tokens=decoding.max_tokens)
  if prompt_of_row is not None:
    queue = queue._replace(beginnings=prompt_of_row, prompt_lengths=prompt_lengths[prompt_of_row])
  if order is not None:
    queue = queue._replace(order=order, length=jnp.int32(length))
  begun = slots.begin(model, bank, queue, num_slots=min(num_slots, num_rows))
  params, kv, cache = model.to_decode(params, bank.kv, begun.cache)
  return params, bank._replace(kv=kv), queue, begun._replace(cache=cache)


def draw_tokens(params, model, decoding, keys, hidden, column, said=None):
  """One token a row, and its log-probability under the distribution that it was drawn from.

  Args:
    params: of the policy.
    model: its functions.
    decoding: how to draw.
    keys: [B], one a sequence; the noise is fold_in(key, column).
    hidden: [B, D] states that predict the tokens.
    column: [] or [B] int32, how many tokens the row has drawn before.
    said: as for `Decoding.adjust`.
  Returns:
    [B] int32 and [B] float32.
  """
  column = jnp.broadcast_to(column, hidden.shape[:1])
  return draw(decoding, keys, adjusted_logits(params, model, decoding, hidden, column, said), column)


def draw(decoding, keys, logits, column):
  """One token a row from adjusted logits [B, V], and its log-probability; the rest as for `draw_tokens`."""
  if decoding.temperature == 0:
    tokens = jnp.argmax(logits, axis=-1)
  else:
    keys = jax.vmap(jax.random.fold_in)(keys, column)
    if decoding.sampler == 'inverse_cdf':
      tokens = inverse_cdf(logits, jax.vmap(jax.random.uniform)(keys))
    else:
      tokens = jax.vmap(jax.random.categorical)(keys, logits)
  return tokens.astype(jnp.int32), _logprobs(logits, tokens)


def adjusted_logits(params, model, decoding, hidden, column, said=None):
  """[B, V] logits of the distributions that are drawn from, `column` [B] tokens into the rows."""
  may_end = (column >= decoding.min_tokens)[:, None]
  return decoding.adjust(model.logits(params, hidden), may_end=may_end, said=said)


def _logprobs(logits, tokens):
  return jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, None], axis=-1)[:, 0]


def as_rows(prompts, lengths, group_size, out_tokens, out_logprobs, budgets, decoding) -> Batch:
  """Prompts and completions joined into contiguous rows: completion token i stands at length + i.

  Args:
    prompts: [P, Tp] int32.
    lengths: [B] int32, of the prompt of each row, B = P * group_size.
    group_size: rows a prompt.
    out_tokens: [B, max_tokens] int32; what stands behind an end token does not matter.
    out_logprobs: [B, max_tokens] float32.
    budgets: [B] int32, the most actions of each row.
    decoding: which tokens end a row.
  Returns:
    The batch that `sample` describes.
  """
  num_rows, max_tokens = out_tokens.shape
  prompts = jnp.repeat(prompts, group_size, axis=0)
  is_eos = decoding.ends(out_tokens)
  ended = jnp.cumsum(is_eos, axis=1) - is_eos > 0  # behind the first end
  columns = jnp.arange(prompts.shape[1] + max_tokens)[None]
  index = columns - lengths[:, None]  # [B, T]: which completion token stands here
  inside = (index >= 0) & (index < budgets[:, None])
  pick = lambda x: jnp.take_along_axis(x, jnp.clip(index, 0, max_tokens - 1), axis=1)
  action_mask = inside & ~pick(ended)
  prompt_tokens = jnp.pad(prompts, ((0, 0), (0, max_tokens)))
  valid = (columns < lengths[:, None]) | action_mask
  tokens = jnp.where(index < 0, prompt_tokens, jnp.where(action_mask, pick(out_tokens), decoding.pad_id))
  return {
      'tokens': tokens,
      'valid': valid,
      'action_mask': action_mask,
      'prompt_lengths': lengths,
      'turns': jnp.where(index < 0, -1, 0).astype(jnp.int32),
      'groups': jnp.repeat(jnp.arange(num_rows // group_size), group_size),
      'truncated': ~jnp.any(is_eos & (jnp.arange(max_tokens)[None] < budgets[:, None]), axis=1),
      'sampler_logprobs': jnp.where(action_mask, pick(out_logprobs), 0),
  }


def actions(batch: Batch, array: jax.Array, num_columns: int) -> jax.Array:
  """[B, num_columns, ...]: the columns of `array` [B, T, ...] from each row's first action on."""
  return window(array, batch['prompt_lengths'], num_columns)


def completions_of(batch: Batch, decoding: Decoding) -> jax.Array:
  """[B, max_tokens] int32: what the rows of a batch say, and padding behind it."""
  return actions(
      batch, jnp.where(batch['action_mask'], batch['tokens'], decoding.pad_id), decoding.max_tokens
  )


def score(
    params: Params,
    model: LanguageModel,
    batch: Batch,
    *,
    decoding: Decoding,
    chunk_size: int,
    packing: Packing | None = None,
) -> tuple[jax.Array, jax.Array]:
  """Log-probabilities of the actions, and the entropy of the distributions that they were drawn from.

  Only the columns in which actions can stand (`max_tokens` behind the prompt) go through the output matrix;
  packed, only the actions themselves.

  Args:
    params: of the model that is asked.
    model: its functions.
    batch: rows with `tokens, action_mask, prompt_lengths`.
    decoding: as the sampler's; temperature and filters apply here too.
    chunk_size: tokens whose logits exist at one time.
    packing: how rows are put together, so that no padding is computed; as they are if not given. The rows
      then need `valid` and `groups` too.
  Returns:
    [B, T] float32 log-probs and entropies in nats; zero where `action_mask` is False.
  Raises:
    ValueError: a row does not fit a packed row.
  """
  how = dict(decoding=decoding, chunk_size=chunk_size, packing=packing)
  return token_statistics(params, model, batch, ('logprobs', 'entropy'), **how)


def token_statistics(
    params: Params,
    model: LanguageModel,
    batch: Batch,
    names: tuple[str, ...],
    *,
    decoding: Decoding,
    chunk_size: int,
    packing: Packing | None = None,
) -> tuple[jax.Array, ...]:
  """What `linear_logprob` knows of each action: [B, T] float32 arrays, zero where `action_mask` is False.

  Args:
    params: as for `score`, like all that follows.
    model: its functions.
    batch: rows.
    names: of the statistics, fields of `TokenStatistics`.
    decoding: as the sampler's.
    chunk_size: tokens whose logits exist at one time.
    packing: how rows are put together.
  """
  how = {'model': model, 'names': names, 'decoding': decoding, 'chunk_size': chunk_size}
  if packing is None:
    # Where others speak too, most columns may be no actions: those are not worth their logits.
    read = _score_rows if 'trajectories' not in batch else _score_actions
    columns, function = ('tokens', 'action_mask', 'prompt_lengths'), functools.partial(read, **how)
  else:
    columns, function = packings.COLUMNS, functools.partial(_score_in_packs, packing=packing, **how)
  rows = {name: batch[name] for name in columns}
  return sharding.over_rows(function, params, rows, axes=model.axes, dtype=model.dtype)


def _score_rows(params, batch, *, model, names, **how):
  hidden, _ = model.forward(params, batch['tokens'])
  return _hidden_statistics(params, model, batch, hidden, names, **how)


def _score_actions(params, batch, *, model, names, decoding, chunk_size):
  """`_score_rows`, in which only the actions meet the output matrix."""
  hidden, _ = model.forward(params, batch['tokens'])
  cut = lambda x, shift: window(x, batch['prompt_lengths'] - shift, decoding.max_tokens)
  mask, targets = cut(batch['action_mask'], 0), cut(batch['tokens'], 0)
  index = jnp.where(mask, jnp.arange(decoding.max_tokens)[None], -1)
  scores = _counted_statistics(
      params, cut(hidden, 1).reshape(-1, model.width), jnp.arange(mask.size), targets.reshape(-1),
      index.reshape(-1), model=model, names=names, decoding=decoding, chunk_size=chunk_size,
  )
  spread = lambda x: window(x.reshape(mask.shape), -batch['prompt_lengths'], batch['tokens'].shape[1])
  return tuple(spread(scores[name]) for name in names)


def _score_in_packs(params, batch, *, packing, names, **how):
  layout = packings.lay_out(batch, packing)
  scores = packings.over_cells(functools.partial(_score_packed, names=names, **how), params, layout, packing)
  return tuple(packings.back(scores[name], layout) for name in names)


def score_hidden(
    params: Params,
    model: LanguageModel,
    batch: Batch,
    hidden: jax.Array,
    *,
    decoding: Decoding,
    chunk_size: int,
) -> tuple[jax.Array, jax.Array]:
  """What `score` says of rows that were read already: `hidden` [B, T, D], the rest as there."""
  names = ('logprobs', 'entropy')
  return _hidden_statistics(params, model, batch, hidden, names, decoding=decoding, chunk_size=chunk_size)


def _hidden_statistics(params, model, batch, hidden, names, *, decoding, chunk_size) -> tuple[jax.Array, ...]:
  """`token_statistics` of `hidden` [B, T, D]."""
  tokens, mask = batch['tokens'], batch['action_mask']
  num_rows, length = tokens.shape
  # Column t is predicted by the hidden state of column t - 1.
  predicting = window(hidden, batch['prompt_lengths'] - 1, decoding.max_tokens)
  targets = window(tokens, batch['prompt_lengths'], decoding.max_tokens)

  def statistics(columns: slice, may_end: bool):
    x = linear_logprob(
        predicting[:, columns].reshape(-1, model.width),
        model.unembedding(params),
        targets[:, columns].reshape(-1),
        chunk_size=chunk_size,
        adjust=_adjust(model, decoding, may_end),
    )
    return tuple(getattr(x, name).reshape(num_rows, -1) for name in names)

  # The sampler could not end a row in its first columns; there it drew from another distribution.
  first, last = decoding.min_tokens, decoding.max_tokens
  parts = ((slice(0, first), False), (slice(first, last), True))
  parts = [statistics(*part) for part in parts if part[0].start < part[0].stop]
  spread = lambda x: window(x, -batch['prompt_lengths'], length)
  return tuple(jnp.where(mask, spread(jnp.concatenate(x, axis=1)), 0) for x in zip(*parts, strict=True))


def _adjust(model, decoding, may_end: bool):
  """From the products of the output matrix to the logits of the distribution that was sampled."""
  return lambda logits, targets: decoding.adjust(model.softcap(logits), targets, may_end=may_end)


def _score_packed(params, layout: Layout, *, model, names, decoding, chunk_size) -> dict[str, jax.Array]:
  """Statistics [rows, C] of the actions in packed rows, by name."""
  hidden, _ = model.forward(params, layout.tokens, layout.places)
  rows = jnp.arange(hidden.shape[0])[:, None] * hidden.shape[1]
  scores = _counted_statistics(
      params, hidden.reshape(-1, model.width), (rows + layout.sources).reshape(-1),
      layout.tokens.reshape(-1), layout.action_index.reshape(-1), model=model, names=names,
      decoding=decoding, chunk_size=chunk_size,
  )
  return {name: x.reshape(layout.tokens.shape) for name, x in scores.items()}


def _counted_statistics(
    params, hidden, sources, targets, index, *, model, names, decoding, chunk_size
) -> dict[str, jax.Array]:
  """Statistics [N] of tokens by name, 0 where they are no action; only actions meet the output matrix.

  Args:
    params: of the model.
    hidden: [N, D].
    sources: [N], which hidden state predicts each token.
    targets: [N] tokens.
    index: [N] columns behind the prompt; -1 where the token is no action.
    model: its functions.
    names: of the statistics.
    decoding: as the sampler's.
    chunk_size: tokens whose logits exist at one time.
  """
  # The sampler could not end a row in its first columns; there it drew from another distribution.
  early, late = (index >= 0) & (index < decoding.min_tokens), index >= decoding.min_tokens
  parts = [(late & (index >= 0), True)] + [(early, False)] * (decoding.min_tokens > 0)
  total = None
  for counted, may_end in parts:
    order = jnp.argsort(~counted, stable=True)  # what counts comes first: the rest costs nothing
    x = linear_logprob(
        hidden[sources[order]], model.unembedding(params), targets[order],
        chunk_size=chunk_size, adjust=_adjust(model, decoding, may_end), num_counted=counted.sum(),
    )
    back = lambda values, order=order, counted=counted: jnp.where(
        counted, values[jnp.argsort(order)], 0
    )
    scores = {name: back(getattr(x, name)) for name in names}
    total = scores if total is None else jax.tree.map(jnp.add, total, scores)
  return total
