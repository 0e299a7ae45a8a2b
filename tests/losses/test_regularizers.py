"""Estimators of a KL divergence: values, gradients, and what they are on average; how strongly they count."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.losses import ratios, regularizers

ESTIMATORS = {'k1': regularizers.kl_k1, 'k2': regularizers.kl_k2, 'k3': regularizers.kl_k3}
ALL = pytest.mark.parametrize('estimator', ESTIMATORS.values(), ids=ESTIMATORS)
LOGITS = jnp.array([0.3, -1.0, 2.0, 0.5])
REFERENCE = jax.nn.log_softmax(jnp.array([1.0, 0.2, -0.4, 0.1]))


def gradient(estimator, *args):
  return jax.grad(lambda *a: estimator(*a).sum())(*args)


@pytest.mark.parametrize(
    ('name', 'value', 'slope'),
    [('k1', 0.5, 1.0), ('k2', 0.125, 0.5), ('k3', np.exp(-0.5) - 1 + 0.5, 1 - np.exp(-0.5))],
)
def test_by_hand(name, value, slope):
  """log π = -1, log ref = -1.5."""
  args = jnp.array([[-1.0]]), jnp.array([[-1.5]])
  np.testing.assert_allclose(ESTIMATORS[name](*args), [[value]], rtol=1e-6)
  np.testing.assert_allclose(gradient(ESTIMATORS[name], *args), [[slope]], rtol=1e-6)


@ALL
def test_zero_at_the_reference(estimator):
  logprobs = jnp.array([-0.1, -3.0, -50.0])
  np.testing.assert_array_equal(estimator(logprobs, logprobs), 0)


@pytest.mark.parametrize('name', ['k2', 'k3'])
def test_no_gradient_at_the_reference(name):
  logprobs = jnp.array([-0.1, -3.0, -50.0])
  np.testing.assert_array_equal(gradient(ESTIMATORS[name], logprobs, logprobs), 0)


@pytest.mark.parametrize('name', ['k2', 'k3'])
def test_never_negative_not_even_by_rounding(name):
  """exp(x) - 1 - x loses all digits of x² / 2 where x is small, which is where training lives."""
  gaps = jnp.concatenate([10.0 ** jnp.linspace(-8, 1.5, 200), jnp.zeros(1)])
  gaps = jnp.concatenate([gaps, -gaps])
  for base in (0.0, -1.0):
    divergence = ESTIMATORS[name](base + gaps, jnp.full(gaps.shape, base))
    assert (divergence >= 0).all()


def test_k3_is_accurate_where_policies_are_close():
  """k3 = x² / 2 - x³ / 6 + ..., x = log π - log ref."""
  x = np.array([1e-3, 1e-4, -1e-3, -1e-2])
  divergence = regularizers.kl_k3(jnp.array(x), jnp.zeros(4))
  np.testing.assert_allclose(divergence, x**2 / 2 - x**3 / 6 + x**4 / 24, rtol=1e-3)


@ALL
@pytest.mark.parametrize('gap', [90.0, -90.0])
def test_extreme_ratios_are_finite(estimator, gap):
  args = jnp.array([gap - 1]), jnp.array([-1.0])
  assert np.isfinite(estimator(*args)).all()
  assert np.isfinite(gradient(estimator, *args)).all()


def exact_kl(logits):
  logprobs = jax.nn.log_softmax(logits)
  return jnp.sum(jnp.exp(logprobs) * (logprobs - REFERENCE))


def expected(estimator, logits):
  """The mean of an estimator over samples of π, which are constants: Σ_a π(a) k(a)."""
  logprobs = jax.nn.log_softmax(logits)
  return jnp.sum(jax.lax.stop_gradient(jnp.exp(logprobs)) * estimator(logprobs, REFERENCE))


@pytest.mark.parametrize('name', ['k1', 'k3'])
def test_unbiased(name):
  np.testing.assert_allclose(expected(ESTIMATORS[name], LOGITS), exact_kl(LOGITS), rtol=1e-5)


def test_the_gradient_of_k2_is_that_of_the_divergence():
  k2, exact = jax.grad(expected, 1)(regularizers.kl_k2, LOGITS), jax.grad(exact_kl)(LOGITS)
  np.testing.assert_allclose(k2, exact, rtol=1e-4, atol=1e-6)


def test_the_gradient_of_k1_teaches_nothing():
  np.testing.assert_allclose(jax.grad(expected, 1)(regularizers.kl_k1, LOGITS), 0, atol=1e-6)


def test_the_gradient_of_k3_is_that_of_the_reverse_divergence():
  """Σ π (1 - ref / π) ∇log π = -Σ ref ∇log π: the gradient of KL(ref || π), not of KL(π || ref)."""
  forward = lambda logits: jnp.sum(jnp.exp(REFERENCE) * (REFERENCE - jax.nn.log_softmax(logits)))
  k3 = jax.grad(expected, 1)(regularizers.kl_k3, LOGITS)
  np.testing.assert_allclose(k3, jax.grad(forward)(LOGITS), rtol=1e-4, atol=1e-6)


@ALL
def test_the_reference_is_alive(estimator):
  logprobs = jnp.array([-1.0, -2.0])
  values = [estimator(logprobs, jnp.full(2, reference)) for reference in (-1.1, -1.7)]
  assert (values[0] != values[1]).all()


@ALL
def test_half_precision_log_probs_are_subtracted_in_float32(estimator):
  args = jnp.array([-1.0, -3.0], jnp.bfloat16), jnp.array([-1.0078125, -200.0], jnp.bfloat16)
  result = estimator(*args)
  assert result.dtype == jnp.float32
  np.testing.assert_array_equal(result, estimator(*(x.astype(jnp.float32) for x in args)))


@ALL
def test_shapes_must_agree(estimator):
  with pytest.raises(AssertionError):
    estimator(jnp.ones((2, 3)), jnp.ones((2, 1)))


NEW = np.float32([-1.0, -0.2, -3.0, -2.0])
REF = np.float32([-1.5, -0.1, -1.0, -2.0])


@jax.jit
def more_estimators(new, ref, old):
  rho = lambda new: ratios.ratio(new, jax.lax.stop_gradient(old))
  losses = {
      'abs': regularizers.kl_abs,
      'straight_through': regularizers.kl_straight_through,
      'k1_straight_through': regularizers.kl_k1_straight_through,
      'k1': regularizers.kl_k1,
      'corrected': lambda new, ref: regularizers.kl_k3_corrected(new, ref, rho(new)),
      'k2': regularizers.kl_k2,
      'k3': regularizers.kl_k3,
  }
  return {name: (loss(new, ref), gradient(loss, new, ref)) for name, loss in losses.items()}


def test_straight_through_has_the_value_of_k3_and_the_gradient_of_k2():
  results = more_estimators(NEW, REF, NEW)
  np.testing.assert_allclose(results['straight_through'][0], results['k3'][0], rtol=1e-6)
  np.testing.assert_allclose(results['straight_through'][1], results['k2'][1], rtol=1e-6)
  assert not np.allclose(results['k3'][1], results['k2'][1])


def test_k1_straight_through_has_the_value_of_k1_and_the_gradient_of_the_divergence():
  results = more_estimators(NEW, REF, NEW)
  np.testing.assert_allclose(results['k1_straight_through'][0], results['k1'][0], rtol=1e-6)
  np.testing.assert_allclose(results['k1_straight_through'][1], results['k2'][1], rtol=1e-6)
  value, slope = jax.value_and_grad(expected, 1)(regularizers.kl_k1_straight_through, LOGITS)
  np.testing.assert_allclose(value, exact_kl(LOGITS), rtol=1e-5)
  np.testing.assert_allclose(slope, jax.grad(exact_kl)(LOGITS), rtol=1e-4, atol=1e-6)


def test_of_the_samplers_tokens_it_is_the_divergence_of_the_sampler():
  """In expectation over the sampler: KL(sampler || policy), by k1 and k3; the other way round it is none."""
  sampler, policy = (np.asarray(jax.nn.log_softmax(x)) for x in (jnp.array([1.0, 0.0, -1.0, 0.3]), LOGITS))
  under_sampler = lambda x: np.sum(np.exp(sampler) * np.asarray(x))
  exact = np.sum(np.exp(sampler) * (sampler - policy))
  for estimator in (regularizers.kl_k1, regularizers.kl_k3):
    np.testing.assert_allclose(under_sampler(estimator(sampler, policy)), exact, rtol=1e-5)
  wrong = under_sampler(regularizers.kl_k3(policy, sampler))
  back = np.sum(np.exp(policy) * (policy - sampler))
  assert abs(wrong - exact) > 0.05 and abs(wrong - back) > 0.05
  corrected = regularizers.kl_k3_corrected(policy, REFERENCE, np.exp(policy - sampler))
  np.testing.assert_allclose(under_sampler(corrected), exact_kl(LOGITS), rtol=1e-5)


def test_the_distance_by_hand():
  value, slope = more_estimators(NEW, REF, NEW)['abs']
  np.testing.assert_allclose(value, [0.5, 0.1, 2.0, 0.0], rtol=1e-5)
  np.testing.assert_array_equal(slope[:3], [1, -1, -1])


def test_the_corrected_estimator_is_differentiated_through_its_ratio():
  """d(ρ k3) / d log π = ρ (k3 + 1 - ref/π) = ρ log(π/ref): on policy the gradient of k2."""
  old = np.float32([-1.2, -0.4, -2.5, -3.0])
  value, slope = more_estimators(NEW, REF, old)['corrected']
  rho, gap = np.exp(NEW - old), NEW - REF
  np.testing.assert_allclose(value, rho * (np.exp(-gap) - 1 + gap), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(slope, rho * gap, rtol=1e-4, atol=1e-6)
  on_policy = more_estimators(NEW, REF, NEW)
  np.testing.assert_allclose(on_policy['corrected'][1], on_policy['k2'][1], rtol=1e-4, atol=1e-6)


def test_more_estimators_of_extreme_ratios_are_finite_float32():
  far = np.float32([89.0, -91.0, -1.0, -1.0]), np.float32([-1.0, -1.0, 89.0, -91.0])
  half = tuple(x.astype(jnp.bfloat16) for x in far)
  for new, ref in (far, half):
    for value, slope in more_estimators(new, ref, np.roll(new, 2)).values():
      assert value.dtype == jnp.float32
      assert np.isfinite(value).all() and np.isfinite(np.float32(slope)).all()


@jax.jit
def whole_distributions(logits, reference):
  losses = regularizers.kl_exact, regularizers.kl_forward
  return [(loss(logits, reference), gradient(loss, logits, reference)) for loss in losses]


def test_divergences_of_whole_distributions():
  p, q = jax.nn.softmax(LOGITS), jnp.exp(REFERENCE)
  (exact, slope), (forward, other_slope) = whole_distributions(LOGITS[None], REFERENCE[None])
  np.testing.assert_allclose(exact, [np.sum(p * np.log(p / q))], rtol=1e-5)
  np.testing.assert_allclose(slope[0], p * (np.log(p / q) - exact), rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(forward, [np.sum(q * np.log(q / p))], rtol=1e-5)
  np.testing.assert_allclose(other_slope[0], p - q, rtol=1e-4, atol=1e-6)


def test_a_token_that_is_never_said_counts_nothing():
  """In both distributions, or only in the one that the mean is taken over."""
  keep = np.array([[True, False, True, True]])
  logits, reference = LOGITS[None], REFERENCE[None]
  masked = lambda x: jnp.where(keep, x, -jnp.inf)
  (exact, slope), (forward, other_slope) = whole_distributions(masked(logits), masked(reference))
  three = whole_distributions(logits[:, keep[0]], reference[:, keep[0]])
  np.testing.assert_allclose([exact, forward], [three[0][0], three[1][0]], rtol=1e-5)
  np.testing.assert_allclose(slope[:, keep[0]], three[0][1], rtol=1e-4, atol=1e-6)
  assert np.isfinite(slope).all() and np.isfinite(other_slope).all()
  (exact, slope), (forward, _) = whole_distributions(masked(logits), reference)
  assert np.isfinite(exact) and np.isfinite(slope).all()
  assert forward == np.inf


def test_the_convex_divergence_by_hand():
  kl = regularizers.kl_convex(np.float32([1.0, 4.0]), np.float32([3.0, 0.0]), base_share=0.75)
  np.testing.assert_allclose(kl, [1.5, 3.0])


def test_a_divergence_as_a_reward_is_a_constant_where_it_counts():
  mask = np.array([True, True, False, True])
  loss = lambda new: regularizers.kl_reward(regularizers.kl_k1(new, REF), mask, kl_coef=0.1)
  np.testing.assert_allclose(loss(NEW), [-0.05, 0.01, 0.0, 0.0], rtol=1e-5, atol=1e-8)
  np.testing.assert_array_equal(gradient(loss, NEW), 0)


def test_the_adaptive_coefficient_follows_its_target():
  """By at most 20 % of the rate an update, up above the target and down below."""
  coef = regularizers.init_kl_coef(kl_coef=0.2)
  update = jax.jit(lambda coef, kl: regularizers.update_kl_coef(coef, kl, target=6.0, rate=0.1))
  for kl, factor in ((6.0, 1.0), (6.6, 1.01), (5.4, 0.99), (60.0, 1.02), (0.0, 0.98)):
    np.testing.assert_allclose(update(coef, np.float32(kl)), 0.2 * factor, rtol=1e-6)
  assert update(coef, np.float32(1)).dtype == coef.dtype == jnp.float32
