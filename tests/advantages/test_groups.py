"""Group baselines against loops over groups, with ragged groups in any order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import groups

SIZES = (3, 1, 2, 5, 2)
ADVANTAGES = {name: jax.jit(getattr(groups, name)) for name in ('centred', 'normalised', 'leave_one_out')}
ALL = pytest.mark.parametrize('name', ADVANTAGES)


def ragged(seed):
  """Shuffled rows of ragged groups with ids that have gaps; group 4 is of equal rewards."""
  rng = np.random.default_rng(seed)
  ids = np.repeat([4, 0, 7, 2, 11], SIZES)
  rewards = np.where(ids == 2, rng.normal(3, 10, ids.size), rng.integers(0, 3, ids.size)).astype(np.float32)
  rewards[ids == 4] = 0.1
  order = rng.permutation(ids.size)
  return rewards[order], ids[order].astype(np.int32)


def oracle(name, rewards, ids):
  """float64 and a loop; equal groups and groups of one are zero by definition."""
  rewards = rewards.astype(np.float64)
  out = np.zeros(len(rewards))
  for i, reward in enumerate(rewards):
    group = rewards[ids == ids[i]]
    others = rewards[(ids == ids[i]) & (np.arange(len(ids)) != i)]
    if group.min() == group.max():
      continue
    out[i] = {
        'centred': lambda: reward - group.mean(),
        'normalised': lambda: (reward - group.mean()) / (group.std(ddof=1) + 1e-6),
        'leave_one_out': lambda: reward - others.mean(),
    }[name]()
  return out


@ALL
@pytest.mark.parametrize('seed', range(4))
def test_against_a_loop_over_ragged_shuffled_groups(name, seed):
  rewards, ids = ragged(seed)
  result = ADVANTAGES[name](jnp.array(rewards), jnp.array(ids))
  np.testing.assert_allclose(result, oracle(name, rewards, ids), rtol=2e-5, atol=2e-6)


def test_by_hand():
  rewards, ids = jnp.array([1.0, 5.0, 0.0, 0.0, 7.0]), jnp.array([0, 1, 0, 0, 1])
  np.testing.assert_allclose(groups.centred(rewards, ids), [2 / 3, -1, -1 / 3, -1 / 3, 1], rtol=1e-6)
  np.testing.assert_allclose(groups.leave_one_out(rewards, ids), [1, -2, -1 / 2, -1 / 2, 2], rtol=1e-6)
  deviation = [3**-0.5, 2**0.5]  # of (1, 0, 0) and of (5, 7), over n - 1
  expected = [2 / 3 / deviation[0], -1 / deviation[1], *[-1 / 3 / deviation[0]] * 2, 1 / deviation[1]]
  np.testing.assert_allclose(groups.normalised(rewards, ids), expected, rtol=1e-5)


@ALL
@pytest.mark.parametrize('reward', [0.0, 0.1, 0.7, 1 / 3, -1e6, 12345.678])
@pytest.mark.parametrize('size', [1, 3, 7])
def test_equal_rewards_teach_exactly_nothing(name, reward, size):
  """The mean of equal floats need not be that float: 3 x 0.1 / 3 differs from 0.1 in its last bit."""
  advantages = ADVANTAGES[name](jnp.full(size, reward), jnp.zeros(size, jnp.int32))
  np.testing.assert_array_equal(advantages, 0)


def residues():
  """Rewards that are equal but for the order in which their parts were added, in float32."""
  parts = np.array([[0.1, 0.3, 0.5], [0.1, 0.5, 0.7], [0.2, 0.5, 0.7]], np.float32)
  return [((a + b) + c, a + (b + c)) for a, b, c in [*parts, *(1024 * parts)]]


def test_the_residues_are_there():
  assert all(a != b for a, b in residues())


@ALL
@pytest.mark.parametrize('pair', residues(), ids=str)
def test_a_rounding_residue_is_no_variance(name, pair):
  advantages = ADVANTAGES[name](jnp.array([*pair, pair[0]]), jnp.zeros(3, jnp.int32))
  np.testing.assert_array_equal(advantages, 0)


def test_small_but_real_differences_count():
  advantages = groups.normalised(jnp.array([100.0, 100.001]), jnp.zeros(2, jnp.int32))
  # The mean of the two has a rounding error of 4e-6, 0.8 % of their distance from it.
  np.testing.assert_allclose(advantages, [-(2**-0.5), 2**-0.5], rtol=2e-2)


@ALL
def test_a_group_of_one_is_zero(name):
  rewards = jnp.array([5.0, -3.0, 0.3])
  np.testing.assert_array_equal(ADVANTAGES[name](rewards, jnp.arange(3)), 0)


@ALL
def test_sums_to_zero_in_each_group(name):
  rewards, ids = ragged(0)
  advantages = ADVANTAGES[name](jnp.array(rewards), jnp.array(ids))
  for group in np.unique(ids):
    assert np.asarray(advantages)[ids == group].sum() == pytest.approx(0, abs=1e-5)


def test_normalised_has_unit_deviation():
  rewards, ids = ragged(1)
  advantages = np.asarray(groups.normalised(jnp.array(rewards), jnp.array(ids)))
  assert advantages[ids == 2].std(ddof=1) == pytest.approx(1, rel=1e-5)


@ALL
def test_neither_order_nor_names_of_groups_matter(name):
  rewards, ids = ragged(2)
  order = np.random.default_rng(0).permutation(len(ids))
  renamed = np.unique(ids, return_inverse=True)[1].astype(np.int32)
  advantage = ADVANTAGES[name]
  expected = np.asarray(advantage(jnp.array(rewards), jnp.array(ids)))
  shuffled = advantage(jnp.array(rewards[order]), jnp.array(renamed[order]))
  np.testing.assert_allclose(shuffled, expected[order], rtol=1e-5, atol=1e-6)


@ALL
def test_float32_from_any_rewards(name):
  ids = jnp.array([0, 0, 1, 1])
  expected = ADVANTAGES[name](jnp.array([1.0, 0.0, 2.0, 2.0]), ids)
  for dtype in (jnp.int32, jnp.bfloat16):
    advantages = ADVANTAGES[name](jnp.array([1, 0, 2, 2], dtype), ids)
    assert advantages.dtype == jnp.float32
    np.testing.assert_array_equal(advantages, expected)


def test_is_informative():
  rewards, ids = jnp.array([1.0, 5.0, 0.0, 5.0, 2.0]), jnp.array([0, 1, 0, 1, 4])
  np.testing.assert_array_equal(groups.is_informative(rewards, ids), [True, False, True, False, False])


@ALL
def test_gradients_of_rewards_are_finite(name):
  """Rewards may come from a model; a group of equal ones must not divide by its deviation of zero."""
  total = lambda rewards: ADVANTAGES[name](rewards, jnp.array([0, 0, 1])).sum()
  gradient = jax.grad(total)(jnp.array([1.0, 1.0, 2.0]))
  assert np.isfinite(gradient).all()


def test_a_nan_reward_is_not_silently_zero():
  rewards, ids = jnp.array([1.0, jnp.nan, 0.0, 1.0]), jnp.array([0, 0, 1, 1])
  advantages = np.asarray(groups.centred(rewards, ids))
  assert np.isnan(advantages[:2]).all() and (advantages[2:] == [-0.5, 0.5]).all()
