"""The three estimators of a KL divergence: values, gradients, and what they are on average."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.losses import regularizers

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
