"""Formulas of offline algorithms: by hand, and variants that equal their parents at a limit."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.control.bc import bc
from rlx.algorithms.control.cal_ql import cal_ql
from rlx.algorithms.control.cql import cql
from rlx.algorithms.control.edac import action_slopes, alignment, edac
from rlx.algorithms.control.iql import iql
from rlx.algorithms.control.recoil import recoil
from rlx.algorithms.control.sac import sac
from rlx.algorithms.control.td3 import td3
from rlx.algorithms.control.td3_bc import td3_bc
from rlx.envs.control import pointmass
from rlx.losses import value
from rlx.losses.actor_critic import as_they_are, soft_maximum
from rlx.models import networks
from rlx.models.networks import Network

ENV = pointmass.pointmass(
    max_steps=10, friction=0.5, start=(0.0, 0.0), start_radius=0.1, goal=(0.5, 0.5), obstacles=()
)
SHAPE = dict(hidden=(8,), activation='tanh')
GAUSSIAN = networks.gaussian(ENV, initial_log_std=-0.5, **SHAPE)
SQUASHED = networks.squashed_gaussian(ENV, **SHAPE)
FIXED = networks.deterministic(ENV, exploration_noise=0.1, **SHAPE)
VALUE = networks.state_value(ENV, **SHAPE)
CRITIC = networks.critics(ENV, num=3, layer_norm=False, **SHAPE)
TEMPERATURE = networks.positive(initial=0.2)
TARGETS = dict(discount=0.9, target_rate=0.1)
SOFT = dict(target_entropy=-1.0, **TARGETS)
SMOOTHED = dict(smoothing_noise=0.2, noise_clip=0.5, target_period=2, **TARGETS)
PUSHED = dict(conservatism=2.0, num_actions=3)
PARENT = sac(None, ENV, SQUASHED, CRITIC, TEMPERATURE, **SOFT)
KEY = jax.random.key(3)


def batch(num=6):
  keys = jax.random.split(jax.random.key(0), 5)
  return {
      'observations': jax.random.normal(keys[0], (num, 4)),
      'next_observations': jax.random.normal(keys[1], (num, 4)),
      'actions': jax.random.uniform(keys[2], (num, 2), minval=-1, maxval=1),
      'rewards': jax.random.normal(keys[3], (num,)),
      'returns_to_go': jax.random.normal(keys[4], (num,)),
      'terminated': jnp.arange(num) % 3 == 0,
      'truncated': jnp.zeros(num, bool),
      'preferred': jnp.arange(num) % 2 == 0,
  }


def models(policy):
  keys = jax.random.split(jax.random.key(1), 4)
  return {
      'policy': policy.init(keys[0]), 'target_policy': policy.init(keys[0]), 'value': VALUE.init(keys[1]),
      'critic': CRITIC.init(keys[2]), 'target': CRITIC.init(keys[3]), 'temperature': TEMPERATURE.init(KEY),
  }


def gradients(algorithm, policy, rows=None, key=KEY):
  rows = algorithm.advantage(models(policy), batch() if rows is None else rows, key)
  return jax.jit(jax.grad(lambda m: algorithm.loss(m, rows, key)[0]))(models(policy))


def assert_same(a, b, rtol=1e-5):
  jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-6), a, b)


# --- losses -------------------------------------------------------------------------------------------------


def test_expectiles_by_hand():
  errors = jnp.array([2.0, -2.0])
  np.testing.assert_allclose(value.expectile_error(errors, expectile=0.9), [3.6, 0.4], rtol=1e-6)
  np.testing.assert_allclose(value.expectile_error(errors, expectile=0.5), [2.0, 2.0], rtol=1e-6)


def test_gumbel_errors_by_hand_and_their_minimum():
  error = functools.partial(value.gumbel_error, scale=2.0, exponent_max=3.0)
  np.testing.assert_allclose(
      error(jnp.array([0.0, 2.0, -2.0, 100.0])), [0, math.e - 2, 1 / math.e, math.exp(3) - 4], rtol=1e-6
  )
  targets = jnp.array([0.0, 1.0, 3.0])
  soft_maximum = 2 * jnp.log(jnp.exp(targets / 2).mean())
  slope = jax.grad(lambda v: error(targets - v).mean())(soft_maximum)
  np.testing.assert_allclose(slope, 0, atol=1e-6)
  assert jax.grad(lambda u: error(u))(100.0) == 0


def test_weights_are_bounded_constants():
  weigh = functools.partial(value.exponential_weights, sharpness=2.0, weight_max=10.0)
  np.testing.assert_allclose(
      weigh(jnp.array([0.0, 1.0, -1.0, 1e6])), [1, math.exp(2), math.exp(-2), 10], rtol=1e-5
  )
  assert jax.grad(lambda a: weigh(a))(0.3) == 0


def test_a_lower_confidence_bound_by_hand():
  values = jnp.array([[1.0, 4.0], [3.0, 4.0]])
  np.testing.assert_allclose(value.lower_confidence_bound(values, pessimism=1.0), [1.0, 4.0], atol=1e-5)
  np.testing.assert_allclose(value.lower_confidence_bound(values, pessimism=0.0), [2.0, 4.0], atol=1e-5)
  slope = jax.grad(lambda v: value.lower_confidence_bound(v, pessimism=1.0).sum())(jnp.ones((2, 3)))
  assert np.isfinite(slope).all(), 'members that agree'


# --- CQL and Cal-QL -----------------------------------------------------------------------------------------


def test_the_soft_maximum_is_the_integral():
  """Of Q = 2 a_0 - a_1: log ∫ exp Q da = log (2 sinh 2 / 2) + log (2 sinh 1)."""
  slope = jnp.array([2.0, -1.0])
  linear = Network(init=None, apply=lambda params, s, a: jnp.stack([jnp.dot(a, slope)] * 2))
  rows = {'observations': jnp.zeros((2, 4))}
  params = SQUASHED.init(KEY)
  wide = math.atanh(1.5 / 3.5)  # a standard deviation of 1, so that every action has its chance
  params['layers'][-1]['bias'] = jnp.array([0.0, 0.0, wide, wide])
  found = soft_maximum(
      SQUASHED, linear, {'policy': params, 'critic': None}, rows, KEY, num_actions=20_000, floor=as_they_are
  )
  assert found.shape == (2, 2)
  np.testing.assert_allclose(found, math.log(math.sinh(2)) + math.log(2 * math.sinh(1)), atol=0.05)


@pytest.mark.slow
def test_without_conservatism_it_is_sac():
  mine = cql(PARENT, SQUASHED, CRITIC, **{**PUSHED, 'conservatism': 0.0})
  key = jax.random.split(KEY)[0]  # what CQL hands on
  assert_same(gradients(mine, SQUASHED), gradients(PARENT, SQUASHED, key=key))


@pytest.mark.slow
def test_the_added_term_moves_the_critic_alone():
  plain, pushed = (
      gradients(cql(PARENT, SQUASHED, CRITIC, **{**PUSHED, 'conservatism': c}), SQUASHED)
      for c in (0.0, 2.0)
  )
  assert_same(plain['policy'], pushed['policy'])
  assert_same(plain['temperature'], pushed['temperature'])
  with pytest.raises(AssertionError):
    assert_same(plain['critic'], pushed['critic'])


@pytest.mark.slow
def test_cal_ql_without_a_bound_is_cql_and_with_a_high_one_spares_the_policy():
  make = lambda factory: factory(PARENT, SQUASHED, CRITIC, **PUSHED)
  with_returns = lambda g: {**batch(), 'returns_to_go': jnp.full(6, g)}
  unbounded = gradients(make(cal_ql), SQUASHED, with_returns(-jnp.inf))
  assert_same(unbounded, gradients(make(cql), SQUASHED))
  # Far above every Q, the policy's actions have all the weight, and a constant value: Q(data) alone is left.
  bounded = gradients(make(cal_ql), SQUASHED, with_returns(100.0))
  parent, rows = gradients(PARENT, SQUASHED, key=jax.random.split(KEY)[0]), batch()
  held_up = lambda p: CRITIC.apply(p, rows['observations'], rows['actions']).mean(axis=1).sum()
  lift = jax.grad(held_up)(models(SQUASHED)['critic'])
  expected = jax.tree.map(lambda a, b: a - 2.0 * b, parent['critic'], lift)
  assert_same(bounded['critic'], expected, rtol=1e-4)


# --- EDAC ---------------------------------------------------------------------------------------------------


def test_alignment_by_hand():
  same = jnp.ones((3, 1, 2))
  np.testing.assert_allclose(alignment(same), [3.0], rtol=1e-5)  # 6 pairs of cosine 1, over 2
  against = jnp.array([[[1.0, 0.0]], [[-5.0, 0.0]]])
  np.testing.assert_allclose(alignment(against), [-2.0], rtol=1e-5)  # both orders of one pair of -1
  across = jnp.array([[[1.0, 0.0]], [[0.0, 2.0]]])
  np.testing.assert_allclose(alignment(across), [0.0], atol=1e-6)


@pytest.mark.slow
def test_slopes_are_of_each_member():
  rows, params = batch(), models(SQUASHED)['critic']
  slopes = action_slopes(CRITIC, params, rows['observations'], rows['actions'])
  whole = jax.jacobian(lambda a: CRITIC.apply(params, rows['observations'][:1], a))(rows['actions'][:1])
  np.testing.assert_allclose(slopes[:, 0], whole[:, 0, 0], rtol=1e-5)


@pytest.mark.slow
def test_without_diversity_it_is_sac_n():
  plain, diverse = (gradients(edac(PARENT, CRITIC, diversity=d), SQUASHED) for d in (0.0, 1.0))
  assert_same(plain, gradients(PARENT, SQUASHED))
  with pytest.raises(AssertionError):
    assert_same(plain['critic'], diverse['critic'])


# --- imitation ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_with_equal_weights_iql_clones():
  mine = iql(
      None, GAUSSIAN, VALUE, CRITIC, expectile=0.7, sharpness=0.0, weight_max=10.0, **TARGETS
  )
  assert_same(gradients(mine, GAUSSIAN)['policy'], gradients(bc(None, GAUSSIAN), GAUSSIAN)['policy'])


def test_without_greed_td3_bc_clones():
  """The mean square over the two numbers of an action is the clone's half of the squared distance."""
  mine = td3_bc(td3(None, FIXED, CRITIC, **SMOOTHED), FIXED, CRITIC, greed=0.0)
  assert_same(gradients(mine, FIXED)['policy'], gradients(bc(None, FIXED), FIXED)['policy'])


def test_td3_bc_does_not_depend_on_the_units_of_rewards():
  """With critics that are ten times as high, the policy's gradient is the same."""
  scaled = Network(init=None, apply=lambda *inputs: 10 * CRITIC.apply(*inputs))
  made = lambda critic: td3_bc(td3(None, FIXED, critic, **SMOOTHED), FIXED, critic, greed=2.5)
  a, b = (gradients(made(critic), FIXED)['policy'] for critic in (CRITIC, scaled))
  assert_same(a, b, rtol=1e-4)


@pytest.mark.slow
def test_recoil_looks_at_marks_and_not_at_rewards():
  mine = recoil(
      None, GAUSSIAN, VALUE, CRITIC, expectile=0.7, sharpness=1.0, weight_max=10.0, pseudo_reward=1.0,
      expert_weight=2.0, **TARGETS,
  )
  rows = batch()
  first = gradients(mine, GAUSSIAN, rows)
  assert_same(first, gradients(mine, GAUSSIAN, {**rows, 'rewards': 100 * rows['rewards']}))
  with pytest.raises(AssertionError):
    assert_same(first, gradients(mine, GAUSSIAN, {**rows, 'preferred': ~rows['preferred']}))
