"""Mixtures of experts: value and gradient against a loop in which every token goes through every expert."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.models import experts
from tests.cases import cases

ROWS, WIDTH, EXPERTS = 7, 5, 4
close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)


def inputs(seed=0, batch=()):
  """Rows, logits and a matrix for each expert; the last expert is never taken."""
  rng = np.random.default_rng(seed)
  rows, logits = rng.normal(size=(*batch, ROWS, WIDTH)), rng.normal(size=(*batch, ROWS, EXPERTS))
  logits[..., -1] = -9
  matrices = rng.normal(size=(*batch, EXPERTS, WIDTH, WIDTH))
  return tuple(jnp.array(x, jnp.float32) for x in (rows, logits, matrices))


def mixture(rows, logits, matrices, *, normalise, taken=2):
  feed_forward = lambda rows, sizes, matrices: jnp.tanh(experts.grouped_matmul(rows, matrices[0], sizes))
  return experts.mixture(
      rows, logits, feed_forward, [matrices], hidden_axes=[2], experts_per_token=taken, normalise=normalise
  )


def plain(rows, logits, matrices, *, normalise, taken=2):
  shares = jax.nn.softmax(logits)
  counts = shares >= jnp.sort(shares, axis=-1)[:, -taken, None]
  weights = jnp.where(counts, shares, 0)
  if normalise:
    weights /= weights.sum(-1, keepdims=True)
  return sum(weights[:, e, None] * jnp.tanh(rows @ matrices[e]) for e in range(EXPERTS))


@pytest.mark.parametrize(('normalise', 'taken'), cases(
    itertools.product([False, True], [1, 2, EXPERTS]), at_once=[(False, 1), (True, 2)]
))
def test_value_and_gradients_against_a_loop(normalise, taken):
  target = jnp.array(np.random.default_rng(1).normal(size=(ROWS, WIDTH)), jnp.float32)

  def evaluate(function):
    f = functools.partial(function, normalise=normalise, taken=taken)
    loss = lambda *arguments: jnp.sum(target * f(*arguments))
    return jax.jit(f)(*inputs()), *jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*inputs())

  jax.tree.map(close, evaluate(mixture), evaluate(plain))


@pytest.mark.parametrize('axes', [(0, 0, 0), (0, 0, None), (None, None, 0), (0, None, None)])
@pytest.mark.slow
def test_vmap_over_any_of_the_arguments(axes):
  """A population has its own matrices; per-token gradients share them."""
  arguments = [x if axis == 0 else x[0] for x, axis in zip(inputs(batch=(3,)), axes, strict=True)]
  f = functools.partial(mixture, normalise=True)
  gradient = jax.grad(lambda *arguments: jnp.sum(f(*arguments) ** 2), argnums=(0, 1, 2))
  result = jax.jit(jax.vmap(lambda *x: (f(*x), gradient(*x)), axes))(*arguments)
  for i in range(3):
    one = [x[i] if axis == 0 else x for x, axis in zip(arguments, axes, strict=True)]
    expected = f(*one), gradient(*one)
    jax.tree.map(lambda a, b, i=i: close(a[i], b), result, expected)


def test_grouped_matmul_by_hand():
  rows, matrices = jnp.array([[1.0], [2.0], [3.0]]), jnp.array([[[10.0]], [[20.0]], [[30.0]]])
  product = experts.grouped_matmul(rows, matrices, jnp.array([2, 0, 1]))
  np.testing.assert_array_equal(product, [[10], [20], [90]])


def test_permute_is_undone_by_its_inverse():
  order = jnp.array([2, 0, 1])
  rows = jnp.arange(6.0).reshape(3, 2)
  moved = experts.permute(rows, order, jnp.argsort(order))
  np.testing.assert_array_equal(moved, [[4, 5], [0, 1], [2, 3]])
  np.testing.assert_array_equal(experts.permute(moved, jnp.argsort(order), order), rows)
