"""Chosen problems, uneven groups, static shapes: what is drawn, and what the table makes of it."""

import functools

import algorithms_table as toy
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import types
from rlx.algorithms.grpo import grpo
from rlx.controllers import allocation, prompts, schedules
from rlx.losses.anchors import no_kl
from rlx.rewards.verifier import verifier
from rlx.rollout.curriculum import curriculum, numbered
from rlx.step import make_train_step, repeat
from rlx.types import State

NUM_PROBLEMS, NUM_PROMPTS, BATCH = 12, 4, 24
POLICY = toy.POLICY.saying(max_tokens=5)
COUNTS = np.array([1, 9, 3, 11])


def rollout_with(*, scores=prompts.everywhere, draw=prompts.highest, allocate=None, num_slots=0, length=None):
  return curriculum(
      toy.TASK, POLICY, num_problems=NUM_PROBLEMS, batch_size=BATCH, num_prompts=NUM_PROMPTS,
      num_slots=num_slots, scores=scores, draw=draw, allocate=allocate or (lambda rates: jnp.array(COUNTS)),
      length=length or functools.partial(schedules.constant, value=5), keep=0.9, prior_rate=0.5,
      prior_strength=2.0,
  )


@functools.cache
def params():
  return jax.jit(toy.MODEL.init)(jax.random.key(0))


def drawn(rollout, key=0):
  world = {**rollout.begin(jax.random.key(0)), 'data': rollout.data}
  return jax.device_get(jax.jit(rollout.draw)({'policy': params()}, world, jax.random.key(key)))


@pytest.mark.parametrize('num_slots', [0, 7])
@pytest.mark.slow
def test_rows_are_dealt_as_the_allocation_says(num_slots):
  batch, _ = drawn(rollout_with(num_slots=num_slots))
  types.check(batch)
  np.testing.assert_array_equal(np.bincount(batch['groups'], minlength=NUM_PROMPTS), COUNTS)
  rows = [set(batch['rows'][batch['groups'] == g]) for g in range(NUM_PROMPTS)]
  assert all(len(x) == 1 for x in rows) and len(set.union(*rows)) == NUM_PROMPTS
  problems = numbered(toy.TASK, NUM_PROBLEMS)
  np.testing.assert_array_equal(batch['tokens'][:, 0], problems['prompts'][batch['rows'], 0])
  np.testing.assert_array_equal(batch['solutions'], problems['solutions'][batch['rows']])


@pytest.mark.slow
def test_what_a_row_says_does_not_depend_on_how_it_is_decoded():
  """With slots the prompts are read once, without them once a row."""
  together, _ = drawn(rollout_with())
  slots, _ = drawn(rollout_with(num_slots=7))
  for name in ('tokens', 'action_mask', 'groups', 'rows', 'truncated'):
    np.testing.assert_array_equal(together[name], slots[name])
  np.testing.assert_allclose(together['sampler_logprobs'], slots['sampler_logprobs'], atol=1e-5)
  rescored, _ = jax.jit(POLICY.score)(params(), together)
  np.testing.assert_allclose(together['sampler_logprobs'], rescored, atol=1e-5)


@pytest.mark.slow
def test_the_length_is_that_of_the_step():
  rollout = rollout_with(length=lambda step: jnp.where(step == 0, 2, 9))
  batch, world = drawn(rollout)
  assert batch['action_mask'].sum(axis=1).max() == 2 and batch['truncated'].any()
  world = rollout.observe(world, {**batch, 'rewards': jnp.zeros(BATCH)})
  batch, _ = jax.jit(rollout.draw)({'policy': params()}, {**world, 'data': rollout.data}, jax.random.key(0))
  assert batch['action_mask'].sum(axis=1).max() == 5  # the decoding's own limit


