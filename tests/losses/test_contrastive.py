"""InfoNCE by hand, at its limits, and where nothing belongs to a row."""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.losses import contrastive


def test_info_nce_by_hand():
  similarities = jnp.log(jnp.array([[1.0, 2.0, 5.0], [3.0, 3.0, 3.0], [1.0, 2.0, 5.0]]))
  positives = jnp.array([[False, True, False], [True, False, False], [True, False, True]])
  found = contrastive.info_nce(similarities, positives)
  np.testing.assert_allclose(found, np.log([8 / 2, 3, 8 / 6]), rtol=1e-6)


def test_its_slope_is_softmax_less_the_share_among_the_positives():
  similarities = jnp.log(jnp.array([1.0, 2.0, 5.0]))
  slope = jax.grad(contrastive.info_nce)(similarities, jnp.array([True, False, True]))
  np.testing.assert_allclose(slope, [1 / 8 - 1 / 6, 2 / 8, 5 / 8 - 5 / 6], rtol=1e-5)


def test_a_row_to_which_nothing_belongs_says_nothing():
  similarities, nobody = jnp.array([1e4, -1e4]), jnp.zeros(2, bool)
  loss, slope = jax.value_and_grad(contrastive.info_nce)(similarities, nobody)
  np.testing.assert_array_equal(loss, 0)
  np.testing.assert_array_equal(slope, 0)


def test_what_all_belongs_is_told_apart_for_nothing_and_from_the_far_side_it_is_finite():
  similarities = jnp.array([1e4, -1e4])
  np.testing.assert_array_equal(contrastive.info_nce(similarities, jnp.ones(2, bool)), 0)
  np.testing.assert_allclose(contrastive.info_nce(similarities, jnp.array([False, True])), 2e4)
