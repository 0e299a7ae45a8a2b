"""CalibRL: the expert is a measure, and nothing to learn by heart; https://arxiv.org/abs/2602.20197"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.calibrl import calibrl
from rlx.algorithms.grpo import grpo
from rlx.losses.anchors import no_kl
from rlx.types import check

CLIP = dict(clip_low=0.2, clip_high=0.2)
# Two groups of two samples, a prompt of one token and one action; of the second both are right.
REWARDS = jnp.array([1.0, 0.0, 1.0, 1.0])
OLD = jnp.log(jnp.array([0.3, 0.4, 0.2, 0.2]))
EXPERT = jnp.log(jnp.array([0.5] * 2 + [0.6] * 2))
TABLE = types.SimpleNamespace(score=lambda params, batch: (first(params), jnp.zeros((4, 2))))


def first(x):
  """The prompt, one column, in front."""
  return jnp.stack([jnp.zeros_like(x), x], axis=1)


def rows():
  mask = jnp.broadcast_to(jnp.array([False, True]), (4, 2))
  return {
      'tokens': jnp.ones((4, 2), jnp.int32), 'action_mask': mask, 'valid': mask,
      'groups': jnp.array([0, 0, 1, 1]), 'rewards': REWARDS,
      'prompt_lengths': jnp.ones(4, jnp.int32), 'sampler_logprobs': first(OLD),
      'expert_logprobs': first(EXPERT), 'expert_mask': mask,
  }


def slopes(algorithm, now, **changed):
  """[4] d loss / d log π of each action, times the number of rows."""
  batch = algorithm.advantage({}, {**rows(), **changed}, None)
  check(batch)
  loss = lambda now: algorithm.loss({'policy': now}, batch, None)[0]
  return np.asarray(jax.grad(loss)(now)) * 4


def method(coef):
  return calibrl(None, None, TABLE, no_kl(), **CLIP, guided_coef=coef, slope=0.5)


@pytest.mark.parametrize('chance, factor', [(0.3, 1.0), (0.55, 0.5)])
def test_a_right_answer_that_is_surer_than_the_expert_is_pushed_by_the_slope_alone(chance, factor):
  """A of the first group is ±1/√2; the right row is pushed up by |A| λ, or by half of that."""
  now = OLD.at[0].set(jnp.log(chance))
  added = slopes(method(0.4), now) - slopes(method(0.0), now)
  np.testing.assert_allclose(added[0], -0.4 * factor / np.sqrt(2), rtol=1e-5)


@pytest.mark.parametrize('chance, factor', [(0.4, 0.5), (0.55, 1.0)])
def test_a_wrong_answer_that_is_less_sure_than_the_expert_is_pushed_by_the_slope_alone(chance, factor):
  now = OLD.at[1].set(jnp.log(chance))
  added = slopes(method(0.4), now) - slopes(method(0.0), now)
  np.testing.assert_allclose(added[1], 0.4 * factor / np.sqrt(2), rtol=1e-5)


def test_a_group_whose_samples_are_alike_teaches_nothing():
  np.testing.assert_array_equal(slopes(method(0.4), OLD)[2:], 0)


def test_without_a_demonstration_or_a_coefficient_it_is_grpo():
  expected = slopes(grpo(None, None, TABLE, no_kl(), **CLIP, entropy_coef=0.0), OLD)
  np.testing.assert_allclose(slopes(method(0.0), OLD), expected, rtol=1e-6)
  none = jnp.zeros((4, 2), bool)
  np.testing.assert_allclose(slopes(method(0.4), OLD, expert_mask=none), expected, rtol=1e-6)
  assert np.abs(slopes(method(0.4), OLD) - expected).max() > 0.1
