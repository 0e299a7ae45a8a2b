"""IMPALA and its V-trace over episodes: sums by hand, limits that are GAE, and what is held."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import off_policy, temporal
from rlx.algorithms.control.impala import impala
from rlx.envs.control import probes
from rlx.evaluation.aggregates import interquartile_mean
from rlx.models import networks
from tests.control import runs

RNG = np.random.default_rng(0)
ROWS, STEPS, DISCOUNT = 3, 7, 0.9
REWARDS, VALUES, NEXT_VALUES = RNG.normal(size=(3, ROWS, STEPS)).astype(np.float32)
RATIOS = np.exp(RNG.normal(size=(ROWS, STEPS))).astype(np.float32)
TERMINATED = np.zeros((ROWS, STEPS), bool)
TRUNCATED = np.zeros((ROWS, STEPS), bool)
TERMINATED[0, 2] = TRUNCATED[1, 4] = TERMINATED[2, 6] = TRUNCATED[2, 0] = True
# Inside an episode what an action leads to is what the next one is chosen for.
NEXT_VALUES[:, :-1] = np.where((TERMINATED | TRUNCATED)[:, :-1], NEXT_VALUES[:, :-1], VALUES[:, 1:])
WHERE = REWARDS, VALUES, NEXT_VALUES, TERMINATED, TRUNCATED


@jax.jit
def vtrace(ratios, **how):
  return temporal.vtrace_episodes(*WHERE, ratios, discount=DISCOUNT, **how)


@jax.jit
def gae(lambda_):
  return temporal.gae_episodes(*WHERE, discount=DISCOUNT, lambda_=lambda_)


def by_hand(row, lambda_, clip_rho, clip_c):
  """Equation 1 as the sum that it is, of one row, from each step to the end of its episode."""
  rewards, values, next_values, terminated, truncated = (x[row].astype(np.float64) for x in WHERE)
  rho, c = np.minimum(RATIOS[row], clip_rho), lambda_ * np.minimum(RATIOS[row], clip_c)
  behind = (1 - terminated) * next_values
  deltas = rho * (rewards + DISCOUNT * behind - values)
  targets, advantages = np.zeros(STEPS), np.zeros(STEPS)
  for s in range(STEPS):
    weight, targets[s] = 1.0, values[s]
    for t in range(s, STEPS):
      targets[s] += weight * deltas[t]
      weight *= DISCOUNT * c[t]
      if terminated[t] or truncated[t]:
        break
  for s in range(STEPS):
    goes_on = s + 1 < STEPS and not (terminated[s] or truncated[s])
    advantages[s] = rho[s] * (rewards[s] + DISCOUNT * (targets[s + 1] if goes_on else behind[s]) - values[s])
  return targets, advantages


@pytest.mark.parametrize('how', [(1.0, 1.0, 1.0), (0.8, 2.0, 0.7)])
def test_vtrace_ends_where_episodes_do(how):
  found = vtrace(RATIOS, lambda_=how[0], clip_rho=how[1], clip_c=how[2])
  for row in range(ROWS):
    targets, advantages = by_hand(row, *how)
    np.testing.assert_allclose(found.targets[row], targets, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.advantages[row], advantages, rtol=1e-4, atol=1e-5)


def test_on_policy_it_is_gae():
  """Ratios of 1: at λ = 1 both halves are those of GAE, at any λ the targets are."""
  for lambda_ in (1.0, 0.8):
    found = vtrace(np.ones_like(RATIOS), lambda_=lambda_, clip_rho=1.0, clip_c=1.0)
    expected = np.asarray(gae(lambda_))
    np.testing.assert_allclose(found.targets, expected + VALUES, rtol=1e-4, atol=1e-5)
    if lambda_ == 1:
      np.testing.assert_allclose(found.advantages, expected, rtol=1e-4, atol=1e-5)


@jax.jit
def losses():
  """The loss with its gradient, and those of the formula with targets and advantages as constants."""
  env = probes.later(discrete=True)
  shape = dict(hidden=(4,), activation='tanh')
  policy, value = networks.categorical(env, **shape), networks.state_value(env, **shape)
  how = dict(discount=DISCOUNT, lambda_=1.0, clip_rho=1.0, clip_c=1.0)
  algorithm = impala(None, policy, value, entropy_coef=0.01, value_coef=0.5, **how)
  keys = jax.random.split(jax.random.key(0))
  models = {'policy': policy.init(keys[0]), 'value': value.init(keys[1])}
  part = lambda x: jnp.array(x[:2, :3])
  batch = {
      'observations': part(VALUES)[..., None], 'next_observations': part(NEXT_VALUES)[..., None],
      'actions': jnp.array([[0, 1, 0], [1, 1, 0]]), 'rewards': part(REWARDS),
      'terminated': part(TERMINATED), 'truncated': part(TRUNCATED),
  }
  logprobs, _ = policy.score(models['policy'], batch['observations'], batch['actions'])
  batch['sampler_logprobs'] = logprobs + jnp.array([[0.5, -0.5, 0.0]])  # another policy acted
  logprobs_of = lambda models: policy.score(models['policy'], batch['observations'], batch['actions'])
  values_of = lambda models, name: value.apply(models['value'], batch[name])
  targets, advantages = temporal.vtrace_episodes(
      batch['rewards'], values_of(models, 'observations'), values_of(models, 'next_observations'),
      batch['terminated'], batch['truncated'], jnp.exp(logprobs_of(models)[0] - batch['sampler_logprobs']),
      **how,
  )

  def written_out(models):
    logprobs, entropy = logprobs_of(models)
    errors = jnp.square(values_of(models, 'observations') - targets) / 2
    return jnp.mean(-logprobs * advantages + 0.5 * errors - 0.01 * entropy)

  loss = lambda models: algorithm.loss(models, batch, None)
  return jax.value_and_grad(loss, has_aux=True)(models), jax.value_and_grad(written_out)(models)


def test_its_gradient_is_that_of_constant_targets():
  """The critic is drawn to its targets and the policy to its advantages, made with the policy of now."""
  ((total, metrics), gradient), (expected, expected_gradient) = losses()
  np.testing.assert_allclose(total, expected, rtol=1e-5)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), gradient, expected_gradient)
  assert max(np.abs(x).max() for x in jax.tree.leaves(gradient['policy'])) > 1e-3
  np.testing.assert_allclose(metrics['policy/capped'], 1 / 3)  # of each row, the action of ratio e^0.5


def test_a_cap_below_that_of_the_trace_is_refused():
  with pytest.raises(ValueError, match=r'clip_rho=0.5 is below clip_c=1.0'):
    impala(None, None, None, entropy_coef=0, value_coef=1, discount=0.9, lambda_=1, clip_rho=0.5, clip_c=1.0)


@pytest.mark.slow
def test_upgo_is_added_to_the_policy_gradient_alone():
  """c_u ρ (G - V) on top of the advantages, ρ at most 1; the critic does not know of it."""
  env = probes.later(discrete=True)
  policy = networks.categorical(env, hidden=(4,), activation='tanh')
  value = networks.state_value(env, hidden=(4,), activation='tanh')
  how = dict(discount=DISCOUNT, lambda_=1.0, clip_rho=1.0, clip_c=1.0, entropy_coef=0.0, value_coef=0.5)
  models = {'policy': policy.init(jax.random.key(0)), 'value': value.init(jax.random.key(1))}
  batch = {
      'observations': jnp.array(VALUES)[..., None], 'next_observations': jnp.array(NEXT_VALUES)[..., None],
      'actions': jnp.array(RATIOS > 1).astype(jnp.int32), 'rewards': jnp.array(REWARDS),
      'terminated': jnp.array(TERMINATED), 'truncated': jnp.array(TRUNCATED),
      'sampler_logprobs': jnp.full((ROWS, STEPS), jnp.log(0.4)),
  }

  @jax.jit
  def gradient(models):
    of = lambda **upgo: jax.grad(lambda m: impala(None, policy, value, **how, **upgo).loss(m, batch, None)[0])
    return of()(models), of(upgo_coef=0.7)(models)

  plain, added = gradient(models)
  now, behind = (value.apply(models['value'], batch[f'{x}observations']) for x in ('', 'next_'))
  returns = off_policy.upgo(batch['rewards'], now, behind, TERMINATED, TRUNCATED, discount=DISCOUNT)
  logprobs = lambda params: policy.score(params, batch['observations'], batch['actions'])[0]
  rho = jnp.minimum(jnp.exp(logprobs(models['policy'])) / 0.4, 1)
  upward = lambda params: -0.7 * jnp.mean(logprobs(params) * rho * (returns - now))
  expected = jax.grad(upward)(models['policy'])
  differ = jax.tree.map(jnp.subtract, added, plain)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), differ['policy'], expected)
  assert not any(np.any(x) for x in jax.tree.leaves(differ['value']))
  assert max(np.abs(x).max() for x in jax.tree.leaves(expected)) > 1e-3


@pytest.mark.slow
def test_it_balances_a_pole():
  """The config as it stands, five seeds. Measured: 500 of 500 on all; 41 % of the ratios are capped."""
  returns, metrics = runs.learnt('impala_cartpole')
  assert interquartile_mean(returns[:, None]) > 400 and returns.min() > 200
  assert metrics['policy/capped'].max() > 0.05, 'the corrections had something to do'
