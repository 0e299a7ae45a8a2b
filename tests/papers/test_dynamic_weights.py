"""Weights of objectives that follow the hypervolume, and gradients. https://arxiv.org/abs/2509.11452"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.dynamic_weights import by_influence, by_volume
from rlx.controllers.objectives import volume_slopes
from rlx.envs import gold
from rlx.evaluation.gold import compromise
from rlx.losses.anchors import no_kl
from rlx.rewards.gold import both_sides
from rlx.rollout.gold import groups

WORLDS = gold.bent_worlds(num_prompts=4, num_answers=16, bend=3.0, tilt=0.5)
POLICY = gold.LogLinear()
PLAIN = dict(clip_low=0.2, clip_high=0.2)
VOLUME = dict(**PLAIN, preferences=(1.0, 1.0), worthless=(0.0, 0.0), rate=0.5)


def rows_of_steps(algorithm, num_steps: int, advantage=False):
  """The rows of the first steps, of a policy that does not learn."""
  world = WORLDS.make(jax.random.key(0))
  models = {'world': world, 'policy': POLICY.init(world)}
  memory, seen = algorithm.rollout.begin(jax.random.key(1)), []
  for step in range(num_steps):
    key = jax.random.key(2 + step)
    batch, memory = algorithm.rollout.draw(models, memory, key)
    batch = algorithm.reward(models, batch, key)
    batch = algorithm.advantage(models, batch, key) if advantage else batch
    memory = algorithm.rollout.observe(memory, batch)
    seen.append(batch)
  return models, seen


def made(factory, **numbers):
  rollout = groups(WORLDS, POLICY, batch_size=32, group_size=8)
  return factory(rollout, both_sides(WORLDS), POLICY, no_kl(), **numbers)


def test_what_has_least_weighs_most_and_the_slope_is_that_of_the_volume():
  point, origin, even = jnp.array([0.4, 0.1]), jnp.zeros(2), jnp.ones(2)
  np.testing.assert_allclose(volume_slopes(point, even, origin, strength=1.0), [0.4, 1.6], rtol=1e-5)
  slope = jax.grad(lambda x: x[0] * x[1])(point)
  np.testing.assert_allclose(
      volume_slopes(point, even, origin, strength=1.0), 2 * slope / slope.sum(), rtol=1e-5)
  fixed = volume_slopes(point, jnp.array([3.0, 1.0]), origin, strength=0.0)
  np.testing.assert_allclose(fixed, [1.5, 0.5], rtol=1e-5)
  unseen = volume_slopes(jnp.full(2, jnp.nan), even, origin, strength=1.0)
  np.testing.assert_allclose(unseen, 1, rtol=1e-6)


@pytest.mark.parametrize('strength', [0.0, 1.0])
def test_rewards_are_weighed_by_the_running_mean_of_the_steps_before(strength):
  _, (first, second, third) = rows_of_steps(made(by_volume, **VOLUME, strength=strength), 3)
  np.testing.assert_allclose(first['rewards'], first['objectives'].sum(axis=1), rtol=1e-5)
  mean = [np.asarray(x['objectives']).mean(axis=0) for x in (first, second)]
  assert mean[0][0] < 0.8 * mean[0][1]  # the reference leans to the second
  for batch, reached in ((second, mean[0]), (third, (mean[0] + mean[1]) / 2)):
    raw = reached**-strength
    expected = np.asarray(batch['objectives']) @ (2 * raw / raw.sum())
    np.testing.assert_allclose(batch['rewards'], expected, rtol=1e-5)


@pytest.mark.slow
def test_influence_moves_weights_by_gradients_and_not_at_rate_0():
  _, (first, second) = rows_of_steps(made(by_influence, **PLAIN, num_objectives=2, rate=2.0), 2, True)
  helps = [_by_hand(first, k) for k in range(2)]
  total = helps[0] + helps[1]
  raw = np.exp([2.0 * g @ total for g in helps])
  np.testing.assert_allclose(second['objective_weights'][0], 2 * raw / raw.sum(), rtol=1e-4)
  _, (_, still) = rows_of_steps(made(by_influence, **PLAIN, num_objectives=2, rate=0.0), 2, True)
  np.testing.assert_allclose(still['objective_weights'], 1, rtol=1e-6)


def _by_hand(batch, k: int) -> np.ndarray:
  """Σ A (φ(x, y) - E φ) / B of one objective, at θ = 0."""
  world = WORLDS.make(jax.random.key(0))
  features, base = np.asarray(world.features), np.exp(np.asarray(world.base))
  rewards, ids = np.asarray(batch['objectives'])[:, k], np.asarray(batch['groups'])
  total = np.zeros(2)
  for i, (x, y) in enumerate(np.asarray(batch['tokens'])):
    total += (rewards[i] - rewards[ids == ids[i]].mean()) * (features[x, y] - base[x] @ features[x])
  return total / len(ids)


def test_the_compromise_has_less_than_half_of_the_extremes_and_the_largest_volume():
  world = gold.bent_worlds(num_prompts=64, num_answers=32, bend=3.0, tilt=0.0).make(jax.random.key(0))
  told = compromise(WORLDS, POLICY, farthest=4.0)

  def at(theta):
    params = {**POLICY.init(world), 'theta': jnp.array(theta)}
    return told.read(told.ask({'world': world, 'policy': params}, {}))[0]

  middle, end = at([0.0, 4.0]), at([4.0, 4.0])
  assert middle['first'] + middle['second'] < 0.8 * (end['first'] + end['second'])
  assert middle['volume'] > 0.9 and end['volume'] < 0.2
