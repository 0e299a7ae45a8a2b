"""Values and gradients of the policy-gradient losses by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.losses import policy

CLIP = {'clip_low': 0.2, 'clip_high': 0.3}
surrogate = functools.partial(policy.clipped_surrogate, **CLIP)


def gradient(loss, *args, argnum=0):
  return jax.grad(lambda *a: loss(*a).sum(), argnum)(*args)


@pytest.mark.parametrize(
    ('rho', 'advantage', 'value', 'slope'),
    [
        (1.0, 2.0, -2.0, -2.0),
        (1.25, 1.0, -1.25, -1.25),  # inside: the upper bound is 1.3, not 1.2
        (1.5, 1.0, -1.3, 0.0),  # good and already likelier: held
        (1.5, -1.0, 1.5, 1.5),  # bad and likelier: pushed back
        (0.5, 1.0, -0.5, -0.5),  # good and less likely: pulled
        (0.5, -1.0, 0.8, 0.0),  # bad and already less likely: held at the lower bound
        (0.5, -3.0, 2.4, 0.0),
        (0.7, 0.0, 0.0, 0.0),
    ],
)
def test_clipped_surrogate_by_hand(rho, advantage, value, slope):
  """slope: d(-ρ A) / d log π = -ρ A where it is not clipped."""
  args = jnp.log(jnp.array([rho])) - 1.5, jnp.array([-1.5]), jnp.array([advantage])
  np.testing.assert_allclose(surrogate(*args), [value], rtol=1e-6)
  np.testing.assert_allclose(gradient(surrogate, *args), [slope], rtol=1e-6)


def test_reinforce_by_hand():
  logprobs, advantages = jnp.array([[-1.0, -2.0]]), jnp.array([[0.5, -3.0]])
  np.testing.assert_allclose(policy.reinforce(logprobs, advantages), [[0.5, -6.0]])
  np.testing.assert_allclose(gradient(policy.reinforce, logprobs, advantages), -advantages)


def test_at_ratio_one_the_surrogate_is_reinforce():
  logprobs, advantages = -jnp.arange(1.0, 7.0), jnp.array([-2.0, -0.5, 0.0, 0.5, 2.0, 1e4])
  np.testing.assert_allclose(surrogate(logprobs, logprobs, advantages), -advantages)
  np.testing.assert_allclose(
      gradient(surrogate, logprobs, logprobs, advantages), gradient(policy.reinforce, logprobs, advantages)
  )


def test_wide_bounds_are_the_importance_weighted_policy_gradient():
  logprobs, old, advantages = jnp.array([-1.0, -3.0]), jnp.array([-2.0, -1.0]), jnp.array([1.0, -2.0])
  loss = functools.partial(policy.clipped_surrogate, clip_low=1.0, clip_high=1e3)
  np.testing.assert_allclose(loss(logprobs, old, advantages), -np.exp([1.0, -2.0]) * advantages, rtol=1e-6)


@pytest.mark.parametrize('log_ratio', [90.0, -90.0, 1e4, -1e4])
@pytest.mark.parametrize('advantage', [1.0, -1.0, 0.0])
def test_extreme_ratios_are_finite(log_ratio, advantage):
  logprobs, old, advantages = jnp.array([log_ratio - 1]), jnp.array([-1.0]), jnp.array([advantage])
  for loss in (surrogate, lambda logprobs, old, _: policy.ratio(logprobs, old)):
    assert np.isfinite(loss(logprobs, old, advantages)).all()
    assert np.isfinite(gradient(loss, logprobs, old, advantages)).all()


def test_ratio_is_exact_inside_its_bounds():
  log_ratios = jnp.array([-19.0, -1.0, 0.0, 1e-3, 19.0])
  np.testing.assert_allclose(policy.ratio(log_ratios - 2, jnp.full(5, -2.0)), np.exp(log_ratios), rtol=1e-5)


@pytest.mark.parametrize('argnum', [1, 2], ids=['old_logprobs', 'advantages'])
def test_constants_have_no_gradient(argnum):
  args = jnp.array([-1.0, -2.0]), jnp.array([-1.1, -1.9]), jnp.array([1.0, -1.0])
  assert (gradient(surrogate, *args) != 0).all()
  np.testing.assert_array_equal(gradient(surrogate, *args, argnum=argnum), 0)


def test_reinforce_takes_advantages_as_constants():
  args = jnp.array([-1.0, -2.0]), jnp.array([1.0, -1.0])
  np.testing.assert_array_equal(gradient(policy.reinforce, *args, argnum=1), 0)


def test_is_clipped_says_where_the_gradient_is_gone():
  log_ratios, signs = jnp.meshgrid(jnp.linspace(-0.6, 0.6, 41), jnp.array([-1.0, 1.0]))
  args = log_ratios - 1, jnp.full(log_ratios.shape, -1.0), signs
  low, high = policy.is_clipped(*args, **CLIP)
  np.testing.assert_array_equal(low + high, gradient(surrogate, *args) == 0)
  assert low.sum() > 0 and high.sum() > 0
  np.testing.assert_array_equal(low * (signs > 0), 0)
  np.testing.assert_array_equal(high * (signs < 0), 0)


def test_half_precision_log_probs_are_subtracted_in_float32():
  half = lambda *x: jnp.array(x, jnp.bfloat16)
  args = half(-1.0, -2.0), half(-1.5, -2.5), half(1.0, -1.0)
  exact = tuple(x.astype(jnp.float32) for x in args)
  for loss, inputs in ((policy.ratio, slice(2)), (surrogate, slice(3)), (policy.reinforce, slice(0, 3, 2))):
    result = loss(*args[inputs])
    assert result.dtype == jnp.float32
    np.testing.assert_array_equal(result, loss(*exact[inputs]))


def test_shapes_must_agree():
  with pytest.raises(AssertionError):
    surrogate(jnp.ones((2, 3)), jnp.ones((2, 3)), jnp.ones((2, 1)))
  with pytest.raises(AssertionError):
    policy.ratio(jnp.ones((2, 3)), jnp.ones((2, 1)))
