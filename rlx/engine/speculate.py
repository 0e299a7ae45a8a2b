"""Speculative decoding: several tokens a step where guesses are right, and the same rows as without.

The token at a place of a sequence is decided by the noise of that place and the policy's distribution there.
So a draft is verified by drawing: the policy reads a token and K drafts behind it at once, draws behind each
as it always would, and takes the drafts for as long as they are what it drew. No drafter can change what is
said, be it good or bad; only the number of steps depends on it. (Sums over a block may be rounded in another
order than over one token: log-probs agree up to that, and so do tokens, but for ties that it decides.)

A drafter that draws with the policy's own noise is often right where chance is high, too: with Gumbel noise,
with a probability of at least (1 - d) / (1 + d), where d is the total variation distance of the two
distributions. There is no such bound for the noise of `inverse_cdf`.

A step of many live slots keeps a device busy, and drafts would only add work. The gain is in the tail, where
a few long rows are left: once no more than `max_live` are, they move into that many slots and speculate.

What a drafter remembers is a function of the tokens, so nothing of it is kept when the loop is stopped.

Source: Daliri et al., 2024, https://arxiv.org/abs/2408.07978 (shared noise, and the bound); drafts where few
rows are left: Hu et al., 2025, https://arxiv.org/abs/2511.16665.
"""

from collections.abc import Callable
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rlx.engine import slots as queues
from rlx.engine.columns import window
from rlx.engine.slots import Bank, Block, Queue, Slots
from rlx.kernels import loops
from rlx.models.language import LanguageModel
from rlx.models.transformer import KV, Params
from rlx.types import Batch

Draw = Callable  # (params, model, hidden [R, D], sequence [R], count [R]) -> (tokens [R], logprobs [R])


class Drafter(NamedTuple):
  """What guesses tokens: two pure functions, over a state whose arrays are [.., R rows, ...] as in `KV`.

  `propose` gets the newest token of each row, which it has not read yet, the sequence of each row, how many
  tokens that sequence had drawn before, and the column of the token. What it stores of its own drafts
  stands behind the row if they are wrong, and it must not look there.
  """

  read: Callable[[jax.Array, int], Any]  # (tokens [R, T], columns) -> state with room for so many columns
  propose: Callable  # (draw, state, tokens, sequence, count, positions, K) -> (drafts [R, K], state)


class Speculation(NamedTuple):
  """How drafts are made, and when."""

  drafter: Drafter
  draft_tokens: int  # K, the guesses a step and row
  max_live: int  # steps of no more live rows than this try drafts; 0 for never


class Tally(NamedTuple):
  """What came of the drafts of each sequence, [N + 1] int32 each."""

  blocks: jax.Array  # steps with drafts
  compared: jax.Array  # drafts that were looked at: up to the first wrong one, or the row's end
  accepted: jax.Array  # those that were right

  def add(self, sequence: jax.Array, block: Block) -> 'Tally':
    """With a step of slots that held these sequences [S]."""
    live = block.taken > 0
    new = Tally(live.astype(jnp.int32), block.compared, jnp.where(live, block.taken - 1, 0))
    return jax.tree.map(lambda total, x: total.at[sequence].add(x), self, new)

  def describe(self, end: Slots) -> Batch:
    """Columns [N] for the metrics of a batch.

    Args:
      end: the state at the end of the loop.
    Returns:
      `speculation/accepted`, drafts a block of the row, and `speculation/right_fraction`, of those that were
      looked at, NaN where there were none; `speculation/free_fraction`, of the row's tokens, that took no
      step of their own; `speculation/steps`, of the whole loop.
    """
    blocks, compared, accepted = (x[:-1].astype(jnp.float32) for x in self)
    share = lambda of: jnp.where(of > 0, accepted / jnp.maximum(of, 1), jnp.nan)
    return {
        'speculation/accepted': share(blocks),
        'speculation/right_fraction': share(compared),
        'speculation/free_fraction': accepted / jnp.maximum(end.counts[:-1], 1),
        'speculation/steps': jnp.full(accepted.shape, end.steps, jnp.float32),
    }


def check(*, num_slots: int, draft_tokens: int, max_live: int) -> None:
  """Raises `ValueError` for numbers with which nothing can be speculated."""
  if num_slots < 1:
    raise ValueError(f'num_slots={num_slots} must be at least 1 for speculation: drafts are made for slots')
  if draft_tokens < 1:
    raise ValueError(f'draft_tokens={draft_tokens} must be at least 1; for no speculation, set max_live=0')
  if max_live < 0:
    raise ValueError(f'max_live={max_live} must be at least 0, and is 0 for no speculation')


