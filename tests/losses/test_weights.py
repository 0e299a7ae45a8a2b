"""Weights of rows, against loops over their groups."""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.losses import weights

GROUPS = np.int32([3, 1, 3, 1, 0, 3, 1, 3])
sigmoid = lambda x: 1 / (1 + np.exp(-np.float64(x)))


def per_group(x, function):
  result = np.zeros(len(x))
  for group in set(GROUPS.tolist()):
    result[group == GROUPS] = function(np.float64(x)[group == GROUPS])
  return result


def test_informative_rows_share_the_weight_of_all():
  informative = jax.jit(weights.informative)
  rewards = np.float32([1, 0, 0, 0, 1, 1, 0, 0])
  np.testing.assert_allclose(informative(rewards, GROUPS), np.where(GROUPS == 3, 8 / 4, 0))
  np.testing.assert_array_equal(informative(np.ones(8, np.float32), GROUPS), 0)


def test_medium_difficulty_peaks_at_one_half():
  correct = np.float32([1, 0, 0, 1, 1, 1, 0, 0])
  rates = per_group(correct, np.mean)  # 1/2, 1/3 and 1
  result = weights.medium_difficulty(correct, GROUPS, scale=2.0)
  np.testing.assert_allclose(result, 8 * rates * (1 - rates), rtol=1e-5)
  assert result[0] == 2


def test_hardness_against_a_loop():
  similar = np.float32([0.9, 0.2, 0.5, 0.4, 0.3, 0.8, 0.7, -0.2])
  expected = per_group(1 - similar, lambda d: sigmoid(d) / sigmoid(d.mean()))
  np.testing.assert_allclose(weights.data_hardness(similar, GROUPS), expected, rtol=1e-5)
  same = weights.data_hardness(np.full(8, 0.4, np.float32), GROUPS)
  np.testing.assert_allclose(same, 1, rtol=1e-6)


def test_responsiveness_against_a_loop():
  gaps = np.float32([1.0, 0.5, 1.2, 0.4, 2.0, 0.9, -3.0, 9.0])

  def rule(x):
    kept = x[(x - x.mean()) ** 2 <= 8]
    return sigmoid(kept.mean() if len(kept) else x.mean()) / sigmoid(x.mean())

  expected = per_group(gaps, rule)
  np.testing.assert_allclose(weights.responsiveness(gaps, GROUPS, deviation_max=8.0), expected, rtol=1e-5)
  assert expected[0] != 1
  nothing_left = weights.responsiveness(gaps, GROUPS, deviation_max=-1.0)
  np.testing.assert_allclose(nothing_left, 1, rtol=1e-6)


def test_small_targets_weigh_more_within_bounds():
  sizes = np.float32([0.5, 0.25, 0.1, 0.01])
  inverse = 1 / np.float64(sizes)
  expected = np.clip(inverse / inverse.mean(), 0.2, 2.5)
  result = weights.small_targets(sizes, weight_min=0.2, weight_max=2.5)
  np.testing.assert_allclose(result, expected, rtol=1e-5)
  assert (np.diff(result) >= 0).all()


def test_balanced_weights_are_the_larger_and_the_smaller_share():
  probabilities, rewards = np.float32([0.1, 0.3, 0.2]), np.float32([2.0, 0.5, 0.5])
  learn, hold = weights.balanced(probabilities, rewards)
  np.testing.assert_allclose(learn, [2.0, 1.5, 1.0], rtol=1e-6)
  np.testing.assert_allclose(hold, [0.5, 0.5, 0.5], rtol=1e-6)
  slope = jax.grad(lambda p: sum(x.sum() for x in weights.balanced(p, rewards)))(jnp.array(probabilities))
  np.testing.assert_array_equal(slope, 0)
