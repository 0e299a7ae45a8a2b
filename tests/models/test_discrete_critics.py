"""Critics of discrete actions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.control import probes
from rlx.models import critics as of_returns
from rlx.models import networks

ENV = probes.seen(discrete=True)
ATOMS = dict(num_atoms=3, low=0.0, high=1.0)


def test_critics_of_discrete_actions_are_action_values_of_several_members():
  shape = dict(hidden=(8,), activation='tanh')
  critics = networks.discrete_critics(ENV, num=3, **shape)
  values = networks.action_values(ENV, layer_norm=False, **shape)
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


@pytest.mark.parametrize('make', [
    networks.action_values,
    networks.dueling,
    functools.partial(networks.outputs_of, num=2),
    functools.partial(of_returns.greedy_on_atoms, epsilon=0.1, **ATOMS),
    functools.partial(of_returns.greedy_on_quantiles, epsilon=0.1, num_quantiles=3),
])
def test_with_layer_norm_the_scale_of_hidden_weights_says_nothing(make):
  seen = jax.random.normal(jax.random.key(1), (5, *ENV.observation_shape))
  for layer_norm in (True, False):
    network = make(ENV, hidden=(8, 8), activation='relu', layer_norm=layer_norm)
    say = network.outputs if isinstance(network, networks.GreedyPolicy) else network.apply
    params = network.init(jax.random.key(0))
    *hidden, last = params['layers']
    louder = {'layers': [*({**layer, 'kernel': 3 * layer['kernel']} for layer in hidden), last]}
    assert np.allclose(say(louder, seen), say(params, seen), atol=1e-4) == layer_norm
