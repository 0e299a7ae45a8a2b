"""Fitted Q evaluation where values are known, and the gate that is made of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.data import transitions as datasets
from rlx.envs.control import probes
from rlx.evaluation import ope
from rlx.models import networks

NUMBERS = dict(discount=0.5, num_updates=1000, batch_size=64, learning_rate=3e-3, target_rate=0.1)


def evaluated(probe, *actions):
  """[len(actions), members] values of constant actions, judged from random ones."""
  env = probe(discrete=False)
  act = datasets.random_actions(env)
  rows = datasets.roll_out(env, act, jax.random.key(0), num_envs=16, num_steps=32)
  critic = networks.critics(env, num=3, hidden=(16,), activation='tanh', layer_norm=False)

  def value(action):
    same = lambda observations, key: jnp.full((observations.shape[0], 1), action)
    return ope.fitted_q(rows, same, critic, jax.random.key(1), **NUMBERS)

  return jax.jit(jax.vmap(value))(jnp.array(actions))


@pytest.mark.slow
def test_values_are_those_of_the_probes():
  """`later` pays 1 after two steps, whatever is done; `better` 1 - (a - 1/2)² at once."""
  np.testing.assert_allclose(evaluated(probes.later, 0.0), 0.5, atol=0.1)
  np.testing.assert_allclose(
      evaluated(probes.better, 0.5, -0.5), np.broadcast_to([[1.0], [0.0]], (2, 3)), atol=0.15
  )


@pytest.mark.parametrize(
    ('gains', 'pessimism', 'accepted'),
    [([1.0, 1.0], 1.0, True), ([-1.0, 3.0], 0.4, True), ([-1.0, 3.0], 0.6, False), ([-1.0, 0.5], 0.0, False)],
)
def test_the_gate_asks_for_gains_beyond_doubt(gains, pessimism, accepted):
  """Mean 1 and standard deviation 2 in the middle rows: 1 - 0.4 · 2 > 0 > 1 - 0.6 · 2."""
  old = jnp.array([5.0, 7.0])
  assert ope.accepts(old + jnp.array(gains), old, pessimism=pessimism) == accepted
