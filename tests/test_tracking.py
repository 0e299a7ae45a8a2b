"""How lagging models follow trained ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import tracking

SLOW = {'target': {'w': jnp.array([1.0, 2.0])}, 'reference': {'w': jnp.array([5.0, 6.0])}}
PARAMS = {'critic': {'w': jnp.array([3.0, -2.0])}, 'policy': {'w': jnp.array([0.0, 9.0])}}


@pytest.mark.parametrize(('rate', 'expected'), [(0.25, [1.5, 1.0]), (0.0, [1.0, 2.0]), (1.0, [3.0, -2.0])])
def test_polyak_by_hand(rate, expected):
  slow = tracking.polyak({'target': 'critic'}, rate=rate)(SLOW, PARAMS, jnp.int32(0))
  np.testing.assert_allclose(slow['target']['w'], expected, rtol=1e-6)
  np.testing.assert_array_equal(slow['reference']['w'], SLOW['reference']['w'])
  assert slow.keys() == SLOW.keys()


def test_polyak_forgets_geometrically():
  """After n updates towards a constant the distance is (1 - rate)^n of what it was."""
  track = tracking.polyak({'target': 'critic'}, rate=0.1)
  slow = jax.lax.fori_loop(0, 7, lambda i, slow: track(slow, PARAMS, i), SLOW)
  before, after = (s['target']['w'] - PARAMS['critic']['w'] for s in (SLOW, slow))
  np.testing.assert_allclose(after, 0.9**7 * before, rtol=1e-5)


def test_periodic_copies_after_every_nth_update_and_waits_between():
  track = jax.jit(tracking.periodic({'reference': 'policy'}, period=3))
  slow, copied = SLOW, []
  for update in range(7):
    params = {**PARAMS, 'policy': {'w': jnp.full(2, 10.0 + update)}}
    slow = track(slow, params, jnp.int32(update))
    copied.append(float(slow['reference']['w'][0]))
  assert copied == [5, 5, 12, 12, 12, 15, 15]
  np.testing.assert_array_equal(slow['target']['w'], SLOW['target']['w'])


def test_a_period_of_one_copies_always():
  slow = tracking.periodic({'target': 'critic', 'reference': 'policy'}, period=1)(SLOW, PARAMS, jnp.int32(4))
  np.testing.assert_array_equal(slow['target']['w'], PARAMS['critic']['w'])
  np.testing.assert_array_equal(slow['reference']['w'], PARAMS['policy']['w'])


@pytest.mark.parametrize(
    'track',
    [tracking.polyak({'target': 'critic'}, rate=0.25), tracking.periodic({'target': 'critic'}, period=2)],
    ids=['polyak', 'periodic'],
)
def test_structure_and_dtype_stay(track):
  slow, params = jax.tree.map(lambda x: x.astype(jnp.bfloat16), (SLOW, PARAMS))
  shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
  assert shapes(track(slow, params, jnp.int32(1))) == shapes(slow)
