"""TTI clones what went well: rows of failures count for nothing, in the loss and in its gradient.

https://arxiv.org/abs/2506.07976
"""

import types

import jax
import jax.numpy as jnp
import numpy as np

from rlx.algorithms.sft import sft
from rlx.rollout.kept import only_successes
from rlx.types import stateful
from rlx.unscored import leave_out

POLICY = types.SimpleNamespace(score=lambda params, batch: (params, jnp.zeros_like(params)))
MASK = jnp.array([[False, True, True], [False, True, True], [False, True, False], [False, True, True]])


def episodes(models, world, key):
  return {
      'tokens': jnp.zeros((4, 3), jnp.int32), 'action_mask': MASK, 'rewards': jnp.array([1.0, 0.0, 1.0, 0.9]),
      'groups': jnp.zeros(4, jnp.int32),
  }, world


def gradient(rollout):
  algorithm = sft(rollout, POLICY)
  models = {'policy': jnp.zeros((4, 3))}
  batch, _ = stateful(algorithm.rollout)(models, {}, jax.random.key(0))
  batch = algorithm.advantage(models, leave_out(batch), None)
  slope = jax.grad(lambda models: algorithm.loss(models, batch, None)[0])(models)['policy']
  return batch, np.asarray(slope)


def test_only_successes_are_cloned_and_each_of_their_tokens_weighs_the_same():
  batch, slope = gradient(only_successes(episodes, success=1.0))
  assert batch['turns/kept'].tolist() == [1, 0, 1, 0]
  np.testing.assert_allclose(slope, -np.array([[0, 1, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]]) / 3, rtol=1e-6)
  _, everything = gradient(episodes)
  assert everything[1].any() and everything[3].any(), 'without the filter failures are cloned as well'


def test_a_batch_without_a_success_teaches_nothing():
  _, slope = gradient(only_successes(episodes, success=2.0))
  assert not slope.any()
