"""S094, hyper-parameters for several objectives: the best by hypervolume is better on other seeds, too."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.control.ppo import ppo
from rlx.controllers.objectives import hypervolume
from rlx.envs.control import treasure
from rlx.envs.control.preferences import preferring, treasure_preferences, with_preferences
from rlx.evaluation import pareto
from rlx.models import networks
from rlx.rollout.control.unroll import unroll
from tests.control import agents

ENV = treasure_preferences(max_steps=30, scales=(23.7, 19.0), concentration=1.0)
REFERENCE = (0.0, -30.0)
SHAPE = dict(hidden=(32,), activation='tanh')
PREFERENCES = 11


def volume(points, reference=(0.0, 0.0)):
  points = jnp.array(points, jnp.float32)
  return hypervolume(points, jnp.array(reference), jnp.ones(len(points), bool))


def test_who_is_dominated():
  points = jnp.array([[1.0, 3.0], [2.0, 2.0], [1.0, 2.0], [3.0, 1.0], [2.0, 2.0]])
  np.testing.assert_array_equal(pareto.undominated(points), [True, True, False, True, True])


@pytest.mark.parametrize(
    'points, expected',
    [
        ([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]], 3 + 2 + 1),  # a staircase, column by column
        ([[1.0, 3.0], [2.0, 2.0], [1.0, 2.0]], 3 + 2),  # the last one is dominated
        ([[-1.0, 5.0], [2.0, 2.0]], 4),  # worse than the reference in one objective
        ([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0], [2.0, 2.0, 1.0]], 6 + 6 - 3 + 1),
    ],
)
def test_volumes_by_hand(points, expected):
  """In three objectives: two slabs of height 3 that share 1 x 1 x 3, and what the third one adds: the
  square [0, 2]² up to 1 has volume 4, of which the slabs hold 3."""
  np.testing.assert_allclose(volume(points, (0.0,) * len(points[0])), expected)


@pytest.mark.slow
def test_weights_pay_the_weighted_sum_and_are_seen():
  env = preferring(ENV, jnp.array([0.25, 0.75]))
  state, observation = env.reset(jax.random.key(0))
  np.testing.assert_allclose(observation, [0, 0, 0.25, 0.75])
  new = env.step(state, jnp.int32(1), jax.random.key(1))  # down, onto the first treasure
  np.testing.assert_allclose(new.reward, 0.25 * 0.7 / 23.7 - 0.75 / 19, rtol=1e-5)
  assert new.terminated and new.observation.shape == ENV.observation_shape
  weights = jax.vmap(lambda key: ENV.reset(key)[1][2:])(jax.random.split(jax.random.key(2), 500))
  np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
  np.testing.assert_allclose(weights.mean(axis=0), 0.5, atol=0.05)
  assert weights[:, 0].std() > 0.25, 'evenly: the deviation is 0.29'
  alike = treasure_preferences(max_steps=30, scales=(23.7, 19.0), concentration=1e6)
  weights = jax.vmap(lambda key: alike.reset(key)[1][2:])(jax.random.split(jax.random.key(2), 500))
  np.testing.assert_allclose(weights, 0.5, atol=0.01)


def test_bad_settings_are_refused():
  inner = treasure.treasure(max_steps=5, treasure_weight=1.0, time_weight=0.0)
  with pytest.raises(ValueError, match='scales=.*above 0'):
    with_preferences(inner, vector_rewards=treasure.vector_rewards, scales=(1.0, 0.0), concentration=1.0)
  with pytest.raises(ValueError, match='concentration=0.0: all above 0'):
    with_preferences(inner, vector_rewards=treasure.vector_rewards, scales=(1.0, 1.0), concentration=0.0)
  with pytest.raises(ValueError, match='num_preferences=1'):
    pareto.hypervolumes(
        ENV, networks.categorical(ENV, **SHAPE), objectives=('treasure', 'time'), reference=REFERENCE,
        num_preferences=1, max_steps=30,
    )


def evaluation(policy):
  return pareto.hypervolumes(
      ENV, policy, objectives=('treasure', 'time'), reference=REFERENCE, num_preferences=PREFERENCES,
      max_steps=30,
  )


def test_the_volume_of_a_policy_that_dives_at_once():
  """It goes down whatever is preferred: 0.7 in one step, a front of one point, 0.7 x 29."""
  down = networks.Policy(
      init=lambda key: {}, sample=None, score=None,
      mode=lambda params, observations: jnp.ones(observations.shape[:-1], jnp.int32),
  )
  answer, _ = evaluation(down).read(jax.jit(evaluation(down).ask)({'policy': {}}, {}))
  np.testing.assert_allclose(answer['hypervolume'], 0.7 * 29, rtol=1e-5)
  assert answer['front'] == 1


# --- learning -----------------------------------------------------------------------------------------------

DEFAULT = (3e-4, 0.01, 0.99)  # learning rate, entropy coefficient, discount: those of many PPO codes


def train(keys, candidates, num_steps):
  """[candidates, seeds] hypervolumes after training with (learning rate, entropy, discount) [C, 3]."""
  policy, value = networks.categorical(ENV, **SHAPE), networks.state_value(ENV, **SHAPE)

  def one(candidate, key):
    learning_rate, entropy_coef, discount = candidate
    algorithm = ppo(
        unroll(ENV, policy, num_envs=8, num_steps=32), policy, value, clip_low=0.2, clip_high=0.2,
        entropy_coef=entropy_coef, value_coef=0.5, value_clip=10.0, discount=discount, lambda_=0.95,
    )
    toy = agents.Agent(algorithm, policy, {'policy': policy, 'value': value}, {})
    state, _ = agents.trained(
        toy, optax.adam(learning_rate), key[None], num_steps, epochs=2, minibatches=2
    )
    models = jax.tree.map(lambda x: x[0], dict(state.models))
    return evaluation(policy).ask(models, {})['hypervolume']

  over_seeds = jax.vmap(one, (None, 0))
  return np.asarray(jax.jit(jax.vmap(over_seeds, (0, None)))(jnp.array(candidates), keys))


@functools.cache
def search():
  """Random search: volumes on three seeds of the default and five others, and on five other seeds of the
  default and the best."""
  draw = np.random.default_rng(0)
  others = [
      (10 ** draw.uniform(-4, -1.7), 10 ** draw.uniform(-4, -1), 1 - 10 ** draw.uniform(-3, -0.7))
      for _ in range(5)
  ]
  candidates = np.array([DEFAULT, *others], np.float32)
  tried = train(jax.random.split(jax.random.key(0), 3), candidates, 100)
  best = int(tried.mean(axis=1).argmax())
  held_out = train(jax.random.split(jax.random.key(1), 5), candidates[[0, best]], 100)
  return candidates[best], tried, held_out


@pytest.mark.slow
def test_the_best_by_hypervolume_is_better_on_seeds_that_it_was_not_chosen_on():
  """Of 520 that can be had, five held-out seeds: the default has a median of 370 (worst 20: it dives at once
  whatever is preferred), the best of six candidates on three other seeds 510 (worst 495). The default is a
  learning rate of 3e-4 on a short budget, so a weak rival."""
  _, _, (default, tuned) = search()
  assert np.median(tuned) > 1.05 * np.median(default)
  assert tuned.min() > np.median(default)
