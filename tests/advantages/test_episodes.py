"""Advantages of stretches of time by a value network."""

import jax.numpy as jnp
import numpy as np

from rlx.advantages import episodes, temporal
from rlx.models.networks import Network

SEEN = jnp.arange(6.0).reshape(2, 3, 1)
BATCH = {
    'observations': SEEN, 'next_observations': SEEN + 1, 'rewards': jnp.ones((2, 3)),
    'terminated': jnp.array([[False, True, False], [False, False, False]]),
    'truncated': jnp.array([[False, False, False], [False, False, True]]),
}


def test_values_are_those_of_the_network_and_advantages_are_of_them():
  double = Network(init=None, apply=lambda params, seen: params * seen[..., 0])
  values, advantages = episodes.estimated(double, 2.0, BATCH, discount=0.5, lambda_=0.0)
  np.testing.assert_array_equal(values, 2 * SEEN[..., 0])
  after = np.where(BATCH['terminated'], 0, 2 * (SEEN[..., 0] + 1))  # what was cut off is worth what follows
  np.testing.assert_allclose(advantages, 1 + 0.5 * after - values)
  np.testing.assert_array_equal(
      episodes.estimated(double, 2.0, BATCH, discount=0.9, lambda_=0.7)[1],
      temporal.gae_episodes(
          BATCH['rewards'], values, 2 * (SEEN[..., 0] + 1), BATCH['terminated'], BATCH['truncated'],
          discount=0.9, lambda_=0.7,
      ),
  )


def test_normalised_advantages_have_mean_0_and_deviation_1_whatever_their_units():
  found = episodes.normalised(jnp.array([[1.0, 2.0], [3.0, 6.0]]))
  np.testing.assert_allclose([found.mean(), found.std(ddof=1)], [0, 1], atol=1e-6)
  np.testing.assert_array_equal(episodes.normalised(jnp.full((2, 2), 7.0)), 0)


def test_transitions_keep_their_order():
  rows = episodes.transitions(BATCH)
  assert rows['observations'].shape == (6, 1) and rows['rewards'].shape == (6,)
  np.testing.assert_array_equal(rows['observations'][:, 0], np.arange(6))
