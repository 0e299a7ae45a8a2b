"""Computed orders: every one is a permutation, and together they are as good as chance."""

import collections
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.data.order import shuffled
from tests.cases import cases

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 100, 1000, 1024, 1025, 7473, 65_536, 65_537]
order = jax.jit(lambda key, num_rows: shuffled(jnp.arange(num_rows), num_rows, key), static_argnums=1)
orders = jax.jit(jax.vmap(order, (0, None)), static_argnums=1)


def keys(num):
  return jax.random.split(jax.random.key(0), num)


def deviation(counts):
  """How many standard deviations the chi-square statistic of equally likely outcomes lies off its mean."""
  counts = np.asarray(counts, np.float64)
  expected, freedom = counts.mean(), len(counts) - 1
  return (np.sum((counts - expected) ** 2 / expected) - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize('num_rows', cases(SIZES, at_once=(1, 2, 7, 33, 1024, 7473)))
def test_an_order_is_a_permutation(num_rows):
  for key in keys(2):
    elements = np.asarray(order(key, num_rows))
    assert np.array_equal(np.sort(elements), np.arange(num_rows))
    assert elements.dtype == np.int32


@pytest.mark.parametrize('num_rows', [2**30 + 1, 2**31 - 1])
def test_the_largest_sizes_stay_inside_and_do_not_collide(num_rows):
  rng = np.random.default_rng(0)
  position = np.unique(np.concatenate([rng.integers(0, num_rows, 5000), [0, num_rows - 1]])).astype(np.int32)
  elements = np.asarray(shuffled(jnp.asarray(position), num_rows, jax.random.key(0)))
  assert len(np.unique(elements)) == len(position)
  assert elements.min() >= 0 and elements.max() < num_rows
  assert elements.max() > 0.99 * num_rows


def test_an_element_does_not_depend_on_the_others_of_its_batch():
  whole = order(jax.random.key(3), 1000)
  part = shuffled(jnp.array([[999, 4], [17, 17]]), 1000, jax.random.key(3))
  assert part.tolist() == [[whole[999], whole[4]], [whole[17], whole[17]]]
  each = jax.vmap(lambda position: shuffled(position, 1000, jax.random.key(3)))(jnp.arange(1000))
  assert np.array_equal(each, whole)


def test_keys_choose_the_order():
  one, other = (np.asarray(order(key, 1000)) for key in keys(2))
  assert np.mean(one == other) < 0.02
  assert np.array_equal(one, order(keys(2)[0], 1000))


@pytest.mark.parametrize('num_rows', cases([2, 3, 4, 5, 6], at_once=(3, 5)))
def test_every_permutation_is_equally_likely(num_rows):
  seen = collections.Counter(map(tuple, np.asarray(orders(keys(20_000), num_rows)).tolist()))
  counts = [seen[permutation] for permutation in itertools.permutations(range(num_rows))]
  assert sum(counts) == 20_000 and abs(deviation(counts)) < 4


@pytest.mark.parametrize('num_rows', cases([33, 100, 128], at_once=(100,)))
def test_every_place_is_equally_likely(num_rows):
  """Where the first, a middle and the last element of the order come from; and the step to the neighbour."""
  elements = np.asarray(orders(keys(8000), num_rows))
  for place in (0, 1, num_rows // 2, num_rows - 1):
    assert abs(deviation(np.bincount(elements[:, place], minlength=num_rows))) < 4
  for distance in (1, 2, num_rows // 2):
    steps = (elements[:, distance] - elements[:, 0]) % num_rows
    assert abs(deviation(np.bincount(steps, minlength=num_rows)[1:])) < 4


def test_neighbours_are_not_correlated():
  elements = np.asarray(order(jax.random.key(0), 65_537)).astype(np.float64)
  for distance in (1, 2, 3, 16, 256):
    correlation = np.corrcoef(elements[:-distance], elements[distance:])[0, 1]
    assert abs(correlation) < 4 / math.sqrt(len(elements))


@pytest.mark.parametrize('num_rows', [0, -1, 2**31])
def test_sizes_that_cannot_be_numbered_are_refused(num_rows):
  with pytest.raises(ValueError, match=f'num_rows={num_rows};'):
    shuffled(jnp.arange(1), num_rows, jax.random.key(0))
