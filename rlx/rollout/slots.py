"""Sampling with slot refill: a finished sequence's slot takes the next one of a queue, inside the loop.

Where rows are of very different length, a batch that decodes until its longest row has ended spends most of
its work on rows that are over. Here S slots work through a queue of B sequences, in one `while_loop` on the
device. Prompts are read once, into a bank, from which a slot that falls free copies keys and values.

What a sequence says does not depend on S, on its slot or on its neighbours: its noise is named after it,
outputs are stored by sequence, and a slot is wiped before it is taken again.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.models import transformer
from rlx.models.transformer import KV, Params, TransformerConfig


class Slots(NamedTuple):
  """The state of the loop; sequence B is that of an empty slot."""

  sequence: jax.Array  # [S] int32, in 0..B
  count: jax.Array  # [S] int32, tokens drawn of it
  hidden: jax.Array  # [S, D], predicts its next token
  cache: KV  # [L, S, columns, ...]: prompt, then what was drawn
  tokens: jax.Array  # [B + 1, max_tokens] int32, drawn tokens by sequence
  logprobs: jax.Array  # [B + 1, max_tokens] float32
  waiting: jax.Array  # [] int32, the first sequence that has not begun
  steps: jax.Array  # [] int32, decoding steps taken


class Bank(NamedTuple):
  """Prompts that were read once."""

  lengths: jax.Array  # [P] int32
  hidden: jax.Array  # [P, D], predicts the first token
  kv: KV  # [L, P, columns, ...], zeros behind the prompt


def read_prompts(
    params: Params, config: TransformerConfig, prompts: jax.Array, lengths: jax.Array, *, room: int
) -> Bank:
  """Reads prompts [P, T] and leaves room for decoded tokens behind each."""
  hidden, kv = transformer.forward(params, config, prompts)
  hidden = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
  inside = (jnp.arange(prompts.shape[1])[None] < lengths[:, None])[None, :, :, None, None]

  def tidy(array):
    return jnp.pad(jnp.where(inside, array, 0), ((0, 0), (0, 0), (0, room), (0, 0), (0, 0)))

  return Bank(lengths, hidden, KV(tidy(kv.keys), tidy(kv.values)))


def decode_queue(
    params: Params,
    config: TransformerConfig,
    bank: Bank,
    budgets: jax.Array,
    draw,
    is_end,
    *,
    num_slots: int,
    group_size: int,
    max_tokens: int,
    pad_id: int,
) -> Slots:
  """Draws P * group_size sequences with S slots.

  Args:
    params: of the policy.
    config: its shape.
    bank: prompts, with room for `max_tokens`.
    budgets: [P * group_size] int32, the most tokens of each sequence.
    draw: `(hidden [S, D], sequence [S], count [S]) -> (tokens [S], logprobs [S])`.
    is_end: `tokens [S] -> bool [S]`.
    num_slots: S.
    group_size: sequences a prompt; sequence i is of prompt i // group_size.
    max_tokens: the most that any sequence may have.
    pad_id: what stands behind the end of a sequence.
  Returns:
    The state at the end; `tokens` and `logprobs` have a row more than there are sequences.
  """
  num_sequences = bank.lengths.shape[0] * group_size
  budgets = jnp.concatenate([budgets, budgets[:1]])
  prompt_of = lambda sequence: jnp.minimum(sequence // group_size, bank.lengths.shape[0] - 1)
  slots = Slots(
      sequence=jnp.full(num_slots, num_sequences, jnp.int32),
      count=jnp.zeros(num_slots, jnp.int32),
      hidden=jnp.zeros((num_slots, config.width), bank.hidden.dtype),
      cache=transformer.empty_cache(config, num_slots, bank.kv.keys.shape[2]),
      tokens=jnp.full((num_sequences + 1, max_tokens), pad_id, jnp.int32),
      logprobs=jnp.zeros((num_sequences + 1, max_tokens), jnp.float32),
      waiting=jnp.int32(0),
      steps=jnp.int32(0),
  )

  def step(slots: Slots) -> Slots:
    tokens, logprobs = draw(slots.hidden, slots.sequence, slots.count)
    write = lambda array, x: array.at[slots.sequence, slots.count].set(x, mode='drop')
    count = slots.count + 1
    ended = is_end(tokens) | (count >= budgets[slots.sequence]) | (slots.sequence == num_sequences)
    positions = bank.lengths[prompt_of(slots.sequence)] + count - 1
    hidden, cache = transformer.decode_rows(params, config, tokens, positions, slots.cache)
    slots = slots._replace(
        sequence=jnp.where(ended, num_sequences, slots.sequence),
        count=jnp.where(ended, 0, count),
        hidden=hidden,
        cache=cache,
        tokens=write(slots.tokens, tokens),
        logprobs=write(slots.logprobs, logprobs),
        steps=slots.steps + 1,
    )
    return _refill(slots, bank, num_sequences, prompt_of)

  occupied = lambda slots: jnp.any(slots.sequence < num_sequences)
  return jax.lax.while_loop(occupied, step, _refill(slots, bank, num_sequences, prompt_of))


def _refill(slots: Slots, bank: Bank, num_sequences: int, prompt_of) -> Slots:
  """Gives each empty slot the next sequence of the queue, as long as there are any."""

  def is_due(slots):
    return (slots.waiting < num_sequences) & jnp.any(slots.sequence == num_sequences)

  def take(slots):
    slot = jnp.argmax(slots.sequence == num_sequences)
    prompt = prompt_of(slots.waiting)

    def copy(cache, kept):
      row = jax.lax.dynamic_slice_in_dim(kept, prompt, 1, axis=1).astype(cache.dtype)
      return jax.lax.dynamic_update_slice_in_dim(cache, row, slot, axis=1)

    return slots._replace(
        sequence=slots.sequence.at[slot].set(slots.waiting),
        hidden=slots.hidden.at[slot].set(bank.hidden[prompt]),
        cache=jax.tree.map(copy, slots.cache, bank.kv),
        waiting=slots.waiting + 1,
    )

  return jax.lax.while_loop(is_due, take, slots)
