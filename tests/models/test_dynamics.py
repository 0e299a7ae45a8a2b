"""Models of the world: their losses by hand, what they draw, and that they learn a world they can."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.envs.control import cartpole, pendulum
from rlx.models import dynamics

PENDULUM, CARTPOLE = pendulum.pendulum(max_steps=20), cartpole.cartpole(max_steps=20)
SHAPE = dict(hidden=(16,), activation='tanh')


def says(mean, log_std, end):
  """A model whose members [N, O + 1] say the same everywhere; its parameters are ignored."""
  mean, log_std, end = (jnp.array(x, jnp.float32) for x in (mean, log_std, end))

  def apply(params, observations, actions):
    del params, actions
    wide = lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], observations.shape[0], *x.shape[1:]))
    return wide(mean), wide(log_std), wide(end)

  return dynamics.Dynamics(init=lambda key: {}, apply=apply, num=mean.shape[0])


def batch(terminated=False):
  return {
      'observations': jnp.array([[1.0]]), 'actions': jnp.zeros((1, 1)), 'rewards': jnp.array([5.0]),
      'next_observations': jnp.array([[3.0]]), 'terminated': jnp.array([terminated]),
  }


def test_the_forward_loss_by_hand():
  """One member is right with σ = 1; the other is 1 off in both numbers with σ = 1/2."""
  model = says([[2, 5], [1, 4]], [[0, 0], [math.log(0.5)] * 2], [0, 0])
  gaussians = [0, 2 * (0.5 * 4 + math.log(0.5))]
  expected = np.mean(gaussians) + 2 * 0.5 * math.log(2 * math.pi) + math.log(2)
  np.testing.assert_allclose(dynamics.forward_loss(model, {}, batch()), [expected], rtol=1e-5)
  sure = says([[2, 5]], [[0, 0]], [3])
  ends, goes_on = (dynamics.forward_loss(sure, {}, batch(x))[0] for x in (True, False))
  np.testing.assert_allclose(goes_on - ends, 3, rtol=1e-5, err_msg='log odds of the end')


def test_a_reward_is_missed_by_the_mean_of_each_member_however_sure_it_is():
  model = says([[2, 5], [1, 3]], [[0, -4], [0, 0.5]], [0, 0])
  np.testing.assert_allclose(dynamics.reward_error(model, {}, batch()), [(0 + 4) / 2])


@pytest.mark.slow
def test_a_step_is_one_members_and_the_end_is_what_they_hold_on_average():
  model = says([[1, 10], [3, 30]], [[-20, 5], [-20, 5]], [4, -1])
  seen = jnp.zeros((400, 1))
  new, rewards, ended = dynamics.step(model, {}, seen, jnp.zeros((400, 1)), jax.random.key(0))
  np.testing.assert_allclose(10 * new[:, 0], rewards, atol=1e-3)
  np.testing.assert_allclose(np.mean(np.asarray(rewards) == 10), 0.5, atol=0.1)
  assert ended.all(), 'σ(4) and σ(-1) are 0.62 on average'
  noisy = says([[0, 0]], [[0, 0]], [-1])
  new, rewards, ended = dynamics.step(noisy, {}, seen, jnp.zeros((400, 1)), jax.random.key(1))
  assert 0.85 < new.std() < 1.15 and not ended.any() and not rewards.any()


def test_how_unsure_a_model_is_by_hand():
  model = says([[0, 0], [6, 8]], [[0, 0], [math.log(3), math.log(4)]], [0, 0])
  seen, actions = jnp.zeros((2, 1)), jnp.zeros((2, 1))
  np.testing.assert_allclose(dynamics.disagreement(model, {}, seen, actions), [5, 5], rtol=1e-5)
  np.testing.assert_allclose(dynamics.largest_deviation(model, {}, seen, actions), [5, 5], rtol=1e-5)


@pytest.mark.parametrize(
    'env', [pytest.param(PENDULUM, marks=pytest.mark.slow), CARTPOLE], ids=['continuous', 'discrete']
)
def test_shapes_for_both_kinds_of_actions(env):
  (size,), num = env.observation_shape, 3
  model, back = dynamics.ensemble(env, num=num, **SHAPE), dynamics.inverse(env, **SHAPE)
  seen = jnp.ones((5, size))
  actions = jax.vmap(env.actions.sample)(jax.random.split(jax.random.key(0), 5))
  params = model.init(jax.random.key(1))
  mean, log_std, end = model.apply(params, seen, actions)
  assert mean.shape == log_std.shape == (num, 5, size + 1) and end.shape == (num, 5)
  assert (dynamics.disagreement(model, params, seen, actions) > 0).all(), 'members begin apart'
  rows = {'observations': seen, 'next_observations': 2 * seen, 'actions': actions}
  guess = dynamics.inferred_actions(env, back, back.init(jax.random.key(2)), rows)
  assert guess.shape == actions.shape and guess.dtype == actions.dtype


def test_the_inverse_loss_by_hand():
  fixed = dynamics.Network(init=None, apply=lambda params, seen, new: params)
  rows = {'observations': None, 'next_observations': None, 'actions': jnp.array([[1.0]])}
  loss = dynamics.inverse_loss(PENDULUM, fixed, jnp.array([[0.25]]), rows)
  np.testing.assert_allclose(loss, [0.75**2])
  rows['actions'] = jnp.array([1])
  loss = dynamics.inverse_loss(CARTPOLE, fixed, jnp.array([[0.0, math.log(3)]]), rows)
  np.testing.assert_allclose(loss, [-math.log(3 / 4)], rtol=1e-6)


@pytest.mark.slow
def test_a_model_learns_a_linear_world():
  """s' = s + a / 2, r = s: after some hundred steps the mean is nearly right, and the deviation is small."""
  env = PENDULUM
  model = dynamics.ensemble(env, num=2, **SHAPE)
  seen_key, action_key = jax.random.split(jax.random.key(0))
  seen = jax.random.normal(seen_key, (256, 3))
  actions = jax.random.uniform(action_key, (256, 1), minval=-1)
  rows = {
      'observations': seen, 'actions': actions, 'next_observations': seen + actions / 2,
      'rewards': seen[:, 0], 'terminated': seen[:, 0] > 0,
  }
  adam = optax.adam(1e-2)

  def update(carry, _):
    params, state = carry
    grads = jax.grad(lambda params: dynamics.forward_loss(model, params, rows).mean())(params)
    updates, state = adam.update(grads, state)
    return (optax.apply_updates(params, updates), state), None

  params = model.init(jax.random.key(1))
  (params, _), _ = jax.jit(lambda carry: jax.lax.scan(update, carry, length=400))((params, adam.init(params)))
  mean, log_std, end = model.apply(params, seen, actions)
  wanted = jnp.concatenate([rows['next_observations'] - seen, rows['rewards'][:, None]], axis=1)
  assert jnp.abs(mean - wanted[None]).mean() < 0.1 and jnp.exp(log_std).mean() < 0.2
  assert ((end > 0) == rows['terminated'][None]).mean() > 0.95


def test_no_member_is_refused():
  with pytest.raises(ValueError, match='num=0'):
    dynamics.ensemble(PENDULUM, num=0, **SHAPE)
