"""SUPO: the parts of an episode, each behind a summary, have together the gradient of the whole.

https://arxiv.org/abs/2510.06727
"""

from functools import partial
import types

import jax
import jax.numpy as jnp
import numpy as np

from rlx import reductions
from rlx.advantages import groups
from rlx.advantages.turns import of_trajectories
from rlx.algorithms.policy_gradient import grpo_with
from rlx.losses import policy as policy_losses
from rlx.rewards.of_world import of_world
from rlx.unscored import leave_out

POLICY = types.SimpleNamespace(score=lambda params, batch: (params, jnp.zeros_like(params)))
SAID = np.array([[0, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1], [0, 1, 1, 1], [0, 0, 0, 0]], bool)
REWARDS = np.array([1, 1, 0, 0, 1, np.nan], np.float32)  # three episodes; the last one needed one row only


def gradient(said, rewards, trajectories, truncated, baseline):
  num = len(said)
  batch = {
      'tokens': jnp.zeros(said.shape, jnp.int32), 'action_mask': jnp.asarray(said),
      'rewards': jnp.asarray(rewards), 'groups': jnp.zeros(num, jnp.int32),
      'trajectories': jnp.asarray(trajectories), 'truncated': jnp.asarray(truncated),
      'sampler_logprobs': jnp.zeros(said.shape), 'prompt_lengths': jnp.ones(num, jnp.int32),
  }
  algorithm = grpo_with(
      None, of_world(), POLICY, baseline=baseline,
      surrogate=partial(policy_losses.clipped, clip_low=0.2, clip_high=0.2),
      reduction=partial(reductions.without_truncated, reduction=reductions.token_mean),
  )

  @jax.jit
  def slope():
    models = {'policy': jnp.zeros(said.shape)}
    rows = algorithm.advantage(models, leave_out(batch), None)
    return jax.grad(lambda models: algorithm.loss(models, rows, None)[0])(models)['policy']

  return np.asarray(slope())


def of_parts(truncated, baseline):
  return gradient(SAID, REWARDS, np.arange(6) // 2, np.repeat(truncated, 2), baseline)


def of_wholes(truncated):
  return gradient(
      SAID.reshape(3, 8), REWARDS[::2], np.arange(3), np.array(truncated), groups.normalised
  ).reshape(6, 4)


COUNTED_ONCE = partial(of_trajectories, inner=groups.normalised)


def test_parts_have_together_the_gradient_of_the_whole():
  none = [False, False, False]
  np.testing.assert_allclose(of_parts(none, COUNTED_ONCE), of_wholes(none), rtol=1e-5, atol=1e-7)
  by_row = of_parts(none, groups.normalised)
  assert np.abs(by_row - of_wholes(none)).max() > 1e-2, 'as episodes of their own they have another'


def test_all_parts_of_an_episode_that_is_too_long_are_left_out():
  cut = [False, True, False]
  found = of_parts(cut, COUNTED_ONCE)
  assert not found[2:4].any() and found[0].any() and found[4].any()
  np.testing.assert_allclose(found, of_wholes(cut), rtol=1e-5, atol=1e-7)
