"""Sampling with slot refill: a finished sequence's slot takes the next one of a queue, inside the loop.

Where rows are of very different length, a batch that decodes until its longest row has ended spends most of
its work on rows that are over. Here S slots work through a queue of N sequences, in one `while_loop` on the
device. Prompts are read once, into a bank, from which a slot that falls free copies keys and values.

What a sequence says does not depend on S, on its slot or on its neighbours: its noise is named after it,
outputs are stored by sequence, and a slot is wiped before it is taken again. The loop can stop anywhere and
go on from its state; a sequence can also go on from its tokens alone, read like a prompt.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rlx.kernels import loops
from rlx.models.language import LanguageModel
from rlx.models.transformer import KV, Params


class Bank(NamedTuple):
  """Beginnings of sequences, read once: C of them."""

  hidden: jax.Array  # [C, D], predicts the first token behind
  kv: KV  # [L, C, columns, ...], zeros behind the beginning


class Queue(NamedTuple):
  """N sequences."""

  order: jax.Array  # [N] int32, a permutation of 0..N-1: in this order they get slots,
  length: jax.Array  # [] int32, but only the first so many
  beginnings: jax.Array  # [N] int32, which row of the bank each goes on from
  prompt_lengths: jax.Array  # [N] int32; action i stands at this column + i
  budgets: jax.Array  # [N] int32, the most actions of each
  counts: jax.Array  # [N] int32, actions that its beginning holds already
  tokens: jax.Array  # [N, max_tokens] int32, actions so far, then padding
  logprobs: jax.Array  # [N, max_tokens] float32


class Slots(NamedTuple):
  """The state of the loop. Sequence N is that of an empty slot; the last rows of the outputs are its."""

  sequence: jax.Array  # [S] int32, in 0..N
  hidden: jax.Array  # [S, D], predicts its next token
  cache: KV  # [L, S, columns, ...]: prompt, then what was drawn
  counts: jax.Array  # [N + 1] int32, tokens drawn by sequence
  ended: jax.Array  # [N + 1] bool
  tokens: jax.Array  # [N + 1, max_tokens] int32
  logprobs: jax.Array  # [N + 1, max_tokens] float32
  waiting: jax.Array  # [] int32, how many have had a slot
  steps: jax.Array  # [] int32, decoding steps taken


class Block(NamedTuple):
  """What one decoding step did in each slot."""

  taken: jax.Array  # [S] int32, tokens by which its sequence is longer; 0 in an empty slot
  compared: jax.Array  # [S] int32, drafts that were looked at: up to the first wrong one, or the row's end


def read_prompts(
    params: Params, model: LanguageModel, prompts: jax.Array, lengths: jax.Array, *, columns: int
) -> Bank:
  """Reads beginnings [C, T], with room for `columns` tokens in all."""
  hidden, kv = model.forward(params, prompts)
  hidden = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
  inside = (jnp.arange(prompts.shape[1])[None] < lengths[:, None])[None, :, :, None, None]
  room = columns - prompts.shape[1]

  def tidy(array):
    return jnp.pad(jnp.where(inside, array, 0), ((0, 0), (0, 0), (0, room), (0, 0), (0, 0)))

  return Bank(hidden, KV(tidy(kv.keys), tidy(kv.values)))


def fresh(prompt_lengths: jax.Array, budgets: jax.Array, *, group_size: int, max_tokens: int) -> Queue:
  """`group_size` sequences of each prompt [P], none of them begun, with budgets [P * group_size]."""
  num, shape = prompt_lengths.shape[0] * group_size, (prompt_lengths.shape[0] * group_size, max_tokens)
  return Queue(
      order=jnp.arange(num),
      length=jnp.int32(num),
      beginnings=jnp.arange(num) // group_size,
      prompt_lengths=jnp.repeat(prompt_lengths, group_size),
      budgets=budgets,
      counts=jnp.zeros(num, jnp.int32),
      tokens=jnp.zeros(shape, jnp.int32),
      logprobs=jnp.zeros(shape, jnp.float32),
  )


def begin(model: LanguageModel, bank: Bank, queue: Queue, *, num_slots: int) -> Slots:
  """The loop's state before the first step: the first sequences are in their slots."""
  num_sequences = queue.budgets.shape[0]
  more = lambda array, value: jnp.concatenate([array, jnp.full_like(array[:1], value)])
  slots = Slots(
      sequence=jnp.full(num_slots, num_sequences, jnp.int32),
      hidden=jnp.zeros((num_slots, model.width), bank.hidden.dtype),
      cache=model.empty_cache(num_slots, bank.kv.keys.shape[2]),
      counts=more(queue.counts, 0),
      ended=jnp.ones(num_sequences + 1, bool).at[queue.order].set(
          jnp.arange(num_sequences) >= queue.length
      ),
      tokens=more(queue.tokens, 0),
      logprobs=more(queue.logprobs, 0),
      waiting=jnp.int32(0),
      steps=jnp.int32(0),
  )
  return refill(slots, bank, queue)


