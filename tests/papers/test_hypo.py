"""HyPO: DPO on recorded pairs, and the KL of the policy's own samples. https://arxiv.org/abs/2406.01462"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.dpo import dpo
from rlx.algorithms.hypo import hypo
from rlx.envs import gold
from rlx.losses import preference

POLICY = gold.LogLinear()
WORLDS = gold.gold_worlds(num_prompts=2, num_answers=4, width=3, hump=0.0, hidden=0.0, spread=1.0)
WORLD = jax.jit(WORLDS.make)(jax.random.key(0))
LOSS = functools.partial(preference.sigmoid, beta=0.1)
REFERENCE = POLICY.init(WORLD)
THETA = jnp.array([0.5, -1.0, 0.3])


def rollout(models, world, key):
  del models
  return gold.labelled(WORLD, key, num=4000, sharpness=1.0), world


def gradient(algorithm, batch):
  def loss(theta):
    return algorithm.loss(models_of(theta), batch, jax.random.key(0))[0]

  return jax.jit(jax.value_and_grad(loss))(THETA)


def models_of(theta):
  return {'policy': {**REFERENCE, 'theta': theta}, 'reference': REFERENCE}


def annotated(algorithm):
  batch, _ = rollout({}, {}, jax.random.key(1))
  return jax.jit(algorithm.advantage)(models_of(THETA), batch, jax.random.key(2))


@pytest.mark.slow
def test_the_term_has_the_gradient_of_the_kl_and_without_it_this_is_dpo():
  plain = dpo(rollout, POLICY, POLICY, loss=LOSS)
  batch = annotated(hypo(rollout, POLICY, POLICY, WORLDS, loss=LOSS, kl_coef=1.0))
  of = lambda coef: gradient(hypo(rollout, POLICY, POLICY, WORLDS, loss=LOSS, kl_coef=coef), batch)
  value, slope = gradient(plain, batch)
  without = of(0.0)
  np.testing.assert_array_equal(without[0], value)
  np.testing.assert_array_equal(without[1], slope)
  value_with, slope_with = of(2.0)
  kl = lambda theta: gold.divergence(WORLD, POLICY.logprobs({**REFERENCE, 'theta': theta}))
  exact = jax.grad(kl)(THETA)
  found = (slope_with - slope) / 2.0
  assert np.linalg.norm(exact) > 0.2
  np.testing.assert_allclose(found, exact, atol=0.03)  # of 8000 samples
  ratios = POLICY.logprobs(models_of(THETA)['policy']) - WORLD.base
  prompts, answers = batch['sampled_tokens'].T
  by_hand = np.mean(np.asarray(ratios)[prompts, answers] ** 2) / 2
  np.testing.assert_allclose(value_with - value, 2.0 * by_hand, rtol=1e-4)


def test_samples_are_of_the_policy_and_of_the_prompts_of_the_pairs():
  batch = annotated(hypo(rollout, POLICY, POLICY, WORLDS, loss=LOSS, kl_coef=1.0))
  prompts, answers = np.asarray(batch['sampled_tokens']).T
  np.testing.assert_array_equal(prompts, batch['tokens'][:, 0])
  expected = np.exp(POLICY.logprobs(models_of(THETA)['policy']))
  for x in range(2):
    share = np.bincount(answers[prompts == x], minlength=4) / (prompts == x).sum()
    np.testing.assert_allclose(share, expected[x], atol=0.03)
