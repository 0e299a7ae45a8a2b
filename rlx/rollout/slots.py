"""Sampling with slot refill: a finished sequence's slot takes the next one of a queue, inside the loop.

Where rows are of very different length, a batch that decodes until its longest row has ended spends most of
its work on rows that are over. Here S slots work through a queue of N sequences, in one `while_loop` on the
device. Prompts are read once, into a bank, from which a slot that falls free copies keys and values.

What a sequence says does not depend on S, on its slot or on its neighbours: its noise is named after it,
outputs are stored by sequence, and a slot is wiped before it is taken again. The loop can stop anywhere and
go on from its state; a sequence can also go on from its tokens alone, read like a prompt.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.models import transformer
from rlx.models.transformer import KV, Params, TransformerConfig


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


def read_prompts(
    params: Params, config: TransformerConfig, prompts: jax.Array, lengths: jax.Array, *, columns: int
) -> Bank:
  """Reads beginnings [C, T], with room for `columns` tokens in all."""
  hidden, kv = transformer.forward(params, config, prompts)
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


def begin(config: TransformerConfig, bank: Bank, queue: Queue, *, num_slots: int) -> Slots:
  """The loop's state before the first step: the first sequences are in their slots."""
  num_sequences = queue.budgets.shape[0]
  more = lambda array, value: jnp.concatenate([array, jnp.full_like(array[:1], value)])
  slots = Slots(
      sequence=jnp.full(num_slots, num_sequences, jnp.int32),
      hidden=jnp.zeros((num_slots, config.width), bank.hidden.dtype),
      cache=transformer.empty_cache(config, num_slots, bank.kv.keys.shape[2]),
      counts=more(queue.counts, 0),
      ended=jnp.ones(num_sequences + 1, bool).at[queue.order].set(
          jnp.arange(num_sequences) >= queue.length
      ),
      tokens=more(queue.tokens, 0),
      logprobs=more(queue.logprobs, 0),
      waiting=jnp.int32(0),
      steps=jnp.int32(0),
  )
  return _refill(slots, bank, queue)


def run(
    params: Params,
    config: TransformerConfig,
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
    config: its shape.
    bank: beginnings of the sequences.
    queue: the sequences.
    slots: from `begin`, or from an earlier call that was stopped.
    draw: `(hidden [S, D], sequence [S], count [S]) -> (tokens [S], logprobs [S])`.
    is_end: `tokens [S] -> bool [S]`.
    until: stops the loop; asked before each step.
  Returns:
    The state at the end.
  """
  num_sequences = queue.budgets.shape[0]

  def step(slots: Slots) -> Slots:
    sequence = slots.sequence
    live = sequence < num_sequences
    before = slots.counts[sequence]
    tokens, logprobs = draw(slots.hidden, sequence, before)
    write = lambda array, x: array.at[sequence, before].set(x, mode='drop')
    place = jnp.minimum(sequence, num_sequences - 1)
    ended = is_end(tokens) | (before + 1 >= queue.budgets[place]) | ~live
    positions = queue.prompt_lengths[place] + before
    hidden, cache = transformer.decode_rows(params, config, tokens[:, None], positions, slots.cache)
    slots = slots._replace(
        sequence=jnp.where(ended, num_sequences, sequence),
        hidden=hidden[:, 0],
        cache=cache,
        counts=slots.counts.at[sequence].add(live),
        ended=slots.ended.at[sequence].set(ended),
        tokens=write(slots.tokens, tokens),
        logprobs=write(slots.logprobs, logprobs),
        steps=slots.steps + 1,
    )
    return _refill(slots, bank, queue)

  unfinished = lambda slots: jnp.any(slots.sequence < num_sequences) & ~until(slots)
  return jax.lax.while_loop(unfinished, step, slots)


def _refill(slots: Slots, bank: Bank, queue: Queue) -> Slots:
  """Gives each empty slot the next sequence of the queue, as long as there are any."""
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

  return jax.lax.while_loop(is_due, take, slots)
