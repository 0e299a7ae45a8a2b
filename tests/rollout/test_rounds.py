"""Sampling in rounds: who is asked again, what is kept, and that the batch is full."""

import functools

import algorithms_table as toy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import types
from rlx.rewards.host import HostReward
from rlx.rollout import rounds

NUM_PROMPTS, GROUP = 6, 4
BATCH = NUM_PROMPTS * GROUP
RATES = jnp.array([0.0, 0.1, 0.3, 0.5, 0.9, 1.0])  # of the problems, by their number
WORLD = {'cursor': jnp.int32(0)}


def numbered(key, num, held_out):
  del key, held_out
  digits = jnp.arange(num)[:, None] % 4 + 2
  return {
      'prompts': digits, 'prompt_lengths': jnp.ones(num, jnp.int32),
      'solutions': jnp.repeat(digits, toy.NUM_TOKENS, axis=1), 'numbers': jnp.arange(num),
  }


class Counting:
  """Problems 0, 1, 2, .. in their order, with a cursor as a data set has."""

  data = None
  begin = staticmethod(lambda key: WORLD)

  @staticmethod
  def draw(world, key, num):
    problems = numbered(key, num, False)
    numbers = world['cursor'] + jnp.arange(num)
    return {**problems, 'numbers': numbers}, {'cursor': world['cursor'] + num}


def coin(models, batch, key):
  """Right with the problem's own rate, whatever was said."""
  right = jax.random.uniform(key, batch['numbers'].shape) < RATES[batch['numbers'] % len(RATES)]
  return {**batch, 'rewards': right.astype(jnp.float32)}


@functools.cache
def params():
  return jax.jit(toy.MODEL.init)(jax.random.key(0))


def settling(num_rounds=5, positives_min=2, negatives_min=2, round_rows=4 * NUM_PROMPTS, reward=coin):
  return rounds.until_settled(
      Counting(), toy.POLICY, reward, batch_size=BATCH, group_size=GROUP, num_slots=0,
      round_rows=round_rows, num_rounds=num_rounds, positives_min=positives_min, negatives_min=negatives_min,
  )


@functools.cache
def settled_batches():
  draw = jax.jit(settling().draw)
  return [jax.device_get(draw({'policy': params()}, WORLD, jax.random.key(i))[0]) for i in range(30)]


@pytest.mark.slow
def test_groups_are_whole_balanced_and_of_one_problem():
  balanced = np.zeros(NUM_PROMPTS)
  for batch in settled_batches():
    types.check(batch)
    np.testing.assert_array_equal(batch['groups'], np.repeat(np.arange(NUM_PROMPTS), GROUP))
    np.testing.assert_array_equal(batch['numbers'], batch['groups'])
    np.testing.assert_array_equal(batch['tokens'][:, 0], batch['numbers'] % 4 + 2)
    right = batch['rewards'].reshape(NUM_PROMPTS, GROUP).sum(axis=1)
    successes, failures = batch['successes'][::GROUP], (batch['attempts'] - batch['successes'])[::GROUP]
    enough = (successes >= 2) & (failures >= 2)
    np.testing.assert_array_equal(right[enough], 2)
    few = successes < 2
    np.testing.assert_array_equal(right[few], successes[few])  # every rare success is kept
    balanced += enough
  assert balanced[0] == balanced[5] == 0 and balanced[3] >= 29 and balanced[2] > balanced[1] > 0


@pytest.mark.slow
def test_rows_go_to_those_that_are_not_settled():
  attempts = np.mean([batch['attempts'][::GROUP] for batch in settled_batches()], axis=0)
  assert attempts.min() >= GROUP and attempts[3] < attempts[2] < attempts[1] < attempts[0]
  for batch in settled_batches():
    assert batch['attempts'][::GROUP].sum() == batch['sampling/rows'][0] <= 5 * 4 * NUM_PROMPTS


def test_all_samples_say_what_the_rate_is():
  """The mean over many batches of successes / attempts of a problem that is rarely settled is its rate."""
  share = lambda batch: batch['successes'][::GROUP] / batch['attempts'][::GROUP]
  rates = np.mean([share(batch) for batch in settled_batches()], axis=0)
  np.testing.assert_allclose(rates[[0, 5]], [0, 1])
  np.testing.assert_allclose(rates[[1, 4]], [0.1, 0.9], atol=0.06)


