"""Critics of discrete actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.control import probes
from rlx.models import networks

ENV = probes.seen(discrete=True)


def test_critics_of_discrete_actions_are_action_values_of_several_members():
  shape = dict(hidden=(8,), activation='tanh')
  critics, values = networks.discrete_critics(ENV, num=3, **shape), networks.action_values(ENV, **shape)
  params = critics.init(jax.random.key(0))
  seen = jax.random.normal(jax.random.key(1), (5, 1))
  actions = jnp.array([0, 1, 1, 0, 0])
  found = critics.apply(params, seen, actions)
  members = jax.vmap(values.apply, (0, None))(params, seen)
  np.testing.assert_allclose(found, members[:, jnp.arange(5), actions], rtol=1e-6)
  assert found.shape == (3, 5) and (found.std(axis=0) > 0).all()
  with pytest.raises(ValueError, match='num=0'):
    networks.discrete_critics(ENV, num=0, **shape)


def test_what_is_said_of_actions_is_picked_along_any_axes():
  said = np.arange(24.0).reshape(2, 3, 4)
  numbers = jnp.array([[0, 3, 1], [2, 2, 0]])
  np.testing.assert_array_equal(networks.picked(jnp.asarray(said), numbers), [[0, 7, 9], [14, 18, 20]])
  rows = networks.picked(jnp.asarray(said), jnp.array([2, 0]))  # of 3 actions, 4 numbers each
  np.testing.assert_array_equal(rows, [said[0, 2], said[1, 0]])