def run(
    params: Params,
    model: LanguageModel,
    bank: Bank,
    queue: Queue,
    slots: Slots,
    draw: Draw,
    is_end: Callable,
    *,
    speculation: Speculation,
    beginnings: jax.Array,
    until: Callable[[Slots], jax.Array] = lambda slots: jnp.bool_(False),
) -> tuple[Slots, Tally]:
  """`slots.run` with drafts; it can be stopped and gone on from in the same way.

  Args:
    params: of the policy.
    model: its functions.
    bank: beginnings of the sequences.
    queue: the sequences.
    slots: from `slots.begin`, or from an earlier call that was stopped.
    draw: the noise of each place, for any model: `(params, model, hidden, sequence, count)`.
    is_end: `tokens -> bool`, of any shape.
    speculation: how drafts are made, and when.
    beginnings: [C, T] int32, the tokens of the bank.
    until: stops the loop; asked before each step.
  Returns:
    The state at the end, and what came of the drafts in this call.
  """
  num_slots, num_sequences = slots.sequence.shape[0], queue.budgets.shape[0]
  width = min(num_slots, speculation.max_live)
  tally = Tally(*[jnp.zeros(num_sequences + 1, jnp.int32)] * 3)
  if width < num_slots:  # slots are empty only when the queue is: from here on there are ever fewer
    few = lambda slots: until(slots) | (jnp.sum(slots.sequence < num_sequences) <= width)
    own = functools.partial(draw, params, model)
    slots = queues.run(params, model, bank, queue, slots, own, is_end, until=few)
  if width == 0:
    return slots, tally
  rows = jnp.argsort(slots.sequence == num_sequences, stable=True)[:width]  # the live ones
  narrow = _take_rows(slots, rows) if width < num_slots else slots
  speculate = functools.partial(
      _speculate, params, model, bank, queue, draw, is_end, speculation, beginnings, until,
      refills=width == num_slots,
  )
  narrow, tally = speculate(narrow, tally)
  return _put_rows(slots, rows, narrow) if width < num_slots else narrow, tally


