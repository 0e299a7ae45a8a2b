"""Weights and masks for samples of another policy: by hand, at their limits, and without a gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.losses import corrections, ratios

MASK = np.array([[True, True, False], [True, True, True], [False, False, False]])
RATIOS = np.float32([[0.1, 1.5, 9.0], [2.0, 6.0, 1.0], [0.01, 50.0, 1.0]])


def test_truncated_and_masked_by_hand():
  np.testing.assert_allclose(corrections.truncated(RATIOS[1], ratio_max=2.0), [2, 2, 1])
  np.testing.assert_allclose(corrections.truncated(RATIOS[0], ratio_max=2.0, ratio_min=0.5), [0.5, 1.5, 2])
  band = corrections.masked(RATIOS[:2], ratio_min=0.5, ratio_max=5.0)  # IcePop
  np.testing.assert_allclose(band, [[0, 1.5, 0], [2, 0, 1]])
  one_sided = corrections.masked(RATIOS[0], ratio_min=0.0, ratio_max=5.0)  # MIS
  np.testing.assert_allclose(one_sided, [0.1, 1.5, 0], rtol=1e-6)


def test_bounds_belong_to_the_band():
  kept = corrections.accepted(np.float32([0.5, 2.0, 2.5]), ratio_min=0.5, ratio_max=2.0)
  assert kept.tolist() == [True, True, False]
  with pytest.raises(ValueError, match='ratio_min=2.0, ratio_max=0.5: the band keeps nothing'):
    corrections.accepted(RATIOS, ratio_min=2.0, ratio_max=0.5)
  with pytest.raises(ValueError, match='ratio_min=2.0, ratio_max=0.5: the band keeps nothing'):
    corrections.truncated(RATIOS, ratio_min=2.0, ratio_max=0.5)


def test_without_bounds_every_weight_is_the_ratio():
  for weights in (
      corrections.truncated(RATIOS, ratio_max=jnp.inf),
      corrections.masked(RATIOS, ratio_min=0.0, ratio_max=jnp.inf),
  ):
    np.testing.assert_array_equal(weights, RATIOS)


def test_weights_are_constants():
  """Also of the log-probs that the ratios come from."""

  def total(new):
    rho = ratios.ratio(new, jnp.zeros(3))
    weights = [
        corrections.truncated(rho, ratio_max=2.0),
        corrections.masked(rho, ratio_min=0.5, ratio_max=5.0),
        corrections.self_normalised(rho, jnp.ones(3, bool)),
        corrections.untruncated_ratio(jnp.ones(3), rho),
    ]
    return sum(x.sum() for x in weights)

  np.testing.assert_array_equal(jax.jit(jax.grad(total))(np.float32([-0.1, 0.2, 0.5])), 0)


def test_rejection_of_whole_sequences_at_every_level():
  """Log-ratios 0.5, -0.5: geometric mean and product are 1, both tokens are outliers."""
  new, old = np.float32([[0.5, -0.5, 7.0], [0.3, 0.3, 0.3], [9.0, 9.0, 9.0]]) - 3, np.float32([[-3] * 3] * 3)

  @jax.jit
  def kept(new):
    band = dict(ratio_min=0.7, ratio_max=1.4)
    token = ratios.ratio(new, old)
    levels = token, ratios.sequence_product(new, old, MASK), ratios.sequence_ratio(new, old, MASK)
    clean = corrections.without_outliers(token, MASK, **band)
    return [corrections.accepted(x, **band) for x in levels], clean

  (token, product, geometric), clean = kept(new)
  assert token[0, :2].tolist() == [False, False]
  assert product[:, 0].tolist() == [True, False, True]
  assert geometric[:, 0].tolist() == [True, True, True]
  assert clean.tolist() == [[False] * 3, [True] * 3, [True] * 3]


def test_one_catastrophic_token_vetoes_its_row():
  ratios = np.float32([[1.0, 1e-5, 1.0], [1.0, 1.0, 30.0], [1e-9, 1.0, 1.0]])
  kept = corrections.without_outliers(ratios, MASK, ratio_min=1e-4, ratio_max=jnp.inf)
  assert kept.tolist() == [[False] * 3, [True] * 3, [True] * 3]


def test_off_policy_sequences_by_hand():
  new = np.float32([[-1.0, -2.0, -50.0], [-1.0, -3.0, -2.0], [-9.0, -9.0, -9.0], [-1.0, -3.0, -2.0]])
  sampler = np.float32([[-0.8, -1.5, 0.0], [-0.5, -1.0, -1.0], [0.0, 0.0, 0.0], [-0.5, -1.0, -1.0]])
  mask = np.concatenate([MASK, MASK[1:2]])
  advantages = np.float32([[-1.0] * 3, [-1.0] * 3, [-1.0] * 3, [0.0, 1.0, -1.0]])
  mask_rows = jax.jit(
      lambda kl_max: corrections.off_policy_sequences(new, sampler, advantages, mask, kl_max=kl_max)
  )
  for kl_max, rows in ((0.34, [False, False, True]), (0.36, [True, False, True]), (1.17, [True] * 3)):
    kept = mask_rows(kl_max)
    for row, expected in enumerate(rows):  # means 0.35, 3.5 / 3 and none
      assert kept[row].tolist() == [expected] * 3
  assert mask_rows(0.5)[3].tolist() == [True, True, False]


def test_self_normalised_weights_average_to_one_over_counted_tokens():
  weights = corrections.self_normalised(RATIOS, MASK)
  np.testing.assert_allclose(np.mean(np.array(weights)[MASK]), 1, rtol=1e-6)
  np.testing.assert_allclose(weights / weights[0, 0], RATIOS / RATIOS[0, 0], rtol=1e-5)
  np.testing.assert_array_equal(corrections.self_normalised(np.zeros_like(RATIOS), MASK), 0)


def test_the_untruncated_ratio_weighs_samples_of_the_filter_like_the_whole_policy():
  """Σ_a q(a) π(a)/q(a) f(a) over what the filter keeps is Σ_a π(a) f(a) over the same, for q = π_old / Z."""
  pi, old, f = np.float32([[0.5, 0.2, 0.2, 0.1], [0.4, 0.3, 0.2, 0.1], [3.0, -1.0, 2.0, 5.0]])
  keep = np.array([True, True, True, False])
  mass = old[keep].sum()
  ratios = corrections.untruncated_ratio(pi / old, np.full(4, mass, np.float32))
  np.testing.assert_allclose(np.sum((old / mass * ratios * f)[keep]), np.sum((pi * f)[keep]), rtol=1e-6)
