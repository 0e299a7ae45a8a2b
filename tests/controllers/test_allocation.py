"""Allocations against all other allocations, and sampling in rounds as a simulation."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.controllers import allocation

RNG = np.random.default_rng(0)
TOTAL, LOW, HIGH = 13, 1, 6
ALL = np.array([n for n in itertools.product(range(LOW, HIGH + 1), repeat=4) if sum(n) == TOTAL])
BOUNDS = {'total': TOTAL, 'low': LOW, 'high': HIGH}
KNAPSACK = jax.jit(functools.partial(allocation.knapsack, **BOUNDS))
PROPORTIONAL = jax.jit(functools.partial(allocation.proportional, **BOUNDS))


def differ(rates, counts):
  """The chance that a group has both right and wrong samples."""
  rates = np.asarray(rates, np.float64)
  return 1 - rates**counts - (1 - rates) ** counts


def test_the_knapsack_is_the_best_of_all_allocations():
  degenerate = [0, 0.01, 0.5, 1], [0.5] * 4, [0.99, 0.98, 1, 0.001], [0, 0, 0, 0.3]
  for rates in np.array([*RNG.uniform(size=(25, 4)), *degenerate], np.float32):
    counts = np.asarray(KNAPSACK(rates))
    p = rates.astype(np.float64)
    values = (differ(p, ALL) * p * (1 - p) ** 2).sum(axis=1)
    chosen = (differ(p, counts) * p * (1 - p) ** 2).sum()
    assert counts.sum() == TOTAL and counts.min() >= LOW and counts.max() <= HIGH
    np.testing.assert_allclose(chosen, values.max(), rtol=1e-6)


def test_knapsack_values_by_hand():
  """Two samples differ with probability 2 p (1 - p); one never does."""
  rates, counts = np.float32([0.5, 0.5, 0.2, 0, 1]), np.array([1, 2, 2, 9, 9])
  values = jax.jit(allocation.knapsack_value)(rates, counts)
  np.testing.assert_allclose(values, [0, 1 / 16, 0.32 * 0.128, 0, 0], rtol=1e-5, atol=1e-7)


def test_the_knapsack_spends_more_on_groups_that_teach():
  """Success rates of a model that solves most prompts always or hardly ever."""
  rates = RNG.beta(0.4, 0.8, 64).astype(np.float32)
  counts = jax.jit(functools.partial(allocation.knapsack, total=512, low=2, high=128))(rates)
  assert counts.sum() == 512 and counts.min() >= 2 and counts.max() <= 128
  share = lambda n: np.sum(n * differ(rates, n)) / np.sum(n)  # of samples that are in such a group
  assert share(np.asarray(counts)) > 1.2 * share(np.full(64, 8))


def test_the_knapsack_still_tells_prompts_apart_after_hundreds_of_samples():
  """p^n is no float32 any more. To prompts that teach nothing goes what nobody else may get."""
  rates, bounds = np.float32([0.5, 0, 0.3, 1]), {'total': 1000, 'low': 2, 'high': 400}
  counts = jax.jit(functools.partial(allocation.knapsack, **bounds))(rates)
  np.testing.assert_array_equal(counts, [400, 100, 400, 100])


def test_proportional_counts_minimise_the_variance():
  for weights in RNG.exponential(size=(25, 4)).astype(np.float32):
    counts = np.asarray(PROPORTIONAL(weights))
    squares = weights.astype(np.float64) ** 2
    np.testing.assert_allclose((squares / counts).sum(), (squares / ALL).sum(axis=1).min(), rtol=1e-6)


def test_proportional_counts_are_in_proportion_where_whole_numbers_can_be():
  np.testing.assert_array_equal(PROPORTIONAL(np.float32([0.2, 0.5, 0.4, 0.2])), [2, 5, 4, 2])


@pytest.mark.parametrize('alike', [0.0, 1.0, np.inf])
def test_prompts_that_are_alike_get_the_same(alike):
  assert sorted(PROPORTIONAL(np.full(4, alike, np.float32)).tolist()) == [3, 3, 3, 4]
  if alike <= 1:  # all failed, all solved
    assert sorted(KNAPSACK(np.full(4, alike, np.float32)).tolist()) == [3, 3, 3, 4]


def test_what_counts_for_nothing_comes_last_and_what_is_infinite_first():
  np.testing.assert_array_equal(PROPORTIONAL(np.float32([0, np.inf, 1e-20, 0])), [1, 6, 5, 1])
  np.testing.assert_array_equal(PROPORTIONAL(np.float32([0, 7, 0, 0])), [3, 6, 2, 2])


def test_gvm_is_the_lagrangian_optimum():
  """With α = 0 and G / √p = 2, 5, 4, 2 it is in whole numbers, and they use up the budget."""
  gvm = jax.jit(functools.partial(allocation.gvm, **BOUNDS))
  rates = np.float32([0.25, 0.64, 1, 0.04])
  norms = np.float32([2, 5, 4, 2]) * np.sqrt(rates)
  np.testing.assert_array_equal(gvm(rates, norms, alpha=0.0, beta=2.0), [2, 5, 4, 2])
  regularised = gvm(rates, norms, alpha=0.1, beta=2.0)
  np.testing.assert_array_equal(regularised, PROPORTIONAL(norms / np.sqrt(rates + 0.1 / rates)))
  assert regularised[3] == LOW  # hardly ever accepted
  rates[2], norms[1] = 0, 0
  counts = gvm(rates, norms, alpha=0.0, beta=2.0)
  np.testing.assert_array_equal(counts[1:3], LOW)
  assert sorted(counts[::3].tolist()) == [5, 6]


def test_dars_by_hand():
  """√(0.1 · 0.9) = 0.3 and √(0.5 · 0.5) = 0.5: equal at 5/3 as many samples; by failure rate 9/5 of that."""
  rates = np.float32([0.1, 0.5, 0.9, 0])
  equal, hard = jax.jit(lambda p: (allocation.equal_treatment(p), allocation.hardness_weighted(p)))(rates)
  np.testing.assert_allclose(equal, [5 / 3, 1, 1, np.inf], rtol=1e-6)
  np.testing.assert_allclose(hard, [3, 1, 1, np.inf], rtol=1e-6)
  extra = jax.jit(functools.partial(allocation.extra_samples, group_size=8, extra_max=24))
  np.testing.assert_array_equal(extra(equal), [6, 0, 0, 24])  # ⌈8 · 2/3⌉
  np.testing.assert_array_equal(extra(hard), [16, 0, 0, 24])


def test_equal_treatment_makes_hard_groups_count_as_much_as_medium_ones():
  rates = np.linspace(0.05, 0.5, 10, dtype=np.float32)
  advantages = 2 * np.sqrt(rates * (1 - rates))
  np.testing.assert_allclose(advantages * allocation.equal_treatment(rates), 1, rtol=1e-5)
  np.testing.assert_allclose(advantages * allocation.hardness_weighted(rates), 2 * (1 - rates), rtol=1e-5)


def test_rows_of_the_batch_are_those_of_the_counts():
  expand = jax.jit(functools.partial(allocation.expand, total=7))
  for counts in ([3, 0, 4], [7, 0, 0], [0, 0, 7], [1, 5, 1]):
    np.testing.assert_array_equal(expand(np.array(counts, np.int32)), np.repeat(np.arange(3), counts))
  assert expand(np.array([3, 0, 4], np.int32)).dtype == jnp.int32


EVENLY = jax.jit(functools.partial(allocation.evenly, total=50))


@pytest.mark.parametrize(('active', 'counts'), [
    ([True] * 16, [4] * 2 + [3] * 14),
    ([False] * 16, [4] * 2 + [3] * 14),
    ([False] * 15 + [True], [0] * 15 + [50]),
    ([True, False] * 4 + [False] * 8, [13, 0, 13, 0, 12, 0, 12] + [0] * 9),
])
def test_the_active_share_everything(active, counts):
  np.testing.assert_array_equal(EVENLY(np.array(active)), counts)


def test_in_rounds_fewer_groups_are_all_of_one_kind():
  """With the same number of samples as a fixed group for each, most prompts leave with a balanced group."""
  rates, rounds = np.linspace(0.04, 0.9, 16), 8
  settled = jax.jit(functools.partial(allocation.settled, positives_min=2, negatives_min=2))
  right, wrong = np.zeros(16, int), np.zeros(16, int)
  for _ in range(rounds):
    counts = np.asarray(EVENLY(~np.asarray(settled(right, wrong))))
    assert counts.sum() == 50
    new = RNG.binomial(counts, rates)
    right, wrong = right + new, wrong + counts - new
  np.testing.assert_array_equal(settled(right, wrong), (right >= 2) & (wrong >= 2))
  fixed = np.sum(1 - differ(rates, 50 * rounds // 16))
  assert np.sum((right == 0) | (wrong == 0)) == 0 and fixed > 0.4


@pytest.mark.parametrize(('bounds', 'said'), [
    ({'total': 3, 'low': 1, 'high': 6}, 'pass 4 to 24'),
    ({'total': 25, 'low': 1, 'high': 6}, 'pass 4 to 24'),
    ({'total': 8, 'low': 0, 'high': 6}, 'low=0'),
    ({'total': 8, 'low': 3, 'high': 2}, 'low=3, high=2'),
])
def test_a_budget_that_cannot_be_dealt_is_refused(bounds, said):
  for rule in (allocation.knapsack, allocation.proportional):
    with pytest.raises(ValueError, match=said):
      rule(jnp.full(4, 0.5), **bounds)


def test_bounds_may_leave_no_choice():
  counts = jax.jit(functools.partial(allocation.proportional, total=6, low=2, high=2))(np.ones(3, np.float32))
  np.testing.assert_array_equal(counts, [2, 2, 2])
