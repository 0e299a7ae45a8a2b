"""MOPO: batches that are real in part and dreamt for the rest, and paid less where the model is unsure."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.control.mopo import mopo
from rlx.envs.control import pendulum
from rlx.models import dynamics
from rlx.models.networks import Policy
from rlx.rollout.control.dreams import penalised_dreams

RIGHT = Policy(
    init=None, mode=None, score=None,
    sample=lambda params, seen, key: (jnp.full((seen.shape[0], 1), params), jnp.zeros(seen.shape[0])),
)
DATA = {
    'observations': jnp.array([[0.0], [10.0]]), 'actions': jnp.full((2, 1), -1.0),
    'rewards': jnp.array([7.0, 7.0]), 'next_observations': jnp.array([[-1.0], [9.0]]),
    'terminated': jnp.zeros(2, bool), 'truncated': jnp.zeros(2, bool), 'returns_to_go': jnp.zeros(2),
}


def counting():
  """s' = s + a, r = s, σ = (s / 10, 0) up to what vanishes, and the end where s' is 12."""

  def apply(params, seen, actions):
    del params
    mean = jnp.concatenate([actions, seen], axis=1)[None]
    log_std = jnp.concatenate([jnp.log(seen / 1e6 + 1e-9), jnp.full(seen.shape, -30.0)], axis=1)[None]
    return mean, log_std, jnp.where(seen[:, 0] + actions[:, 0] > 11.5, 9.0, -9.0)[None]

  return dynamics.Dynamics(init=None, apply=apply, num=1)


def test_dreams_branch_off_from_data_and_go_on_from_there():
  rollout = penalised_dreams(DATA, RIGHT, counting(), horizon=3, penalty=1e4, real_rows=4, dreams=50)
  models = {'policy': jnp.float32(1), 'dynamics': {}}
  batch, world = rollout(models, {'data': rollout.data}, jax.random.key(0))
  assert world == {} and batch['rewards'].shape == (4 + 150,)
  assert 'returns_to_go' not in batch, 'a dream has none'
  batch = jax.tree.map(np.asarray, batch)
  real, dreamt = jax.tree.map(lambda x: x[:4], batch), jax.tree.map(lambda x: x[4:], batch)
  np.testing.assert_array_equal(real['rewards'], 7)
  np.testing.assert_array_equal(real['actions'], -1)
  seen = dreamt['observations'][:, 0]
  assert set(np.round(seen)) == {0, 1, 2, 10, 11}, 'at 12 a dream is over'
  np.testing.assert_allclose(dreamt['next_observations'][:, 0], seen + 1, atol=1e-3)
  np.testing.assert_array_equal(dreamt['terminated'], np.round(seen) == 11)
  np.testing.assert_allclose(dreamt['dream/penalty'], seen / 100, atol=1e-3)
  np.testing.assert_allclose(dreamt['rewards'], seen - seen / 100, atol=1e-3)


@pytest.mark.slow
def test_without_a_penalty_rewards_are_those_of_the_model():
  rollout = penalised_dreams(DATA, RIGHT, counting(), horizon=2, penalty=0.0, real_rows=1, dreams=20)
  batch, _ = rollout({'policy': jnp.float32(1), 'dynamics': {}}, {'data': DATA}, jax.random.key(0))
  np.testing.assert_allclose(batch['rewards'][1:], batch['observations'][1:, 0], atol=1e-3)


@pytest.mark.slow
def test_the_first_stage_is_the_likelihood_of_the_data():
  model = dynamics.ensemble(pendulum.pendulum(max_steps=9), num=2, hidden=(8,), activation='tanh')
  params = model.init(jax.random.key(0))
  seen = jax.random.normal(jax.random.key(1), (4, 3))
  batch = {
      'observations': seen, 'actions': seen[:, :1], 'rewards': seen[:, 0], 'next_observations': seen + 1,
      'terminated': jnp.zeros(4, bool),
  }
  loss, metrics = mopo(None, model).loss({'dynamics': params}, batch, None)
  np.testing.assert_allclose(loss, dynamics.forward_loss(model, params, batch).mean())
  assert metrics['loss/dynamics'] == loss and math.isfinite(loss)


@pytest.mark.parametrize('bad', [{'horizon': 0}, {'penalty': -1.0}])
def test_bad_numbers_are_refused(bad):
  numbers = {'horizon': 2, 'penalty': 1.0, 'real_rows': 1, 'dreams': 1, **bad}
  with pytest.raises(ValueError, match=next(iter(bad))):
    penalised_dreams(DATA, RIGHT, counting(), **numbers)
