"""What is learnt from a teacher: the divergence against its closed forms, and whose slope it is."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.control.environment import Continuous, Discrete
from rlx.losses import distillation, regularizers
from rlx.losses.distillation import teacher_kl
from rlx.models import networks

MANY = 40_000
SEEN = jnp.ones((MANY, 2))


def policy(actions):
  env = SimpleNamespace(observation_shape=(2,), actions=actions)
  if isinstance(actions, Discrete):
    return networks.categorical(env, hidden=(), activation='tanh')
  return networks.gaussian(env, hidden=(), activation='tanh', initial_log_std=0.0)


def linear(bias):
  return {'layers': [{'kernel': jnp.zeros((2, len(bias))), 'bias': jnp.array(bias)}]}


def discrete():
  pupil, teacher = [0.0, 1.0, -1.0], [1.0, 0.5, -2.0]
  exact = lambda bias: regularizers.kl_forward(bias, jnp.array(teacher))
  return policy(Discrete(3)), linear(pupil), linear(teacher), exact, lambda p: p['layers'][0]['bias']


def continuous():
  """KL(N(m, s²) || N(0, 1)) = m² / 2 + (s² - 1) / 2 - log s, by the pupil's mean 0."""
  params = lambda mean, std: {'mean': linear([mean]), 'log_std': jnp.log(jnp.array([std]))}
  exact = lambda bias: jnp.sum(jnp.square(0.7 - bias)) / 2 + (0.25 - 1) / 2 - jnp.log(0.5)
  of_mean = lambda p: p['mean']['layers'][0]['bias']
  return policy(Continuous(1)), params(0.0, 1.0), params(0.7, 0.5), exact, of_mean


@pytest.mark.parametrize('case', [discrete, continuous])
def test_it_estimates_the_divergence_and_its_slope(case):
  pi, params, teacher, exact, bias = case()
  mean = lambda params: teacher_kl(pi, params, pi, teacher, SEEN, jax.random.key(0)).mean()
  found, slope = jax.jit(jax.value_and_grad(mean))(params)
  known, known_slope = jax.value_and_grad(exact)(bias(params))
  np.testing.assert_allclose(found, known, atol=0.02)
  np.testing.assert_allclose(bias(slope), known_slope, atol=0.02)


@pytest.mark.parametrize('case', [discrete, continuous])
def test_a_pupil_that_is_its_teacher_has_nothing_to_learn_and_the_teacher_never_has(case):
  pi, params, teacher, _, _ = case()
  estimate = lambda params, teacher: teacher_kl(pi, params, pi, teacher, SEEN[:9], jax.random.key(0)).sum()
  both = jax.jit(jax.value_and_grad(estimate, argnums=(0, 1)))
  np.testing.assert_allclose(both(teacher, teacher)[0], 0, atol=1e-5)
  assert all((x == 0).all() for x in jax.tree.leaves(both(params, teacher)[1][1]))


LOGITS, TEACHER = np.random.default_rng(3).normal(0, 2, (2, 5, 7)).astype(np.float32)


@pytest.mark.parametrize('share', [0.1, 0.5, 0.9])
def test_the_generalised_divergence_by_hand(share):
  softmax = lambda x: np.exp(x.astype(float)) / np.exp(x.astype(float)).sum(axis=-1, keepdims=True)
  p, t = softmax(LOGITS), softmax(TEACHER)
  m = share * t + (1 - share) * p
  expected = share * (t * np.log(t / m)).sum(-1) + (1 - share) * (p * np.log(p / m)).sum(-1)
  np.testing.assert_allclose(distillation.generalised_jsd(LOGITS, TEACHER, share=share), expected, rtol=1e-5)
  np.testing.assert_allclose(distillation.generalised_jsd(LOGITS, LOGITS, share=share), 0, atol=1e-6)


def test_the_ends_of_the_generalised_divergence_are_the_two_kls():
  """In value, and as limits of the rest over β and over 1 - β."""
  of = lambda share: distillation.generalised_jsd(LOGITS, TEACHER, share=share)
  np.testing.assert_allclose(of(0.0), regularizers.kl_forward(LOGITS, TEACHER), rtol=1e-6)
  np.testing.assert_allclose(of(1.0), regularizers.kl_exact(LOGITS, TEACHER), rtol=1e-6)
  np.testing.assert_allclose(of(1e-3) / 1e-3, of(0.0), rtol=0.05)
  np.testing.assert_allclose(of(1 - 1e-3) / 1e-3, of(1.0), rtol=0.05)
