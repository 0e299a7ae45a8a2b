"""Several rewards in one advantage, against loops and each other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import groups, objectives

GROUPS = np.array([3, 0, 3, 3, 0, 0, 5, 7, 3, 7], np.int32)  # 5 is alone
WEIGHTS = (1.0, 0.5, 2.0)
FUNCTIONS = {
    name: jax.jit(functools.partial(getattr(objectives, name), weights=WEIGHTS))
    for name in ('sum_then_normalise', 'normalise_then_sum', 'gdpo')
}
EACH = pytest.mark.parametrize('name', FUNCTIONS)


def some_rewards(seed=0):
  """Right or wrong, a length in tokens, and a reward that is the same in all of group 7 and 3."""
  rng = np.random.default_rng(seed)
  rewards = np.stack([rng.integers(0, 2, 10), -100 * rng.random(10), rng.normal(size=10)], axis=1)
  rewards[:6, 0] = [1, 0, 0, 1, 1, 0]
  rewards[np.isin(GROUPS, (3, 7)), 2] = 0.1
  return rewards.astype(np.float32)


def oracle(name, rewards):
  def normalised(r):
    out = np.zeros(10)
    for i in range(10):
      group = r[GROUPS[i] == GROUPS]
      if np.ptp(group) > 1e-6 * np.abs(group).max():
        out[i] = (r[i] - group.mean()) / (group.std(ddof=1) + 1e-6)
    return out

  rewards = rewards.astype(np.float64)
  if name == 'sum_then_normalise':
    return normalised(rewards @ np.array(WEIGHTS))
  total = sum(w * normalised(column) for w, column in zip(WEIGHTS, rewards.T, strict=True))
  if name == 'normalise_then_sum':
    return total
  return (total - total.mean()) / (total.std(ddof=1) + 1e-6)


@EACH
def test_against_a_loop(name):
  for seed in range(3):
    rewards = some_rewards(seed)
    np.testing.assert_allclose(FUNCTIONS[name](rewards, GROUPS), oracle(name, rewards), rtol=1e-4, atol=1e-5)


@EACH
def test_nothing_from_what_does_not_differ(name):
  rewards = some_rewards()
  rewards[GROUPS == 7] = [0.7, 1 / 3, 0.1]
  advantages = np.asarray(FUNCTIONS[name](rewards, GROUPS))
  np.testing.assert_array_equal(advantages[(GROUPS == 5) | (GROUPS == 7)], 0)
  assert np.all(advantages[GROUPS == 3] != 0)
  equal = np.broadcast_to(np.float32([0.1, 0.7, 1 / 3]), (10, 3))
  np.testing.assert_array_equal(FUNCTIONS[name](equal, GROUPS), 0)


@EACH
def test_order_dtype_and_size(name):
  rewards, order = some_rewards(), np.random.default_rng(1).permutation(10)
  expected = np.asarray(FUNCTIONS[name](rewards, GROUPS))
  shuffled = FUNCTIONS[name](rewards[order], GROUPS[order])
  np.testing.assert_allclose(shuffled, expected[order], rtol=1e-4, atol=1e-5)
  half = FUNCTIONS[name](jnp.array(rewards, jnp.bfloat16), GROUPS)
  assert half.dtype == jnp.float32
  np.testing.assert_allclose(half, expected, rtol=0.1, atol=0.05)
  assert np.isfinite(FUNCTIONS[name](1e13 * rewards, GROUPS)).all()


def test_the_unit_of_an_objective_matters_only_to_the_sum():
  rewards = some_rewards()
  rescaled = rewards * np.float32([1, 1000, 1])
  for name in ('normalise_then_sum', 'gdpo'):
    expected = FUNCTIONS[name](rewards, GROUPS)
    np.testing.assert_allclose(FUNCTIONS[name](rescaled, GROUPS), expected, rtol=1e-4, atol=1e-5)
  one, other = (FUNCTIONS['sum_then_normalise'](x, GROUPS) for x in (rewards / [1, 100, 1], rewards))
  assert np.abs(np.asarray(one) - np.asarray(other)).max() > 0.1


def test_mixtures_of_the_same_sum_stay_apart_when_normalised_first():
  """The case of the paper: two of two right, or one of two; (1, 0) and (0, 1) are not the same."""
  rewards = np.zeros((10, 3), np.float32)
  rewards[[0, 2, 3, 8], :2] = [[1, 0], [0, 1], [1, 0], [1, 0]]
  summed, apart = (
      jax.jit(functools.partial(getattr(objectives, name), weights=(1.0, 1.0, 1.0)))(rewards, GROUPS)
      for name in ('sum_then_normalise', 'normalise_then_sum')
  )
  np.testing.assert_array_equal(summed, 0)
  assert apart[0] == pytest.approx(0, abs=1e-5) and apart[2] == pytest.approx(0, abs=1e-5)
  rewards[8, 1] = 1  # (1, 1)
  rewards[3] = 0
  apart = FUNCTIONS['normalise_then_sum'](rewards, GROUPS)
  assert len(np.unique(np.round(np.asarray(apart)[[0, 2, 3, 8]], 3))) == 4


def test_one_objective_is_grpo():
  rewards = some_rewards()[:, :1]
  grpo = jax.jit(groups.normalised)(rewards[:, 0], GROUPS)
  for function in (objectives.sum_then_normalise, objectives.normalise_then_sum):
    advantages = jax.jit(functools.partial(function, weights=(1.0,)))(rewards, GROUPS)
    np.testing.assert_allclose(advantages, grpo, rtol=1e-5, atol=1e-6)


def test_a_weight_for_each():
  with pytest.raises(ValueError, match='2 weights for 3 objectives; pass one for each'):
    jax.eval_shape(functools.partial(objectives.gdpo, weights=(1.0, 2.0)), some_rewards(), GROUPS)
