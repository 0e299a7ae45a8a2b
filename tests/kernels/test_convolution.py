"""Gradients by patches are XLA's, and are what a program for a CPU has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.kernels import switch
from rlx.kernels.convolution import convolution


@pytest.mark.parametrize(('size', 'stride', 'shape'), [
    (3, 1, (6, 5, 2)), (4, 2, (9, 8, 3)), (2, 3, (7, 9, 1)), (1, 1, (2, 3, 4)), (5, 2, (5, 6, 2)),
])
def test_patches_have_the_values_and_slopes_of_xla(size, stride, shape):
  x = jax.random.normal(jax.random.key(0), (3, *shape))
  kernel = jax.random.normal(jax.random.key(1), (size, size, shape[-1], 4))

  def of(implementation):
    f = lambda x, kernel: convolution(x, kernel, stride=stride, implementation=implementation)
    weighted = lambda *args: jnp.sum(jnp.sin(f(*args)))
    return f(x, kernel), *jax.grad(weighted, argnums=(0, 1))(x, kernel)

  for found, expected in zip(of('patches'), of('xla'), strict=True):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(('platform', 'name'), [('cpu', 'patches'), ('gpu', 'xla'), ('tpu', 'xla')])
def test_each_device_has_the_one_that_is_made_for_it(monkeypatch, platform, name):
  monkeypatch.setattr(switch, 'device', lambda: switch.Device(platform, 'here', ()))
  x, kernel = jnp.zeros((2, 5, 5, 3)), jnp.zeros((3, 3, 3, 4))

  def program(implementation):
    f = lambda x, kernel: convolution(x, kernel, stride=1, implementation=implementation).sum()
    return str(jax.make_jaxpr(jax.grad(f, argnums=1))(x, kernel))

  assert program('auto') == program(name) and program('xla') != program('patches')


def test_no_other_one_is_taken_for_a_name_that_is_none():
  with pytest.raises(ValueError, match='im2col'):
    convolution(jnp.zeros((1, 3, 3, 1)), jnp.zeros((2, 2, 1, 1)), stride=1, implementation='im2col')