def run(
    params: Params,
    model: LanguageModel,
    bank: Bank,
    queue: Queue,
    slots: Slots,
    draw: Callable,
    is_end: Callable,
    *,
    until: Callable[[Slots], jax.Array] = lambda slots: jnp.bool_(False),
) -> Slots:
  """Decodes until every sequence of the queue has ended, or until it is told to stop.

  Args:
    params: of the policy.
    model: its functions.
    bank: beginnings of the sequences.
    queue: the sequences.
    slots: from `begin`, or from an earlier call that was stopped.
    draw: `(hidden [S, D], sequence [S], count [S]) -> (tokens [S], logprobs [S])`.
    is_end: `tokens [S] -> bool [S]`.
    until: stops the loop; asked before each step.
  Returns:
    The state at the end.
  """
  hear = lambda nothing, slots, drawn: (drawn, is_end, slots, nothing, None)
  return converse(params, model, bank, queue, slots, (), draw, hear, until=until)[0]


def converse(
    params: Params,
    model: LanguageModel,
    bank: Bank,
    queue: Queue,
    slots: Slots,
    talk: Any,
    draw: Callable,
    hear: Callable,
    *,
    read: Callable = lambda talk, slots: slots,
    until: Callable[[Slots], jax.Array] = lambda slots: jnp.bool_(False),
) -> tuple[Slots, Any]:
  """`run`, with somebody who says what is read in place of what was drawn, and when a sequence is over.

  Args:
    params: as for `run`, like all that is not below.
    model: its functions.
    bank: beginnings.
    queue: the sequences.
    slots: the state before.
    talk: what `hear` remembers.
    draw: how tokens are drawn.
    hear: `(talk, slots, (tokens [S], logprobs [S])) -> (said, is_end, slots, talk, follows)`: the tokens and
      log-probs that are taken in place of those that were drawn, what ends a sequence (as for `advance`),
      `slots` in which it may have written tokens that are read later, and None, or [S] sequences of the same
      prompt that the slots go on with, the number of sequences for none. What the slot holds of the prompt is
      theirs too; the first tokens behind it must be there to be read.
    read: `(talk, slots) -> slots`, in front of each step: what is there to be read may be read at once, with
      `read_ahead`.
    until: stops the loop.
  Returns:
    The state at the end, and what `hear` remembers then.
  """
  num_sequences = queue.budgets.shape[0]
  drafts = jnp.zeros((slots.sequence.shape[0], 0), jnp.int32)

  def step(carry):
    slots, talk = carry
    slots = read(talk, slots)
    said, is_end, slots, talk, follows = hear(talk, slots, newest(slots, draw))
    slots, _ = advance(params, model, queue, slots, said, drafts, draw, is_end)
    if follows is not None:
      taken = jnp.where(follows < num_sequences, follows, slots.sequence)
      slots = slots._replace(sequence=taken)
    return refill(slots, bank, queue), talk

  unfinished = lambda carry: jnp.any(carry[0].sequence < num_sequences) & ~until(carry[0])
  with loops.times(-(-num_sequences * queue.tokens.shape[1] // slots.sequence.shape[0])):
    return jax.lax.while_loop(unfinished, step, (slots, talk))


def read_ahead(
    params: Params, model: LanguageModel, queue: Queue, slots: Slots, pending: jax.Array, *, num_tokens: int
) -> Slots:
  """The slots, behind tokens that need no draw; nothing is done where no slot has any.

  It is a step of its own, so that tokens are drawn in steps of one width, whoever reads beside them. What it
  stores for slots that read less is written anew before anybody looks there.

  Args:
    params: of the policy.
    model: its functions.
    queue: the sequences.
    slots: before; the tokens are in their columns.
    pending: [S] int32, how many there are for each slot.
    num_tokens: that are read at once, of one slot.
  """
  taken = jnp.clip(pending, 0, num_tokens)

  def look(slots: Slots) -> Slots:
    sequence = slots.sequence
    count = slots.counts[sequence]
    columns = jnp.minimum(count[:, None] + jnp.arange(num_tokens)[None], slots.tokens.shape[1] - 1)
    positions = queue.prompt_lengths[jnp.minimum(sequence, queue.budgets.shape[0] - 1)] + count
    fed = slots.tokens[sequence[:, None], columns]
    hidden, cache = model.decode_rows(params, fed, positions, slots.cache)
    newest = jnp.take_along_axis(hidden, jnp.maximum(taken - 1, 0)[:, None, None], axis=1)[:, 0]
    return slots._replace(
        hidden=jnp.where((taken > 0)[:, None], newest, slots.hidden), cache=cache,
        counts=slots.counts.at[sequence].add(taken), steps=slots.steps + 1,
    )

  return jax.lax.cond(jnp.any(taken > 0), look, lambda slots: slots, slots)


def newest(slots: Slots, draw: Callable) -> tuple[jax.Array, jax.Array]:
  """The next token of each slot and its log-prob, each [S]."""
  return draw(slots.hidden, slots.sequence, slots.counts[slots.sequence])


def advance(
    params: Params,
    model: LanguageModel,
    queue: Queue,
    slots: Slots,
    first: tuple[jax.Array, jax.Array],
    drafts: jax.Array,
    draw: Callable,
    is_end: Callable,
    *,
    held: jax.Array | None = None,
) -> tuple[Slots, Block]:
  """One decoding step, by one token a slot or by as many of the drafts behind it as are right.

  The policy reads a token and its drafts at once, and draws what it would have drawn behind each. A draft
  that is what was drawn has been read already: it is taken, and the next one is looked at.

  Args:
    params: of the policy.
    model: its functions.
    queue: the sequences.
    slots: before the step.
    first: of `newest`.
    drafts: [S, K] int32, guesses of the K tokens behind; K may be 0.
    draw: as `run` takes it.
    is_end: as `run` takes it, for any shape.
    held: [S] bool, slots that take nothing; none if not given. What the step stores behind their last token
      is written anew before anybody looks there.
  Returns:
    The state behind the last token that was taken, with empty slots where sequences have ended, and what the
    step did.
  """
  num_sequences, num_drafts = queue.budgets.shape[0], drafts.shape[1]
  sequence = slots.sequence
  live, place = sequence < num_sequences, jnp.minimum(sequence, num_sequences - 1)
  before = slots.counts[sequence]
  fed = jnp.concatenate([first[0][:, None], drafts], axis=1)
  positions = queue.prompt_lengths[place] + before
  hidden, cache = model.decode_rows(params, fed, positions, slots.cache)

  counts = before[:, None] + jnp.arange(1 + num_drafts)[None]
  behind = _draw_each(draw, hidden[:, :-1], sequence, counts[:, 1:])
  tokens, logprobs = (jnp.concatenate([x[:, None], y], axis=1) for x, y in zip(first, behind, strict=True))
  last = is_end(tokens) | (counts + 1 >= queue.budgets[place][:, None])
  right = jnp.concatenate([live[:, None], tokens[:, 1:] == drafts], axis=1)
  follows = jnp.pad(~last[:, :-1], ((0, 0), (1, 0)), constant_values=True)
  taken = jnp.cumsum(~(right & follows), axis=1) == 0
  if held is not None:
    taken &= ~held[:, None]
  num_taken = taken.sum(axis=1)

  rows, columns = sequence[:, None], jnp.where(taken, counts, slots.tokens.shape[1])
  write = lambda array, x: array.at[rows, columns].set(x, mode='drop')
  ended = ~live | jnp.any(taken & last, axis=1)
  newest_read = jnp.maximum(num_taken - 1, 0)[:, None, None]
  behind = jnp.take_along_axis(hidden, newest_read, axis=1)[:, 0]
  slots = slots._replace(
      sequence=jnp.where(ended, num_sequences, sequence),
      hidden=behind if held is None else jnp.where(held[:, None], slots.hidden, behind),
      cache=cache,
      counts=slots.counts.at[sequence].add(num_taken),
      ended=slots.ended.at[sequence].set(ended),
      tokens=write(slots.tokens, tokens),
      logprobs=write(slots.logprobs, logprobs),
      steps=slots.steps + 1,
  )
  return slots, Block(taken=num_taken, compared=jnp.sum(taken[:, :-1] & follows[:, 1:], axis=1))


def _draw_each(draw, hidden, sequence, counts):
  """Tokens and log-probs [S, K] behind hidden states [S, K, D]."""
  num_slots, num_tokens, width = hidden.shape
  if not num_tokens:
    return jnp.zeros((num_slots, 0), jnp.int32), jnp.zeros((num_slots, 0), jnp.float32)
  sequence = jnp.repeat(sequence, num_tokens)
  drawn = draw(hidden.reshape(num_slots * num_tokens, width), sequence, counts.reshape(-1))
  return tuple(x.reshape(num_slots, num_tokens) for x in drawn)


def refill(slots: Slots, bank: Bank, queue: Queue) -> Slots:
  """Gives each empty slot the next sequence of the queue, as long as there are any.

  What stands in the cache and in the bank is copied whatever it is, as long as rows are its second axis.
  """
  num_sequences = queue.budgets.shape[0]

  def is_due(slots):
    return (slots.waiting < queue.length) & jnp.any(slots.sequence == num_sequences)

  def take(slots):
    sequence = queue.order[slots.waiting]
    beginning = queue.beginnings[sequence]
    slot = jnp.argmax(slots.sequence == num_sequences)

    def copy(cache, kept):
      row = jax.lax.dynamic_slice_in_dim(kept, beginning, 1, axis=1).astype(cache.dtype)
      return jax.lax.dynamic_update_slice_in_dim(cache, row, slot, axis=1)

    return slots._replace(
        sequence=slots.sequence.at[slot].set(sequence),
        hidden=slots.hidden.at[slot].set(bank.hidden[beginning]),
        cache=jax.tree.map(copy, slots.cache, bank.kv),
        waiting=slots.waiting + 1,
    )

  with loops.times(1):
    return jax.lax.while_loop(is_due, take, slots)
