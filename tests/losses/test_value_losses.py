"""Values and gradients of the critic's losses by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.losses import value

clipped = functools.partial(value.clipped_squared_error, clip=0.2)


def gradient(loss, *args, argnum=0):
  return jax.grad(lambda *a: loss(*a).sum(), argnum)(*args)


def test_squared_error_by_hand():
  values, returns = jnp.array([[1.0, -2.0]]), jnp.array([[4.0, -2.5]])
  np.testing.assert_allclose(value.squared_error(values, returns), [[4.5, 0.125]])
  np.testing.assert_allclose(gradient(value.squared_error, values, returns), [[-3.0, 0.5]])


@pytest.mark.parametrize(
    ('new', 'old', 'target', 'loss', 'slope'),
    [
        (0.1, 0.0, 1.0, 0.9**2 / 2, -0.9),  # within the bound: the squared error
        (0.5, 0.0, 1.0, 0.8**2 / 2, 0.0),  # moved far towards the target: held at 0.2
        (-0.5, 0.0, 1.0, 1.5**2 / 2, -1.5),  # moved far away from it: pulled back
        (-0.5, 0.0, -1.0, 0.8**2 / 2, 0.0),  # the mirror image of the second
        (3.0, 0.0, 1.0, 2.0**2 / 2, 2.0),  # shot over it: pulled back
    ],
)
def test_clipped_squared_error_by_hand(new, old, target, loss, slope):
  args = jnp.array([new]), jnp.array([old]), jnp.array([target])
  np.testing.assert_allclose(clipped(*args), [loss], rtol=1e-6)
  np.testing.assert_allclose(gradient(clipped, *args), [slope], rtol=1e-6)


def test_at_the_old_values_and_with_a_wide_bound_it_is_the_squared_error():
  values, old, returns = (jax.random.normal(jax.random.key(i), (50,)) for i in range(3))
  wide = functools.partial(value.clipped_squared_error, clip=1e3)
  for loss, args in ((clipped, (values, values, returns)), (wide, (values, old, returns))):
    np.testing.assert_allclose(loss(*args), value.squared_error(values, returns), rtol=1e-6)
    np.testing.assert_allclose(gradient(loss, *args), values - returns, rtol=1e-6)


def test_it_is_never_below_the_squared_error():
  values, old, returns = (jax.random.normal(jax.random.key(i), (200,)) for i in range(3))
  loss, plain = clipped(values, old, returns), value.squared_error(values, returns)
  assert (loss >= plain).all() and (loss > plain).any()


@pytest.mark.parametrize('argnum', [1, 2], ids=['old_values', 'returns'])
def test_constants_have_no_gradient(argnum):
  args = jnp.array([0.5, 3.0, -1.0]), jnp.zeros(3), jnp.ones(3)
  np.testing.assert_array_equal(gradient(clipped, *args, argnum=argnum), 0)


def test_returns_of_the_squared_error_are_constants():
  np.testing.assert_array_equal(gradient(value.squared_error, jnp.ones(3), jnp.zeros(3), argnum=1), 0)


def test_float32_from_bfloat16():
  values, old, returns = (jnp.array([x], jnp.bfloat16) for x in (1.0, 1.0, 257.0))
  for loss in (value.squared_error(values, returns), clipped(values, old, returns)):
    assert loss.dtype == jnp.float32
    np.testing.assert_allclose(loss, (np.float32(returns.astype(jnp.float32)) - 1) ** 2 / 2)


def test_shapes_must_agree():
  with pytest.raises(AssertionError):
    value.squared_error(jnp.ones((2, 3)), jnp.ones((2, 1)))
  with pytest.raises(AssertionError):
    clipped(jnp.ones(3), jnp.ones(1), jnp.ones(3))


def test_lowest_and_highest_have_the_gradient_of_one_entry():
  values = jnp.array([[3.0, -1.0, 2.0], [3.0, 5.0, 0.0]])
  np.testing.assert_array_equal(value.lowest(values, 0), values.min(axis=0))
  np.testing.assert_array_equal(value.highest(values, 1), values.max(axis=1))
  slopes = jax.grad(lambda values: value.lowest(values, 0).sum())(values)
  np.testing.assert_array_equal(slopes, [[1, 1, 0], [0, 0, 1]])
  slopes = jax.grad(lambda values: value.highest(values, 1).sum())(values)
  np.testing.assert_array_equal(slopes, [[1, 0, 0], [0, 1, 0]])