def _speculate(
    params, model, bank, queue, draw, is_end, speculation, beginnings, until, slots, tally, *, refills
):
  """The loop with drafts in every step."""
  num_sequences, columns = queue.budgets.shape[0], bank.kv.columns
  drafter, own = speculation.drafter, functools.partial(draw, params, model)
  pairs = bank._replace(kv=(bank.kv, drafter.read(beginnings, columns))) if refills else None

  def step(carry):
    slots, state, tally = carry
    sequence, count = slots.sequence, slots.counts[slots.sequence]
    positions = queue.prompt_lengths[jnp.minimum(sequence, num_sequences - 1)] + count
    first = queues.newest(slots, own)
    drafts, state = drafter.propose(
        draw, state, first[0], sequence, count, positions, speculation.draft_tokens
    )
    slots, block = queues.advance(params, model, queue, slots, first, drafts, own, is_end)
    if refills:  # what the drafter remembers of a beginning is copied with what the policy does
      slots = queues.refill(slots._replace(cache=(slots.cache, state)), pairs, queue)
      state, slots = slots.cache[1], slots._replace(cache=slots.cache[0])
    return slots, state, tally.add(sequence, block)

  def unfinished(carry):
    return jnp.any(carry[0].sequence < num_sequences) & ~until(carry[0])

  # A cache may have more columns than there are tokens, for a kernel; a drafter's context need not.
  held = min(columns, beginnings.shape[1] + slots.tokens.shape[1])
  state = drafter.read(_tokens_so_far(queue, slots, beginnings, held), columns)
  with loops.times(-(-num_sequences * slots.tokens.shape[1] // slots.sequence.shape[0])):
    slots, _, tally = jax.lax.while_loop(unfinished, step, (slots, state, tally))
  return slots, tally


def _tokens_so_far(queue: Queue, slots: Slots, beginnings: jax.Array, columns: int) -> jax.Array:
  """[S, columns]: the prompt of each slot and what was drawn behind it, then anything."""
  place = jnp.minimum(slots.sequence, queue.budgets.shape[0] - 1)
  lengths = queue.prompt_lengths[place]
  prompts = _widened(beginnings[queue.beginnings[place]], columns)
  drawn = window(slots.tokens[place], -lengths, columns)
  return jnp.where(jnp.arange(columns)[None] < lengths[:, None], prompts, drawn)


def _take_rows(slots: Slots, rows: jax.Array) -> Slots:
  """Only these slots."""
  cache = jax.tree.map(lambda x: x[:, rows], slots.cache)
  return slots._replace(sequence=slots.sequence[rows], hidden=slots.hidden[rows], cache=cache)


def _put_rows(slots: Slots, rows: jax.Array, narrow: Slots) -> Slots:
  """What the slots of `_take_rows` have become, among the others."""
  return narrow._replace(
      sequence=slots.sequence.at[rows].set(narrow.sequence),
      hidden=slots.hidden.at[rows].set(narrow.hidden),
      cache=jax.tree.map(lambda old, new: old.at[:, rows].set(new), slots.cache, narrow.cache),
  )


def _widened(array: jax.Array, columns: int) -> jax.Array:
  """[R, T, ...] with zeros behind, up to so many columns."""
  return jnp.pad(array, ((0, 0), (0, columns - array.shape[1]), *[(0, 0)] * (array.ndim - 2)))


# --- drafters -----------------------------------------------------------------------------------------------


def ngram(*, longest: int) -> Drafter:
  """Guesses that a row repeats itself: what stood behind the latest earlier place that ended like it does.

  The place that shares the most of the last `longest` tokens is taken. Where it is so near that what stood
  behind it is too short, it is taken to go on in circles. There is nothing to train.

  Args:
    longest: how many tokens are compared, at least 1.
  Raises:
    ValueError: there is nothing to compare.
  Source: prompt lookup, https://github.com/apoorvumang/prompt-lookup-decoding.
  """
  if longest < 1:
    raise ValueError(f'ngram={longest}: the tokens that are looked up must be at least 1')

  def propose(draw, history, tokens, sequence, count, positions, num_drafts):
    del draw, sequence, count
    history = _write(history, tokens[:, None], positions)
    look_up = functools.partial(_look_up, longest=longest, num_drafts=num_drafts)
    drafts = jax.vmap(look_up)(history[0], positions)
    return drafts, _write(history, drafts, positions + 1)

  return Drafter(read=lambda tokens, columns: _widened(tokens, columns)[None], propose=propose)


def _write(history, tokens, positions):
  """History [1, R, columns] with tokens [R, N] from each row's position on."""
  rows, columns = jnp.arange(tokens.shape[0])[:, None], jnp.arange(tokens.shape[1])[None]
  return history.at[0, rows, positions[:, None] + columns].set(tokens, mode='drop')


def _look_up(row, newest, *, longest, num_drafts):
  """[num_drafts] guesses of what follows column `newest` of a row [columns]."""
  columns = jnp.arange(row.shape[0])
  same, shared = columns < newest, jnp.zeros_like(columns)
  for back in range(longest):  # same[c]: columns c - back to c are like the last ones
    same &= (jnp.roll(row, back) == row[newest - back]) & (columns >= back) & (newest >= back)
    shared += same
  score = jnp.where(columns < newest, shared * row.shape[0] + columns, -1)  # the latest among equals
  place = jnp.argmax(score)
  period = jnp.maximum(newest - place, 1)
  return row[place + 1 + jnp.arange(num_drafts) % period]


def by_model(params: Params, model: LanguageModel) -> Drafter:
  """Guesses with a smaller model, which draws with the noise that the policy will draw with.

  Args:
    params: of the drafter, such as those of `models/drafter.py`.
    model: its functions; the policy's vocabulary.
  """

  def read(tokens, columns):
    _, kv = model.forward(params, tokens)
    return KV(*(jax.vmap(functools.partial(_widened, columns=columns))(x) for x in kv))

  def propose(draw, cache, tokens, sequence, count, positions, num_drafts):
    def feed(carry, ahead):
      tokens, cache = carry
      hidden, cache = model.decode_rows(params, tokens[:, None], positions + ahead, cache)
      tokens, _ = draw(params, model, hidden[:, 0], sequence, count + 1 + ahead)
      return (tokens, cache), tokens

    (last, cache), drafts = jax.lax.scan(feed, (tokens, cache), jnp.arange(num_drafts))
    # The last draft is read too: if all are right, the next token stands behind it.
    _, cache = model.decode_rows(params, last[:, None], positions + num_drafts, cache)
    return drafts.T, cache

  return Drafter(read=read, propose=propose)
