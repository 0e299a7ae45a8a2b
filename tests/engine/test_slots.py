"""Slot refill: the same sequences as without it, whatever the slots and what they held before."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_sample
from test_sample import DECODINGS, GROUP_SIZE, KEY, MODEL, PARAMS, completions, drawn

from rlx.engine import sample as engine
from rlx.engine import slots
from rlx.models import transformer
from tests.cases import cases

PROMPTS, LENGTHS = jnp.asarray(test_sample.PROMPTS), jnp.asarray(test_sample.LENGTHS)
NUM_ROWS = len(PROMPTS) * GROUP_SIZE
replay = jax.jit(engine.replay, static_argnums=1, static_argnames=('group_size', 'decoding', 'num_slots'))
in_slots = jax.jit(engine.sample, static_argnums=1, static_argnames=('group_size', 'decoding', 'num_slots'))


@functools.cache
def refilled(name, num_slots):
  decoding = DECODINGS[name]
  batch = in_slots(
      PARAMS, MODEL, PROMPTS, LENGTHS, KEY, group_size=GROUP_SIZE, decoding=decoding, num_slots=num_slots
  )
  return jax.tree.map(np.asarray, batch)


def assert_same(batch, other):
  """All columns to the bit, but log-probs up to rounding."""
  for name in batch.keys() - {'sampler_logprobs'}:
    np.testing.assert_array_equal(batch[name], other[name], err_msg=name)
  np.testing.assert_allclose(batch['sampler_logprobs'], other['sampler_logprobs'], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('num_slots', cases([1, 5, 100], at_once=[5]))
@pytest.mark.parametrize('name', cases(['plain', 'all_filters'], at_once=['all_filters']))
def test_slots_say_what_one_batch_says(name, num_slots):
  assert_same(refilled(name, num_slots), drawn(name))


def test_rows_are_ragged_enough_for_these_tests():
  lengths = sorted(map(len, completions(drawn('plain'))))
  assert lengths[0] < lengths[-1] and refilled('plain', 5)['truncated'].any()


def test_a_queue_is_its_batches():
  """Three slots: twelve sequences through them, or four batches of three. Prompts are read by a program
  of one and not of four: on some processors it rounds otherwise."""
  whole = refilled('plain', GROUP_SIZE)
  for i in range(len(PROMPTS)):
    rows = slice(i * GROUP_SIZE, (i + 1) * GROUP_SIZE)
    part = in_slots(
        PARAMS, MODEL, PROMPTS[i : i + 1], LENGTHS[i : i + 1], KEY, group_size=GROUP_SIZE,
        decoding=DECODINGS['plain'], num_slots=GROUP_SIZE, sequence_ids=np.arange(NUM_ROWS)[rows],
    )
    np.testing.assert_array_equal(part['tokens'], whole['tokens'][rows])
    np.testing.assert_allclose(part['sampler_logprobs'], whole['sampler_logprobs'][rows], atol=1e-5)


def test_the_order_of_the_queue_decides_nothing():
  whole, order = refilled('plain', 5), np.array([2, 0, 3, 1])
  ids = (order[:, None] * GROUP_SIZE + np.arange(GROUP_SIZE)).reshape(-1)
  other = in_slots(
      PARAMS, MODEL, PROMPTS[order], LENGTHS[order], KEY, group_size=GROUP_SIZE, decoding=DECODINGS['plain'],
      num_slots=5, sequence_ids=ids,
  )
  for name in ('tokens', 'sampler_logprobs', 'truncated'):
    np.testing.assert_array_equal(other[name], whole[name][ids])


@pytest.mark.parametrize('name', ['plain', 'all_filters'])
def test_a_replay_is_the_sampler_to_the_bit(name):
  batch = refilled(name, 5)
  logprobs = replay(PARAMS, MODEL, batch, group_size=GROUP_SIZE, decoding=DECODINGS[name], num_slots=5)
  np.testing.assert_array_equal(logprobs, batch['sampler_logprobs'])
  other = jax.tree.map(lambda x: x * 1.01, PARAMS)
  logprobs = replay(other, MODEL, batch, group_size=GROUP_SIZE, decoding=DECODINGS[name], num_slots=5)
  assert np.abs(logprobs - batch['sampler_logprobs']).max() > 1e-4


@pytest.mark.slow
def test_what_a_slot_held_before_is_never_read(monkeypatch):
  """Everything that is stale is NaN: fresh caches, and the cache of a sequence that has ended."""
  expected = refilled('plain', 3)
  empty, refill = transformer.empty_cache, slots.refill
  poison = lambda cache, where: jax.tree.map(lambda a: jnp.where(where, jnp.nan, a), cache)

  def refill_poisoned(state, bank, queue):
    ended = (state.sequence == NUM_ROWS)[None, :, None, None, None]
    return refill(state._replace(cache=poison(state.cache, ended)), bank, queue)

  monkeypatch.setattr(transformer, 'empty_cache', lambda *a: poison(empty(*a), True))
  monkeypatch.setattr(slots, 'refill', refill_poisoned)
  batch = engine.sample(
      PARAMS, MODEL, PROMPTS, LENGTHS, KEY, group_size=GROUP_SIZE, decoding=DECODINGS['plain'], num_slots=3
  )
  np.testing.assert_array_equal(batch['tokens'], expected['tokens'])
  np.testing.assert_allclose(batch['sampler_logprobs'], expected['sampler_logprobs'], rtol=1e-5, atol=1e-6)


def queue_of(decoding, num_slots):
  """Bank, queue, state at the beginning and `run(state, until)` of the test's sequences."""
  columns = PROMPTS.shape[1] + decoding.max_tokens
  bank = slots.read_prompts(PARAMS, MODEL, PROMPTS, LENGTHS, columns=columns)
  keys = jax.vmap(functools.partial(jax.random.fold_in, KEY))(jnp.arange(NUM_ROWS + 1))

  def draw(hidden, sequence, count):
    return engine.draw_tokens(PARAMS, MODEL, decoding, keys[sequence], hidden, count)

  budgets = jnp.full(NUM_ROWS, decoding.max_tokens)
  queue = slots.fresh(LENGTHS, budgets, group_size=GROUP_SIZE, max_tokens=decoding.max_tokens)

  @functools.partial(jax.jit, static_argnums=1)
  def run(state, num_steps=1000):
    until = lambda slots: slots.steps >= num_steps
    return slots.run(PARAMS, MODEL, bank, queue, state, draw, decoding.is_eos, until=until)

  return slots.begin(MODEL, bank, queue, num_slots=num_slots), run


