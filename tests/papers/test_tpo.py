"""TPO: comparisons without a reference, and a gold answer by heart. https://arxiv.org/abs/2405.16681"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from rlx.algorithms.reference_free import reference_free
from rlx.algorithms.tpo import tpo
from rlx.envs import gold
from rlx.losses import preference
from rlx.rollout.gold import beside_the_best

POLICY = gold.LogLinear()
WORLDS = gold.gold_worlds(num_prompts=2, num_answers=4, width=3, hump=0.0, hidden=0.0, spread=1.0)
WORLD = jax.jit(WORLDS.make)(jax.random.key(0))
MODELS = {'world': WORLD, 'policy': {**POLICY.init(WORLD), 'theta': jnp.array([0.5, -1.0, 0.3])}}


def pairs(models, world, key):
  return gold.labelled(models['world'], key, num=3, sharpness=1.0), world


def value(algorithm, batch):
  batch = algorithm.advantage(MODELS, batch, jax.random.key(2))
  loss = lambda theta: algorithm.loss({'policy': {**MODELS['policy'], 'theta': theta}}, batch, None)[0]
  return jax.value_and_grad(loss)(MODELS['policy']['theta'])


def test_the_loss_by_hand_and_without_gold_answers_it_needs_no_reference():
  rollout = beside_the_best(pairs, WORLDS, beta=0.1)
  batch, _ = rollout(MODELS, {}, jax.random.key(1))
  logprobs = np.asarray(POLICY.logprobs(MODELS['policy']), np.float64)
  of = lambda tokens: logprobs[np.asarray(tokens)[:, 0], np.asarray(tokens)[:, 1]]
  own, of_gold = of(batch['tokens']), of(batch['gold_tokens'])
  h = 0.7 * (own[0::2] - own[1::2])
  expected = np.mean(np.log1p(np.exp(-h))) - 0.4 * np.mean(of_gold)
  make = functools.partial(tpo, rollout, POLICY, beta=0.7)
  np.testing.assert_allclose(value(make(nll_coef=0.4), batch)[0], expected, rtol=1e-5)
  free = reference_free(rollout, POLICY, loss=functools.partial(preference.sigmoid, beta=0.7))
  for one, other in zip(value(make(nll_coef=0.0), batch), value(free, batch), strict=True):
    np.testing.assert_array_equal(one, other)


def test_gold_answers_are_of_the_best_policy_and_of_the_prompts():
  rollout = beside_the_best(pairs, WORLDS, beta=1e-3)
  batch, _ = rollout(MODELS, {}, jax.random.key(1))
  prompts, answers = np.asarray(batch['gold_tokens']).T
  np.testing.assert_array_equal(prompts, batch['tokens'][:, 0])
  np.testing.assert_array_equal(answers, np.asarray(WORLD.gold).argmax(axis=1)[prompts])
