"""MODPO: one objective's comparisons and another's rewards, in one loss. https://arxiv.org/abs/2310.03708

Five worlds of six answers with two rewards, in expectation over all pairs. For each weight the policy is the
closed-form optimum, the softmax of the weighted rewards, within 0.005 in every chance; the front is monotone.
DPO on the same comparisons, which knows nothing of the other reward, is off by more than 0.1 in every world.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import preference_toy as toy
import pytest

from rlx.algorithms.dpo import dpo
from rlx.algorithms.modpo import modpo
from rlx.envs import gold
from rlx.losses import preference

NUM, BETA, WEIGHTS = 6, 0.7, (0.2, 0.5, 0.8)


def rollout(models, world, key):
  del models, key
  rows, both = toy.pairs(NUM)
  rewards, others = world['data']
  margin = lambda x: x[both[:, 0]] - x[both[:, 1]]
  chance = jax.nn.sigmoid(margin(rewards))
  return {
      **rows, 'weights': toy.of_pairs(chance), 'pair_other_margin': toy.of_pairs(margin(others)),
  }, {}


@pytest.mark.slow
def test_each_weight_has_its_closed_form_and_the_front_is_monotone():
  rewards, others = jax.random.normal(jax.random.key(0), (2, toy.SEEDS, NUM))
  learn = functools.partial(
      toy.learnt, data=(rewards, others), num_answers=NUM, slow=('reference',), steps=600,
      optimizer=optax.adam(0.05)
  )
  make = lambda loss: dpo(rollout, toy.POLICY, toy.POLICY, loss=loss)
  points = []
  for weight in WEIGHTS:
    found = learn(make(functools.partial(preference.modpo, beta=BETA, weight=weight)))
    expected = jax.nn.softmax((weight * rewards + (1 - weight) * others) / BETA)
    np.testing.assert_allclose(found, expected, atol=5e-3)
    points.append([(found * np.asarray(x)).sum(axis=1) for x in (rewards, others)])
  first, second = np.array(points).transpose(1, 0, 2)  # [weights, worlds] each
  assert (np.diff(first, axis=0) > 0).all() and (np.diff(second, axis=0) < 0).all()
  alone = learn(make(functools.partial(preference.sigmoid, beta=BETA)))
  middle = jax.nn.softmax((rewards + others) / 2 / BETA)
  assert (np.abs(alone - middle).max(axis=1) > 0.1).all(), 'without the other reward it is another policy'


def test_the_factory_asks_a_judge_for_the_others_and_alone_it_is_dpo():
  """The loss by hand, with a reward model of one number an answer."""
  start, judge = toy.uniform(3), gold.Linear()
  models = {
      'policy': {**start, 'theta': jnp.array([0.3, -0.2, 0.5])}, 'reference': start,
      'judge': {'direction': jnp.array([2.0, 0.0, -1.0]), 'world': start['world']},
  }
  rows, both = toy.pairs(3)

  def value(make):
    algorithm = make(lambda models, world, key: (rows, world), toy.POLICY, toy.POLICY)
    batch = algorithm.advantage(models, rows, jax.random.key(0))
    return float(algorithm.loss(models, batch, jax.random.key(0))[0])

  factory = lambda weight: value(lambda *parts: modpo(*parts, judge, beta=BETA, weight=weight))
  h = np.subtract(*np.asarray(toy.POLICY.logprobs(models['policy'])[0])[both.T])
  others = np.subtract(*np.array([2.0, 0.0, -1.0])[both.T])
  by_hand = np.mean(np.log1p(np.exp(-(BETA * h - 0.6 * others) / 0.4)))
  np.testing.assert_allclose(factory(0.4), by_hand, rtol=1e-5)
  alone = value(lambda *parts: dpo(*parts, loss=functools.partial(preference.sigmoid, beta=BETA)))
  np.testing.assert_allclose(factory(1.0), alone, rtol=1e-6)
  assert abs(factory(0.4) - alone) > 0.1