@pytest.mark.parametrize('num_slots', cases([1, 4, NUM_ROWS], at_once=[4, NUM_ROWS]))
def test_no_more_steps_than_the_queue_needs(num_slots):
  """A slot is empty only when the queue is: the mean load of a slot and, at most, the longest row behind."""
  state, run = queue_of(DECODINGS['plain'], num_slots)
  end = run(state)
  lengths = [len(row) for row in completions(drawn('plain'))]
  assert max(lengths) <= end.steps <= sum(lengths) / num_slots + max(lengths)
  assert end.counts[:-1].tolist() == lengths and end.ended.all()
  if num_slots == 1:
    assert end.steps == sum(lengths)


@pytest.mark.slow
def test_stopped_anywhere_it_goes_on_as_if_it_had_not_been():
  state, run = queue_of(DECODINGS['plain'], 4)
  whole = run(state)
  for num_steps in (1, 3, 6):
    stopped = run(state, num_steps)
    assert stopped.steps == num_steps and not stopped.ended.all()
    jax.tree.map(np.testing.assert_array_equal, run(stopped), whole)


@pytest.mark.parametrize('num_slots', cases([0, 5], at_once=[5]))
def test_a_row_ends_within_its_budget(num_slots):
  """It is cut where the budget is spent, and is otherwise what it would have been."""
  budgets = np.resize([1, 3, 5, 2], NUM_ROWS).astype(np.int32)
  free = drawn('plain')
  batch = in_slots(
      PARAMS, MODEL, PROMPTS, LENGTHS, KEY, group_size=GROUP_SIZE, decoding=DECODINGS['plain'],
      num_slots=num_slots, budgets=budgets,
  )
  for row, whole, budget in zip(completions(batch), completions(free), budgets, strict=True):
    assert row == whole[:budget]
  cut = np.array([len(row) for row in completions(free)]) > budgets
  np.testing.assert_array_equal(batch['truncated'], free['truncated'] | cut)
  assert cut.any() and not cut.all()
  np.testing.assert_array_equal(batch['sampler_logprobs'] != 0, batch['action_mask'])
