"""Weights of objectives: signals by hand, volumes by counting, and a front that fixed weights miss."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.controllers import objectives
from tests.cases import cases

RNG = np.random.default_rng(0)


def test_weight_moves_from_what_is_won_to_what_stalls():
  """Three objectives: won, converging, stalled. By hand: signals 0, 0.3 (0.5 + 1/3) = 0.25, 0.4 (1 + 0)."""
  window = jnp.array([[0.0, 0.4, 0.4], [0.0, 0.2, 0.4]])
  expected = 3 * np.exp([0, 0.25, 0.4]) / np.exp([0, 0.25, 0.4]).sum()
  np.testing.assert_allclose(objectives.lagging(window, temperature=1.0), expected, rtol=1e-4)
  swinging = jnp.array([[0.2, 0.4], [0.6, 0.4], [0.2, 0.4], [0.6, 0.4]])
  weights = objectives.lagging(swinging, temperature=0.1)
  assert weights[0] > weights[1]


def test_nothing_moves_before_the_window_is_full():
  window = objectives.init_window(3, size=4)
  for i in range(3):
    window = objectives.update_window(window, jnp.array([0.1, 0.5, 0.9]) * i)
    np.testing.assert_array_equal(objectives.lagging(window, temperature=0.1), 1)
  window = objectives.update_window(window, jnp.array([0.0, 0.5, 0.9]))
  weights = objectives.lagging(window, temperature=0.1)
  np.testing.assert_allclose(weights.sum(), 3, rtol=1e-6)
  assert weights[0] < weights[1] < weights[2]
  with pytest.raises(ValueError, match='at least 2 steps'):
    objectives.lagging(window[:1], temperature=0.1)


@pytest.mark.parametrize('num_objectives', cases([1, 2, 3], at_once=(3,)))
def test_volumes_against_counting(num_objectives):
  """Points on a grid of tenths: the volume is the number of cells below some point."""
  for _ in range(5):
    points = RNG.integers(-2, 7, (5, num_objectives))
    mask = RNG.uniform(size=5) < 0.8
    cells = itertools.product(range(7), repeat=num_objectives)
    counted = sum(any(all(np.array(cell) < p) for p in points[mask]) for cell in cells)
    volume = objectives.hypervolume(
        jnp.array(points / 10, jnp.float32), jnp.zeros(num_objectives), jnp.array(mask)
    )
    np.testing.assert_allclose(volume, counted / 10**num_objectives, atol=1e-6)


@pytest.mark.slow
def test_a_dominated_point_adds_nothing():
  points, there = jnp.array([[0.8, 0.2], [0.2, 0.8], [9.0, 9.0]]), jnp.array([True, True, False])
  add = lambda *point: objectives.contribution(jnp.array(point), points, jnp.zeros(2), there)
  np.testing.assert_allclose(add(0.7, 0.1), 0, atol=1e-7)
  np.testing.assert_allclose(add(0.5, 0.5), 0.09, atol=1e-6)
  np.testing.assert_allclose(add(0.9, 0.3), 0.9 * 0.3 - 0.8 * 0.2 - 0.2 * 0.1, atol=1e-6)


def test_a_gradient_that_helps_others_gains_weight():
  gradients = jnp.array([[1.0, 0.0], [1.0, 0.5], [-1.0, 0.0]])  # their sum is (1, 0.5)
  weights = objectives.influence(jnp.ones(3), gradients, rate=0.5)
  expected = np.exp(0.5 * np.array([1, 1.25, -1]))
  np.testing.assert_allclose(weights, 3 * expected / expected.sum(), rtol=1e-6)
  np.testing.assert_allclose(objectives.influence(weights, gradients, rate=0.0), weights, rtol=1e-6)


@pytest.mark.slow
def test_volumes_find_what_fixed_weights_miss():
  """Dynamic reward weighting, https://arxiv.org/abs/2509.11452: a front that is not convex.

  Of three arms the middle one is on the front and inside the line between the others. No fixed weights prefer
  it; by what it adds to the volume of what was reached, it is chosen third at the latest.
  """
  arms = jnp.array([[1.0, 0.1], [0.1, 1.0], [0.45, 0.45]])
  fixed = {int(jnp.argmax(arms @ jnp.array([w, 1 - w]))) for w in np.linspace(0, 1, 101)}
  assert fixed == {0, 1}
  reached, chosen = jnp.zeros((3, 2)), []
  add = jax.vmap(objectives.contribution, (0, None, None, None))
  for i in range(3):
    chosen.append(int(jnp.argmax(add(arms, reached, jnp.zeros(2), jnp.arange(3) < i))))
    reached = reached.at[i].set(arms[chosen[-1]])
  assert set(chosen) == {0, 1, 2}