@pytest.mark.slow
def test_the_rate_is_not_biased_where_problems_stop():
  """Rates .3 and .5 stop early nearly always: the share of all their rows is off, the estimate is not."""
  draw = jax.jit(jax.vmap(settling().draw, (None, None, 0)))
  batches = jax.device_get(draw({'policy': params()}, WORLD, jax.random.split(jax.random.key(9), 400))[0])
  found = {name: batches[name][:, ::GROUP] for name in ('success_rates', 'successes', 'attempts')}
  error = lambda x: np.abs(x.mean(axis=0) - RATES) / np.maximum(x.std(axis=0) / 20, 1e-6)
  stopped = found['attempts'] < found['attempts'].max()
  assert stopped[:, 2:4].mean() > 0.5
  np.testing.assert_array_less(error(found['success_rates']), 3.5)
  assert error(found['successes'] / found['attempts'])[2] > 5


def banded(num_rounds, round_groups=6, low=0.25, high=0.75):
  return rounds.within_band(
      Counting(), toy.POLICY, coin, batch_size=BATCH, group_size=GROUP, num_slots=0,
      round_groups=round_groups, num_rounds=num_rounds, low=low, high=high,
  )


def test_the_batch_is_full_and_within_the_band():
  draw = jax.jit(banded(20).draw)
  for seed in range(10):
    batch, world = jax.device_get(draw({'policy': params()}, WORLD, jax.random.key(seed)))
    types.check(batch)
    accuracy = batch['rewards'].reshape(NUM_PROMPTS, GROUP).mean(axis=1)
    assert batch['in_band'].all() and (accuracy >= 0.25).all() and (accuracy <= 0.75).all()
    numbers = batch['numbers'].reshape(NUM_PROMPTS, GROUP)
    assert (numbers == numbers[:, :1]).all() and len(set(numbers[:, 0])) == NUM_PROMPTS
    num_rounds = world['cursor'] // 6
    assert batch['sampling/rows'][0] == num_rounds * 6 * GROUP
    assert num_rounds < 20, 'it stopped when it was full'


@pytest.mark.slow
def test_what_is_missing_is_filled_with_what_was_sampled():
  """Two rounds of three groups for six places: all are there, wanted ones first."""
  batch, world = jax.device_get(jax.jit(banded(2, round_groups=3).draw)(
      {'policy': params()}, WORLD, jax.random.key(3)
  ))
  assert world['cursor'] == 6
  assert sorted(batch['numbers'][::GROUP]) == list(range(6))
  accuracy = batch['rewards'].reshape(NUM_PROMPTS, GROUP).mean(axis=1)
  wanted = (accuracy >= 0.25) & (accuracy <= 0.75)
  np.testing.assert_array_equal(batch['in_band'][::GROUP], wanted)
  assert 0 < wanted.sum() < 6 and wanted[: wanted.sum()].all()
  assert batch['action_mask'].any(axis=1).all()


def test_the_world_goes_on_where_the_rounds_stopped():
  _, world = jax.jit(banded(20).draw)({'policy': params()}, WORLD, jax.random.key(0))
  batch, later = jax.jit(banded(20).draw)({'policy': params()}, world, jax.random.key(1))
  assert batch['numbers'].min() >= world['cursor'] and later['cursor'] > world['cursor']


@pytest.mark.parametrize('make, words', [
    (lambda: settling(round_rows=9), 'a round is a multiple of the 6 problems'),
    (lambda: settling(num_rounds=1, round_rows=6), 'all rounds together at least the 24 rows'),
    (lambda: settling(positives_min=1), 'do not make up a group of group_size=4'),
    (lambda: settling(reward=object.__new__(HostReward)), 'take one that compiles'),
    (lambda: banded(1, round_groups=5), 'cannot fill 6 groups'),
    (lambda: banded(2, low=0.8), 'low=0.8, high=0.75'),
])
def test_sizes_that_do_not_fit_are_told(make, words):
  with pytest.raises(ValueError, match=words):
    make()
