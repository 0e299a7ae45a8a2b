"""RED: the weight of demonstrations follows entropies, and a group's accuracy says how they are learnt from.

https://arxiv.org/abs/2508.16677
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms import red as module
from rlx.algorithms.red import red
from rlx.losses.anchors import no_kl
from rlx.types import check

# Three samples and a demonstration in each of two groups; one sample of the first is right, two of the other.
REWARDS = jnp.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0])
GROUPS, OFFLINE = jnp.arange(8) // 4, jnp.arange(8) % 4 == 3
OLD = jnp.log(jnp.array([0.3, 0.4, 0.5, 0.2, 0.2, 0.6, 0.5, 0.05]))
TABLE = types.SimpleNamespace(score=lambda params, batch: (first(params), jnp.zeros((8, 2))))
NUMBERS = dict(
    clip_low=0.2, clip_high=0.2, weight_min=1.0, weight_max=7.0, keep=0.0, accuracy_min=0.5, gamma=0.1
)


def first(x):
  """The prompt, one column, in front."""
  return jnp.stack([jnp.zeros_like(x), x], axis=1)


def rows(expert_entropy=1.0, online=OLD):
  mask = jnp.broadcast_to(jnp.array([False, True]), (8, 2))
  return {
      'tokens': jnp.ones((8, 2), jnp.int32), 'action_mask': mask, 'valid': mask, 'offline': OFFLINE,
      'scored': jnp.ones(8, bool), 'groups': GROUPS, 'prompt_lengths': jnp.ones(8, jnp.int32),
      'sampler_logprobs': first(online), 'expert_mask': mask, 'expert_entropy': jnp.full(8, expert_entropy),
  }


def reward(models, batch, key):
  return {**batch, 'rewards': REWARDS}


def steps(changes, **changed):
  """The batches of some steps, whose entropies are `changes`: (of demonstrations, of samples) each."""
  told = iter(changes)

  def rollout(models, world, key):
    offline, online = next(told)
    return rows(offline, jnp.full(8, -online)), world

  algorithm = red(rollout, reward, TABLE, no_kl(), **{**NUMBERS, **changed})
  world, found = algorithm.rollout.begin(None), []
  for _ in changes:
    batch, world = algorithm.rollout({}, world, None)
    batch = algorithm.advantage({}, reward({}, batch, None), None)
    check(batch)
    world = algorithm.rollout.observe(world, batch)
    found.append(batch)
  return found


def test_the_weight_is_the_ratio_of_the_relative_changes_of_the_last_step():
  """1 before there is one; 10 % against 5 % is 2; 5 % against 50 % is held at 1, 60 % against 2 % at 7."""
  entropies = [(2.0, 1.0), (1.8, 0.95), (1.71, 0.475), (0.684, 0.4655), (0.6, 0.4)]
  weights = [float(batch['red/weight'][0]) for batch in steps(entropies)]
  np.testing.assert_allclose(weights, [1, 1, 2, 1, 7], rtol=1e-3)


def test_demonstrations_alone_are_weighed():
  batches = steps([(2.0, 1.0), (1.8, 0.95), (1.71, 0.9)])
  before, after = (np.asarray(batch['advantages'][:, 1]) for batch in (batches[0], batches[2]))
  np.testing.assert_allclose(after, np.where(OFFLINE, 2, 1) * before, rtol=1e-3)
  assert np.abs(before[np.asarray(OFFLINE)]).min() > 0.1
  fixed = steps([(2.0, 1.0), (1.8, 0.95), (1.71, 0.9)], weight_max=1.0)
  np.testing.assert_array_equal(fixed[2]['advantages'], fixed[0]['advantages'])


def test_means_that_remember_change_more_slowly():
  batch = steps([(2.0, 1.0), (1.0, 0.5), (1.0, 0.5)], keep=0.5)[2]
  np.testing.assert_allclose(batch['red/weight'], 1)
  memory = module.entropy_ratio(module.begin(None), jnp.float32(2.0), jnp.float32(1.0), keep=0.5)
  memory = module.entropy_ratio(memory, jnp.float32(1.0), jnp.float32(0.8), keep=0.5)
  np.testing.assert_allclose(memory['before'], [1.5, 0.9], rtol=1e-6)
  np.testing.assert_allclose(memory['ratio'], 0.25 / 0.1, rtol=1e-4)


@pytest.mark.parametrize('least, imitated', [(0.5, (True, False)), (0.0, (False,) * 2), (1.1, (True,) * 2)])
def test_a_demonstration_is_imitated_where_samples_fail(least, imitated):
  """d loss / d log π of a demonstration: -A π γ / (π + γ)² of an expert's, -A at ratio 1 of one's own."""
  algorithm = red(None, reward, TABLE, no_kl(), **{**NUMBERS, 'accuracy_min': least})
  batch = {**rows(), 'mixture': jnp.ones(8)}
  batch = algorithm.advantage({}, reward({}, batch, None), None)
  loss = lambda now: algorithm.loss({'policy': now}, batch, None)[0]
  found = np.asarray(jax.grad(loss)(OLD))[np.asarray(OFFLINE)] * 8
  advantages = np.asarray(batch['advantages'][:, 1])[np.asarray(OFFLINE)]
  chances = np.exp(np.asarray(OLD))[np.asarray(OFFLINE)]
  expected = np.where(imitated, -advantages * chances * 0.1 / (chances + 0.1) ** 2, -advantages)
  np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_accuracy_is_that_of_samples():
  np.testing.assert_allclose(module.accuracies(REWARDS, GROUPS, OFFLINE), [1 / 3] * 4 + [2 / 3] * 4)
  unscored = module.accuracies(REWARDS.at[1].set(jnp.nan), GROUPS, OFFLINE)
  np.testing.assert_allclose(unscored, [1 / 2] * 4 + [2 / 3] * 4)


def test_bounds_that_are_none_are_refused():
  with pytest.raises(ValueError, match='weight_min=2.0, weight_max=1.0'):
    red(None, reward, TABLE, no_kl(), **{**NUMBERS, 'weight_min': 2.0, 'weight_max': 1.0})
  with pytest.raises(ValueError, match='keep=2.0'):
    red(None, reward, TABLE, no_kl(), **{**NUMBERS, 'keep': 2.0})
