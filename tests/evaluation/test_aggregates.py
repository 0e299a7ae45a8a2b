"""Aggregates of scores, by hand."""

import numpy as np
import pytest

from rlx.evaluation import aggregates

EIGHT = np.array([[100.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [-50.0]])


def test_interquartile_mean_leaves_out_a_quarter_at_either_end():
  # Sorted: -50 1 | 2 3 4 5 | 6 100.
  assert aggregates.interquartile_mean(EIGHT) == pytest.approx(3.5)
  assert aggregates.interquartile_mean(np.array([[1.0], [2.0], [30.0]])) == pytest.approx(11)


def test_tasks_are_pooled():
  scores = np.array([[0.0, 1.0], [2.0, 3.0]])
  assert aggregates.interquartile_mean(scores) == pytest.approx(1.5)


def test_optimality_gap_does_not_pay_for_more_than_the_target():
  assert aggregates.optimality_gap(np.array([[0.5], [2.0]]), target=1.0) == pytest.approx(0.25)


def test_probability_of_improvement_counts_ties_as_half():
  ours, theirs = np.array([[1.0], [3.0]]), np.array([[1.0], [2.0]])
  # 1-1 tie, 1-2 lost, 3-1 and 3-2 won: (0.5 + 0 + 1 + 1) / 4.
  assert aggregates.probability_of_improvement(ours, theirs) == pytest.approx(0.625)
  with pytest.raises(ValueError, match='same'):
    aggregates.probability_of_improvement(ours, np.ones((2, 2)))


def test_the_interval_covers_what_it_should():
  """Of a normal distribution with mean 1: 95 % intervals of 20 runs hold it about that often."""
  rng = np.random.default_rng(1)
  mean = lambda scores: scores.mean((-2, -1))
  held = 0
  for _ in range(200):
    low, high = aggregates.bootstrap_interval(rng.normal(1, 2, (20, 1)), mean, draws=300)
    held += low <= 1 <= high
  assert 0.85 <= held / 200 <= 0.99


def test_runs_are_drawn_within_their_task():
  """Every draw of constant tasks is the same, which draws across tasks would not be."""
  scores = np.tile([[0.0, 10.0]], (5, 1))
  assert aggregates.bootstrap_interval(scores, lambda x: x.mean((-2, -1))) == (5.0, 5.0)


def test_many_draws_are_summed_up_as_one_by_one():
  draws = np.random.default_rng(2).normal(size=(4, 7, 2))
  summed = lambda of: [of(one) for one in draws]
  gap = lambda x: aggregates.optimality_gap(x, target=0.5)
  better = lambda x: aggregates.probability_of_improvement(x[..., :1], x[..., 1:])
  for of in (aggregates.interquartile_mean, gap, better):
    np.testing.assert_allclose(of(draws), summed(of), rtol=1e-12)
    assert of(draws).shape == (4,)


def test_an_aggregate_of_all_draws_as_one_is_refused():
  with pytest.raises(ValueError, match='one number each'):
    aggregates.bootstrap_interval(np.ones((4, 1)), np.mean)


def test_two_runs_have_no_interval():
  with pytest.raises(ValueError, match='at least 3'):
    aggregates.bootstrap_interval(np.ones((2, 1)), aggregates.interquartile_mean)
