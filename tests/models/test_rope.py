"""Rotary positions: the frequencies of every scaling against the formulas, and what a rotation keeps."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.models import rope


def oracle(size, theta, kind, factor, context, slow, fast, truncate):
  """One entry after the other, in float64."""
  frequencies = [theta ** (-2 * j / size) for j in range(size // 2)]
  if kind == 'linear':
    return [f / factor for f in frequencies]
  if kind == 'llama3':
    return [smoothed(f, factor, context / (2 * math.pi / f), slow, fast) for f in frequencies]
  index = lambda turns: size * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(theta))
  first, last = index(fast), index(slow)
  if truncate:
    first, last = math.floor(first), math.ceil(last)
  first, last = max(first, 0), min(last, size - 1)
  ramps = [min(max((j - first) / (last - first), 0), 1) for j in range(size // 2)]
  return [f / factor * ramp + f * (1 - ramp) for f, ramp in zip(frequencies, ramps, strict=True)]


def smoothed(frequency, factor, turns, slow, fast):
  if turns > fast:
    return frequency
  if turns < slow:
    return frequency / factor
  smooth = (turns - slow) / (fast - slow)
  return (1 - smooth) * frequency / factor + smooth * frequency


SCALED = {
    'linear': ('linear', 4.0, 0, 0.0, 0.0, True),
    'llama3': ('llama3', 8.0, 8192, 1.0, 4.0, True),
    'yarn': ('yarn', 4.0, 32768, 1.0, 32.0, True),
    'yarn between indices': ('yarn', 16.0, 4096, 1.0, 32.0, False),
}


@pytest.mark.parametrize('name', SCALED)
def test_scaled_frequencies(name):
  kind, factor, context, slow, fast, truncate = SCALED[name]
  scaling = {
      'scaling': kind, 'factor': factor, 'original_context': context, 'slow_turns': slow, 'fast_turns': fast,
      'truncate': truncate,
  }
  result = rope.frequencies(64, 5e5, **scaling)
  assert result.dtype == np.float32
  np.testing.assert_allclose(result, oracle(64, 5e5, *SCALED[name]), rtol=1e-5)
  plain = rope.frequencies(64, 5e5)
  assert (result <= plain).all() and (result < plain).any()
  assert kind == 'linear' or (result == plain).any()  # what turns fast is kept
  np.testing.assert_allclose(result[-1], plain[-1] / factor, rtol=1e-6)  # what turns slowly is not


def test_plain_frequencies_by_hand():
  np.testing.assert_allclose(rope.frequencies(6, 1000.0), [1, 0.1, 0.01], rtol=1e-6)
  dynamic = rope.frequencies(6, 1000.0, scaling='dynamic', factor=8.0, original_context=12)
  np.testing.assert_array_equal(dynamic, rope.frequencies(6, 1000.0))


def test_yarn_attention_factor_by_hand():
  assert rope.yarn_attention_factor(math.e**2) == pytest.approx(1.2)
  assert rope.yarn_attention_factor(math.e**2, mscale=0.5) == pytest.approx(1.1)
  assert rope.yarn_attention_factor(1.0) == 1


def test_rotations_only_know_distances():
  query, key = jax.random.normal(jax.random.key(0), (2, 1, 1, 1, 8))
  frequencies = jnp.asarray(rope.frequencies(8, 50.0))
  turn = lambda x, position: rope.rotate(x, jnp.array([[position]]), frequencies, jnp.float32(1))
  product = lambda t, s: float(jnp.sum(turn(query, t) * turn(key, s)))
  assert product(7, 4) == pytest.approx(product(103, 100), rel=1e-4)
  assert product(7, 4) != pytest.approx(product(7, 5), rel=1e-2)
  np.testing.assert_array_equal(turn(query, 0), query)
  twice = rope.rotate(query, jnp.array([[7]]), frequencies, jnp.float32(2))
  np.testing.assert_allclose(twice, 2 * turn(query, 7), rtol=1e-6)
