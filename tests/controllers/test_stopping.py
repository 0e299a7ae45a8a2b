"""A rate from samples that stopped themselves: exact over all outcomes, where the plain share is wrong."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.controllers import allocation, stopping

RULES = [  # rounds of so many rows, right and wrong ones that are enough
    ((2, 3, 2), 2, 2), ((4, 4, 4), 2, 2), ((1, 1, 1, 1, 1, 1), 2, 0), ((3, 2, 2), 1, 1), ((2, 2, 3), 0, 2),
]


@functools.partial(jax.jit, static_argnums=(0, 2, 3))
def stopped(rounds, right, positives_min, negatives_min):
  """The estimate where a prompt stopped, [N], and its successes and rows, for right rows [N, R] of rounds."""
  rule = dict(positives_min=positives_min, negatives_min=negatives_min)
  num = len(right)
  paths = stopping.begin(num, **rule)
  positives, totals = jnp.zeros(num, jnp.int32), jnp.zeros(num, jnp.int32)
  rates = jnp.zeros(num)
  for r, size in enumerate(rounds):
    open_ = ~allocation.settled(positives, totals - positives, **rule)
    counts = jnp.where(open_, size, 0)
    positives = positives + jnp.where(open_, right[:, r], 0)
    paths, latest = stopping.after_round(paths, counts, positives, **rule)
    rates, totals = jnp.where(open_, latest, rates), totals + counts
  return rates, positives, totals


@pytest.mark.parametrize(('rounds', 'positives_min', 'negatives_min'), RULES)
def test_its_mean_over_all_outcomes_is_the_rate(rounds, positives_min, negatives_min):
  """No sampling: every way the rounds can turn out, with its probability."""
  outcomes = np.array(list(itertools.product(*(range(n + 1) for n in rounds))))
  found = stopped(rounds, jnp.asarray(outcomes), positives_min, negatives_min)
  rates, positives, totals = (np.asarray(x, np.float64) for x in found)
  assert (rates >= 0).all() and (rates <= 1 + 1e-5).all() and (totals < sum(rounds)).any()
  for p in (0.05, 0.3, 0.8):
    chance = np.prod([
        [math.comb(n, k) * p**k * (1 - p) ** (n - k) for n, k in zip(rounds, row, strict=True)]
        for row in outcomes
    ], axis=1)
    np.testing.assert_allclose(chance @ rates, p, atol=2e-5)
    if p == 0.3:
      assert abs(chance @ (positives / totals) - p) > 0.01, 'stopping is not active here'


def test_single_rows_until_k_are_right_are_the_negative_binomial():
  """(k - 1) / (n - 1), Haldane 1945."""
  right = jnp.array([[0, 1, 0, 0, 1, 0], [1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 1]])
  rates, positives, totals = stopped((1,) * 6, right, 2, 0)
  assert positives.tolist() == [2, 2, 2] and totals.tolist() == [5, 2, 6]
  np.testing.assert_allclose(rates, [1 / 4, 1 / 1, 1 / 5], rtol=1e-5)


def test_without_stopping_it_is_the_share_of_all():
  right = jnp.array([[1, 3, 0], [0, 1, 1]])
  rates, positives, _ = stopped((4, 4, 4), right, 99, 99)
  np.testing.assert_allclose(rates, positives / 12, rtol=1e-4)


def test_many_rows_stay_numbers():
  right = jnp.array([[1, 500, 500], [0, 0, 0], [1000, 1000, 1000]])
  rates, _, totals = stopped((1000, 1000, 1000), right, 4, 4)
  assert totals.tolist() == [2000, 3000, 3000]
  # The first round had 0 to 3 of the 501 right ones: 3 more often than not, C(1000, 3) being what it is.
  chances = np.array([math.comb(1000, k) * math.comb(1000, 501 - k) for k in range(4)], object)
  expected = float(sum(k * c for k, c in enumerate(chances)) / sum(chances) / 1000)
  np.testing.assert_allclose(rates, [expected, 0, 1], rtol=1e-2)
