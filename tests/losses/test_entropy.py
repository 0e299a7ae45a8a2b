"""Entropy control: masks by hand, controllers over a few batches, and what may have a gradient."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.losses import entropy

MASK = np.array([[True, True, True, False], [True, True, False, False], [False] * 4])
H = np.float32([[0.1, 2.0, 0.7, 9.0], [1.5, 0.7, 9.0, 9.0], [9.0] * 4])


@jax.jit
def top_share(mask, share):
  return entropy.top_share(H, mask, share=share)


@pytest.mark.parametrize(
    ('share', 'kept'),
    [(0.2, [2.0]), (0.21, [2.0, 1.5]), (0.6, [2.0, 1.5, 0.7, 0.7]), (1.0, [2.0, 1.5, 0.7, 0.7, 0.1])],
)
def test_the_top_share_is_of_counted_tokens_over_the_batch(share, kept):
  """Of five; both tokens at the edge stay."""
  top = np.array(top_share(MASK, share))
  assert not (top & ~MASK).any()
  np.testing.assert_allclose(np.sort(H[top])[::-1], kept)


def test_the_top_share_of_nothing_is_nothing():
  assert not top_share(np.zeros_like(MASK), 0.5).any()


def test_uncertain_tokens_of_negative_rows_are_left_out():
  advantages = np.float32([[-1.0, -1.0, 1.0, 0.0]])
  kept = entropy.without_uncertain_negatives(np.float32([[0.4, 0.6, 0.6, 0.6]]), advantages, entropy_max=0.5)
  assert kept.tolist() == [[True, False, True, True]]


def test_masking_stays_on_between_its_bounds():
  update = jax.jit(functools.partial(entropy.update_masking, entropy_low=0.2, entropy_high=0.5))
  masking, seen = entropy.init_masking(), []
  for mean in (0.4, 0.5, 0.6, 0.4, 0.2, 0.1, 0.4, 0.7):
    masking = update(masking, np.float32(mean))
    seen.append(bool(masking))
  assert seen == [False, False, True, True, True, False, False, True]
  advantages = np.float32([-1.0, 0.0, 1.0])
  assert entropy.negatives_kept(advantages, masking).tolist() == [False, True, True]
  assert entropy.negatives_kept(advantages, entropy.init_masking()).all()


def test_the_bonus_raises_entropy():
  loss, slope = jax.value_and_grad(lambda h: entropy.bonus(h, entropy_coef=0.1).sum())(np.float32([1.0, 2.0]))
  np.testing.assert_allclose(loss, -0.3, rtol=1e-6)
  np.testing.assert_allclose(slope, [-0.1, -0.1], rtol=1e-6)
  assert entropy.bonus(jnp.ones(2, jnp.bfloat16), entropy_coef=0.1).dtype == jnp.float32


def test_shaped_advantages_by_hand_are_constants_and_keep_their_sign():
  """min(0.4 H, |A| / 2): 0.04, 0.5, 0.2, 0."""
  a, h = np.float32([1.0, -1.0, -1.0, 0.0]), np.float32([0.1, 9.0, 0.5, 9.0])
  shape = jax.jit(functools.partial(entropy.shaped_advantages, scale=0.4, kappa=2.0))
  np.testing.assert_allclose(shape(a, h), [1.04, -0.5, -0.8, 0.0], rtol=1e-6)
  np.testing.assert_array_equal(jax.grad(lambda h: shape(a, h).sum())(h), 0)
  with pytest.raises(ValueError, match='kappa=1.0: must be above 1'):
    entropy.shaped_advantages(a, h, scale=0.4, kappa=1.0)


def test_the_coefficient_steps_towards_its_target_and_rests_above_it():
  update = jax.jit(functools.partial(entropy.update_entropy_coef, target=0.3, step=0.01, coef_max=0.02))
  coef, seen = entropy.init_entropy_coef(entropy_coef=0.005), []
  for mean in (0.1, 0.1, 0.4, 0.4, 0.4, 0.2):
    coef, acting = update(coef, np.float32(mean))
    seen.append((float(coef), float(acting)))
  c = [0.015, 0.02, 0.01, 0.0, 0.0, 0.01]
  np.testing.assert_allclose(seen, np.transpose([c, np.float32(c) * [1, 1, 0, 0, 0, 1]]), atol=1e-8)
  assert coef.dtype == jnp.float32


@jax.jit
def band(h, window):
  limits = dict(ratio_low=0.5, ratio_high=1.5)
  penalty = functools.partial(entropy.band_penalty, **limits)
  slopes = jax.grad(lambda h, w: penalty(h, w).sum(), argnums=(0, 1))(h, window)
  return penalty(h, window), entropy.is_outside_band(h, window, **limits), slopes


def test_the_penalty_is_zero_inside_the_band_and_leads_back_into_it():
  """The window's mean is 2: the band is [1, 3]."""
  window = entropy.init_window(size=3)
  for mean in (9.0, 1.0, 2.0, 3.0):  # the first is forgotten
    window = entropy.update_window(window, np.float32(mean))
  h = np.float32([0.5, 1.0, 2.0, 3.0, 5.0])
  penalty, outside, (slope, of_window) = band(h, window)
  np.testing.assert_allclose(penalty, [0.5, 0, 0, 0, 2], rtol=1e-6)
  assert outside.tolist() == [True, False, False, False, True]
  np.testing.assert_array_equal(slope[np.array([0, 2, 4])], [-1, 0, 1])
  assert np.isfinite(of_window).all()


def test_an_empty_window_penalises_nothing_and_a_short_one_averages_what_it_holds():
  h = np.float32([0.5, 1.0, 2.0, 3.0, 5.0])
  window = entropy.init_window(size=3)
  penalty, outside, (slope, _) = band(h, window)
  assert not penalty.any() and not outside.any() and not slope.any()
  penalty, _, _ = band(h, entropy.update_window(window, np.float32(2)))
  np.testing.assert_allclose(penalty, [0.5, 0, 0, 0, 2], rtol=1e-6)


def test_the_window_does_not_learn():
  window = entropy.init_window(size=2)
  assert jax.grad(lambda h: entropy.update_window(window, h)[-1])(np.float32(1)) == 0


def test_what_is_outside_the_nucleus_has_neither_probability_nor_gradient():
  """Of a lagging policy with 0.5, 0.3, 0.15, 0.05."""
  slow = np.log(np.float32([[0.3, 0.05, 0.5, 0.15]]))
  log_probs = lambda x, mask: jax.nn.log_softmax(jnp.where(mask, x, -jnp.inf))[0]

  @jax.jit
  def run(logits, top_p):
    mask = entropy.nucleus(slow, top_p=top_p)
    slope = jax.grad(lambda x: log_probs(x, mask)[2])(logits)[0]
    return mask[0], entropy.nucleus_mass(slow, top_p=top_p), jnp.exp(log_probs(logits, mask)), slope

  for top_p, kept in ((0.4, [2]), (0.7, [0, 2]), (0.9, [0, 2, 3]), (1.0, [0, 1, 2, 3])):
    mask, mass, probabilities, slope = map(np.array, run(np.ones_like(slow), top_p))
    assert np.flatnonzero(mask).tolist() == kept
    np.testing.assert_allclose(mass, np.exp(slow[0])[mask].sum(), rtol=1e-6)
    np.testing.assert_allclose(probabilities, mask / len(kept), rtol=1e-6)
    np.testing.assert_array_equal(slope[~mask], 0)