@pytest.mark.slow
def test_the_table_takes_the_outcomes_in():
  rollout = rollout_with()
  batch, world = drawn(rollout)
  rewards = np.linspace(0, 1, BATCH, dtype=np.float32)
  scored = np.arange(BATCH) != 3
  world = rollout.observe(world, {**batch, 'rewards': rewards, 'scored': scored})
  table = world['statistics']
  for row in range(NUM_PROBLEMS):
    mine = (batch['rows'] == row) & scored
    assert table.tries[row] == mine.sum()
    np.testing.assert_allclose(table.successes[row], rewards[mine].sum(), rtol=1e-6)
  chosen = table.last_seen == 0
  assert chosen.sum() == NUM_PROMPTS and world['batches'] == 1
  assert (np.asarray(table.entropies)[chosen] > 0).all() and (table.gradient_norms == 1).all()


@pytest.mark.slow
def test_what_is_hard_comes_back_and_gets_more():
  """Half of the problems are known to be easy: the others are drawn, and by their rates get their rows."""
  rollout = rollout_with(
      scores=functools.partial(prompts.hard_focus, unseen=0.5),
      allocate=functools.partial(allocation.knapsack, low=2, high=12),
  )
  world = rollout.begin(jax.random.key(0))
  rows = np.repeat(np.arange(NUM_PROBLEMS), 40).astype(np.int32)
  easy = rows % 2 == 0
  rewards = np.where(easy, 1, np.arange(rows.size) % 10 < rows % 12).astype(np.float32)
  seen = {'rows': rows, 'rewards': rewards, 'action_mask': np.ones((rows.size, 1), bool),
          'sampler_logprobs': np.zeros((rows.size, 1), np.float32)}
  world = {**rollout.observe(world, seen), 'data': rollout.data}
  batch, _ = jax.device_get(jax.jit(rollout.draw)({'policy': params()}, world, jax.random.key(1)))
  counts = {row: np.sum(batch['rows'] == row) for row in set(batch['rows'].tolist())}
  assert set(counts) == {1, 3, 5, 7}  # solved in 1, 3, 5 and 7 of 10
  assert counts[1] > counts[7] >= 2 and sum(counts.values()) == BATCH
  np.testing.assert_allclose(
      batch['sampling/predicted_rate'], (4 * (batch['rows'] % 12) + 1) / 42, rtol=1e-5
  )


@pytest.mark.slow
def test_a_step_with_a_curriculum_learns_and_is_one_program():
  rollout, adam = rollout_with(allocate=allocation.uniform), optax.adam(5e-3)
  reward = verifier(toy.TASK, POLICY)
  algorithm = grpo(rollout, reward, POLICY, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0)
  step = jax.jit(repeat(make_train_step(algorithm, adam, epochs=1, minibatches=1, microbatches=1), 50))
  models = {'policy': params()}
  state = State(
      step=jnp.int32(0), params=models, slow={}, opt_state=adam.init(models),
      world=rollout.begin(jax.random.key(0)), key=jax.random.key(1),
  )
  first = None
  for _ in range(4):
    state, metrics = step(state, rollout.data)
    first = metrics if first is None else first
  assert step._cache_size() == 1
  assert np.mean(metrics['reward/mean']) > 0.8 > 0.4 > first['reward/mean'][0]
  assert state.world['statistics'].tries.sum() == 200 * BATCH
  learned = np.asarray(metrics['sampling/predicted_rate'][-5:]).mean()
  assert abs(learned - np.mean(metrics['reward/mean'][-15:])) < 0.1  # the table keeps up


def test_mistakes_are_told():
  with pytest.raises(ValueError, match=r'num_prompts=5 does not divide rollout.batch_size=24'):
    curriculum(
        toy.TASK, POLICY, num_problems=9, batch_size=24, num_prompts=5, num_slots=0,
        scores=prompts.everywhere, draw=prompts.highest, allocate=allocation.uniform,
        length=schedules.constant, keep=1.0, prior_rate=0.5, prior_strength=2.0,
    )
  with pytest.raises(ValueError, match='24 different prompts of 12'):
    prompts.highest(jnp.zeros(NUM_PROBLEMS), jax.random.key(0), 24)
