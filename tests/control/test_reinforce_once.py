"""REINFORCE of one step: by hand, and two players who must find the same word."""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.algorithms.control.reinforce_once import reinforce_once
from rlx.envs.control.matrix_game import coordination
from rlx.models import networks


def test_the_gradient_is_reward_above_the_mean_times_score():
  env = coordination(num_actions=3)
  policy = networks.categorical(env, hidden=(4,), activation='tanh')
  params = {'policy': policy.init(jax.random.key(0))}
  batch = {
      'observations': jnp.ones((4, 1)), 'actions': jnp.array([0, 1, 2, 0]),
      'rewards': jnp.array([1.0, 0.0, 0.0, 3.0]),
  }
  algorithm = reinforce_once(lambda models, world, key: (batch, world), policy, entropy_coef=0.5)
  scored = algorithm.advantage(params, batch, None)
  np.testing.assert_allclose(scored['advantages'], [0.0, -1.0, -1.0, 2.0])
  logprobs, entropy = policy.score(params['policy'], batch['observations'], batch['actions'])
  value, metrics = algorithm.loss(params, scored, None)
  expected = -np.mean(np.asarray(logprobs) * [0.0, -1.0, -1.0, 2.0])
  np.testing.assert_allclose(metrics['loss/policy'], expected, rtol=1e-5)
  np.testing.assert_allclose(value, expected - 0.5 * np.mean(entropy), rtol=1e-5)


def test_a_game_of_coordination_pays_for_the_same_word():
  env = coordination(num_actions=3)
  both = env.play(jnp.array([0, 1, 2]), jnp.array([0, 2, 2]))
  np.testing.assert_array_equal(both, [[1, 0, 1], [1, 0, 1]])
