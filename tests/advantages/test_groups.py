"""Group baselines against loops over groups, with ragged groups in any order."""

import functools
import itertools

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


def of_few(function, rewards, ids, *more):
  """Of fewer rows: the others are a group of their own, in which nothing differs."""
  num = len(rewards)
  fill = lambda x, value: np.concatenate([x, np.full(13 - num, value)])
  arrays = fill(np.float32(rewards), np.float32(0)), fill(np.int32(ids), np.int32(12))
  return np.asarray(function(*arrays, *(fill(np.int32(x), np.int32(0)) for x in more)))[:num]


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
  rewards, ids = [1.0, 5.0, 0.0, 0.0, 7.0], [0, 1, 0, 0, 1]
  few = lambda name: of_few(ADVANTAGES[name], rewards, ids)
  np.testing.assert_allclose(few('centred'), [2 / 3, -1, -1 / 3, -1 / 3, 1], rtol=1e-6)
  np.testing.assert_allclose(few('leave_one_out'), [1, -2, -1 / 2, -1 / 2, 2], rtol=1e-6)
  deviation = [3**-0.5, 2**0.5]  # of (1, 0, 0) and of (5, 7), over n - 1
  expected = [2 / 3 / deviation[0], -1 / deviation[1], *[-1 / 3 / deviation[0]] * 2, 1 / deviation[1]]
  np.testing.assert_allclose(few('normalised'), expected, rtol=1e-5)


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
  advantages = of_few(ADVANTAGES['normalised'], [100.0, 100.001], [0, 0])
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
  advantages = np.asarray(ADVANTAGES['normalised'](rewards, ids))
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
  ids = np.arange(13, dtype=np.int32) // 4
  whole = np.array([1, 0, 2, 2, 5, 5, 7, 5, 1, 1, 1, 1, 3])
  expected = ADVANTAGES[name](whole.astype(np.float32), ids)
  for dtype in (jnp.int32, jnp.bfloat16):
    advantages = ADVANTAGES[name](jnp.array(whole, dtype), ids)
    assert advantages.dtype == jnp.float32
    np.testing.assert_array_equal(advantages, expected)


def test_is_informative():
  informative = of_few(jax.jit(groups.is_informative), [1.0, 5.0, 0.0, 5.0, 2.0], [0, 1, 0, 1, 4])
  np.testing.assert_array_equal(informative, [True, False, True, False, False])


@ALL
def test_gradients_of_rewards_are_finite(name):
  """Rewards may come from a model; a group of equal ones must not divide by its deviation of zero."""
  total = lambda rewards: ADVANTAGES[name](rewards, jnp.array([0, 0, 1])).sum()
  gradient = jax.jit(jax.grad(total))(np.float32([1, 1, 2]))
  assert np.isfinite(gradient).all()


def test_a_nan_reward_is_not_silently_zero():
  """It is no reward: its row is left out of the group, whose mean is 2 here and would be 4/3 with a 0."""
  advantages = of_few(ADVANTAGES['centred'], [1.0, np.nan, 3.0, 0.0, 1.0], [0, 0, 0, 1, 1])
  assert advantages.tolist() == [-1, 0, 1, -0.5, 0.5]


# All below have the 13 rows of `ragged`, so that each function is compiled once.
K = 2
OTHERS = {
    'batch_normalised': jax.jit(groups.batch_normalised),
    'batch_scaled': jax.jit(groups.batch_scaled),
    'length_weighted': jax.jit(lambda rewards, ids: groups.length_weighted(rewards, LENGTHS, ids)),
    'mean_normalised': jax.jit(groups.mean_normalised),
    'pass_at_k_centred': jax.jit(functools.partial(groups.pass_at_k_centred, k=K)),
    'pass_at_k': jax.jit(functools.partial(groups.pass_at_k, k=K)),
    'best_margin': jax.jit(groups.best_margin),
}
PLAIN = {name: jax.jit(getattr(groups, name)) for name in ('pool_normalised', 'pool_scaled', 'join')}
EACH = pytest.mark.parametrize('name', OTHERS)
BINARY = ('pass_at_k_centred', 'pass_at_k')
LENGTHS = jnp.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9])


def rewards_for(name, seed=0):
  """Those of `ragged`, as the function wants them: right or wrong, or not below 0."""
  rewards, ids = ragged(seed)
  if name in BINARY:
    return (rewards > np.median(rewards[ids == 2])).astype(np.float32), ids
  return (np.abs(rewards) if name == 'mean_normalised' else rewards), ids


def group_oracle(name, rewards, ids):
  rewards = rewards.astype(np.float64)
  out, live = np.zeros(len(rewards)), np.array([np.ptp(rewards[ids == i]) > 0 for i in ids])
  c = np.array([r - rewards[ids == i].mean() for r, i in zip(rewards, ids, strict=True)]) * live
  for at in np.flatnonzero(live):
    rows = np.flatnonzero(ids == ids[at])
    r = rewards[rows]
    out[at] = {
        'batch_normalised': lambda: c[at] / (c.std(ddof=1) + 1e-6),
        'batch_scaled': lambda: c[at] / (rewards.std(ddof=1) + 1e-6),
        'length_weighted': lambda: rewards[at] - np.average(r, weights=np.asarray(LENGTHS)[rows]),
        'mean_normalised': lambda: c[at] / r.mean(),
        'best_margin': lambda: np.sort(r)[-1] - np.sort(r)[-2] if rewards[at] == r.max() else 0,
        'pass_at_k_centred': lambda: pass_at_k_by_sets(r, K)[0][list(rows).index(at)],
        'pass_at_k': lambda: pass_at_k_by_sets(r, K)[1][list(rows).index(at)],
    }[name]()
  return out


def pass_at_k_by_sets(r, k):
  """All sets of k samples: the mean of those that a sample is in, against mean and deviation of all."""
  sets = list(itertools.combinations(range(len(r)), k))
  solved = np.array([any(r[i] for i in chosen) for chosen in sets], float)
  own = [np.mean([s for s, chosen in zip(solved, sets, strict=True) if i in chosen]) for i in range(len(r))]
  centred = np.array(own) - solved.mean()
  return centred, centred / (solved.std() or 1)


@EACH
def test_others_against_loops(name):
  for seed in range(3):
    rewards, ids = rewards_for(name, seed)
    expected = group_oracle(name, rewards, ids)
    assert np.count_nonzero(expected) > (1 if name == 'best_margin' else 4)
    np.testing.assert_allclose(OTHERS[name](rewards, ids), expected, rtol=3e-5, atol=3e-6)


@EACH
def test_others_are_exactly_zero_where_nothing_differs(name):
  """The group of equal rewards, the group of one, and one of rewards that differ by their rounding."""
  rewards, ids = rewards_for(name)
  pair = residues()[0]
  rewards[ids == 7] = [pair[0], pair[1]]
  advantages = np.asarray(OTHERS[name](rewards, ids))
  for group in (0, 4, 7):
    np.testing.assert_array_equal(advantages[ids == group], 0)
  assert advantages[ids == 2].any()
  for value in (0.0, 0.1, 1 / 3, 12345.678):
    np.testing.assert_array_equal(OTHERS[name](np.full(13, value, np.float32), ids), 0)


@pytest.mark.parametrize('name', [name for name in OTHERS if name != 'length_weighted'])
def test_others_do_not_depend_on_order_or_names(name):
  rewards, ids = rewards_for(name, 2)
  order = np.random.default_rng(0).permutation(13)
  renamed = np.unique(ids, return_inverse=True)[1].astype(np.int32)
  shuffled = OTHERS[name](rewards[order], renamed[order])
  np.testing.assert_allclose(shuffled, np.asarray(OTHERS[name](rewards, ids))[order], rtol=1e-5, atol=1e-6)


def test_others_are_float32_of_rewards_in_bfloat16():
  rewards = {name: np.round(rewards_for(name)[0]) for name in OTHERS}  # within 8 bits
  ids = ragged(0)[1]
  halves = jax.jit(lambda x: {name: OTHERS[name](x[name], ids) for name in x})(
      {name: jnp.array(x, jnp.bfloat16) for name, x in rewards.items()}
  )
  for name, half in halves.items():
    assert half.dtype == jnp.float32
    np.testing.assert_allclose(half, OTHERS[name](rewards[name], ids), rtol=1e-5, atol=1e-6, err_msg=name)


@EACH
def test_others_stay_finite_and_keep_their_signs(name):
  rewards, ids = rewards_for(name)
  huge = np.asarray(OTHERS[name](1e15 * rewards, ids))
  assert np.isfinite(huge).all()
  np.testing.assert_array_equal(np.sign(huge), np.sign(OTHERS[name](rewards, ids)))


def test_length_weighted_goes_with_the_rows():
  opo = jax.jit(lambda rewards, ids, lengths: groups.length_weighted(rewards, lengths, ids))
  rewards, ids, lengths = [1.0, 0.0, 4.0], [2, 2, 0], np.array([1, 3, 7])
  np.testing.assert_allclose(of_few(opo, rewards, ids, lengths), [0.75, -0.25, 0], rtol=1e-6)
  backwards = of_few(opo, rewards[::-1], ids[::-1], lengths[::-1])
  np.testing.assert_allclose(backwards, [0, -0.25, 0.75], rtol=1e-6)
  np.testing.assert_allclose(of_few(opo, rewards, ids, 0 * lengths), [0.5, -0.5, 0], rtol=1e-6)


def test_pools_of_single_groups_are_grpo_and_one_pool_is_the_batch():
  rewards, ids = ragged(3)
  grpo, centred = (np.asarray(ADVANTAGES[name](rewards, ids)) for name in ('normalised', 'centred'))
  pools = (ids > 2).astype(np.int32)  # two tasks
  for name, varies in (('pool_normalised', centred), ('pool_scaled', rewards)):
    np.testing.assert_allclose(PLAIN[name](rewards, ids, ids), grpo, rtol=1e-5, atol=1e-6)
    advantages = np.asarray(PLAIN[name](rewards, ids, pools))
    for pool in (0, 1):
      rows = pools == pool
      expected = centred[rows] / (varies[rows].std(ddof=1) + 1e-6)
      np.testing.assert_allclose(advantages[rows], expected, rtol=1e-4, atol=1e-6)


def test_globally_normalised():
  rewards, _ = ragged(0)
  function = jax.jit(groups.globally_normalised)
  expected = (rewards - rewards.mean()) / rewards.std(ddof=1)
  np.testing.assert_allclose(function(rewards), expected, rtol=1e-4, atol=1e-6)
  np.testing.assert_array_equal(function(np.full(13, 0.1, np.float32)), 0)


def test_against_counts_what_was_not_expected_even_where_all_are_equal():
  advantages = groups.against(jnp.array([1.0, 1.0, 0.0], jnp.bfloat16), jnp.array([0.25, 1.0, 0.5]))
  np.testing.assert_array_equal(advantages, [0.75, 0, -0.5])
  assert advantages.dtype == jnp.float32


def test_pass_at_k_of_every_size():
  """Groups of 5 with 0 to 5 right samples, for k up to all of them."""
  rewards = np.array([[i < c for i in range(5)] for c in range(6)], np.float32)
  ids = np.repeat(np.arange(6), 5).astype(np.int32)
  both = lambda r, g, k: (groups.pass_at_k_centred(r, g, k=k), groups.pass_at_k(r, g, k=k))
  results = jax.jit(lambda r: {k: both(r, ids, k) for k in (1, 3, 5)})(rewards.reshape(-1))
  for k, (centred, scaled) in results.items():
    want = np.array([pass_at_k_by_sets(r, k) for r in rewards])  # [6, 2, 5]
    np.testing.assert_allclose(centred, want[:, 0].reshape(-1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scaled, want[:, 1].reshape(-1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(scaled).reshape(6, 5).sum(axis=1), 0, atol=1e-6)
    if k == 1:
      grpo = np.array([r - r.mean() for r in rewards]) / (rewards.std(axis=1, keepdims=True) + 1e-9)
      np.testing.assert_allclose(scaled, grpo.reshape(-1), rtol=1e-5, atol=1e-6)


def test_pass_at_one_is_the_centred_success():
  rewards, ids = rewards_for('pass_at_k')
  success = jax.jit(functools.partial(groups.pass_at_k_centred, k=1))(rewards, ids)
  np.testing.assert_array_equal(success, ADVANTAGES['centred'](rewards, ids))


def test_groups_below_k_have_none_and_no_k_is_an_error():
  three = jax.jit(functools.partial(groups.pass_at_k, k=3))
  advantages = of_few(three, [1.0, 0.0, 1.0, 0.0, 0.0, 0.0], [0, 0, 1, 1, 1, 1])
  np.testing.assert_array_equal(advantages != 0, [0, 0, 1, 1, 1, 1])
  with pytest.raises(ValueError, match='k=0 is not'):
    groups.pass_at_k_centred(jnp.zeros(2), jnp.zeros(2, jnp.int32), k=0)


def test_the_margin_of_the_best_and_none_for_ties():
  rewards, ids = [1.0, 0.0, 0.0, 5.0, 5.0, 2.0, -1.0, -3.0], [0, 0, 0, 3, 3, 3, 6, 6]
  np.testing.assert_array_equal(of_few(OTHERS['best_margin'], rewards, ids), [1, 0, 0, 0, 0, 0, 2, 0])


def test_rare_successes_weigh_one_over_their_share_in_maxrl():
  rewards, ids = [1.0, 0, 0, 0, 1, 1, 0, 1, -1, 0], [0] * 4 + [5] * 4 + [7] * 2
  expected = [3, -1, -1, -1, 1 / 3, 1 / 3, -1, 1 / 3, 0, 0]
  np.testing.assert_allclose(of_few(OTHERS['mean_normalised'], rewards, ids), expected, rtol=1e-6)


def test_join():
  prompts, roles = np.array([9, 4, 9, 4, 9, -1] * 2 + [3]), np.array([0, 0, 1, 0, 0, 7] * 2 + [3])
  joined = PLAIN['join'](prompts, roles)
  np.testing.assert_array_equal(joined, [0, 1, 2, 1, 0, 5] * 2 + [12])
  assert joined.dtype == jnp.int32
  np.testing.assert_array_equal(PLAIN['join'](roles, roles), [0, 0, 2, 0, 0, 5] * 2 + [12])


def test_the_advantage_per_role_is_that_of_each_role_alone():
  rewards, _ = ragged(0)
  prompts, roles = np.arange(13) % 2, np.arange(13) // 5
  advantages = np.asarray(ADVANTAGES['centred'](rewards, PLAIN['join'](prompts, roles)))
  for prompt, role in itertools.product(range(2), range(3)):
    rows = (prompts == prompt) & (roles == role)
    expected = rewards[rows] - rewards[rows].mean()
    np.testing.assert_allclose(advantages[rows], expected, rtol=1e-4, atol=1e-5)


TOKEN_MASK = np.array([
    [0, 1, 1, 0, 1, 0], [0, 1, 0, 1, 1, 1], [0, 1, 1, 0, 0, 0], [0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0],
], bool)
TOKEN_GROUPS = np.array([3, 3, 3, 0, 0], np.int32)
token_baseline = jax.jit(groups.optimal_token_baseline)


def token_arrays():
  rng = np.random.default_rng(0)
  returns, energies = rng.normal(size=(5, 6)), rng.uniform(0.1, 1, size=(5, 6))
  return returns.astype(np.float32), energies.astype(np.float32)


def test_the_token_baseline_against_a_loop():
  returns, energies = token_arrays()
  expected, alone = np.zeros((5, 6)), 0
  decisions = [np.flatnonzero(row) for row in TOKEN_MASK]
  for b in range(5):
    for t, column in enumerate(decisions[b]):
      rows = [j for j in range(5) if TOKEN_GROUPS[j] == TOKEN_GROUPS[b] and len(decisions[j]) > t]
      paths = np.array([energies[j, decisions[j][: t + 1]].sum() for j in rows])
      there = np.array([returns[j, decisions[j][t]] for j in rows])
      expected[b, column] = returns[b, column] - (paths * there).sum() / paths.sum()
      alone += len(rows) == 1
  assert alone == 4  # the last token of the second row, and the row that has its group for itself
  advantages = token_baseline(returns, energies, TOKEN_MASK, TOKEN_GROUPS)
  np.testing.assert_allclose(advantages, expected, rtol=1e-4, atol=1e-6)


def test_with_equal_energies_the_token_baseline_is_the_mean_and_with_equal_returns_it_is_all():
  returns, energies = token_arrays()
  row_returns = np.broadcast_to(returns[:, :1], (5, 6))
  ones = np.ones((5, 6), bool)
  advantages = token_baseline(row_returns, np.ones((5, 6), np.float32), ones, TOKEN_GROUPS)
  centred = of_few(ADVANTAGES['centred'], returns[:, 0], TOKEN_GROUPS)
  np.testing.assert_allclose(advantages, np.repeat(centred[:, None], 6, axis=1), rtol=1e-5, atol=1e-6)
  equal = token_baseline(np.full((5, 6), 0.1, np.float32), energies, ones, TOKEN_GROUPS)
  np.testing.assert_array_equal(equal, 0)
  plain = token_baseline(row_returns, 0 * energies, ones, TOKEN_GROUPS)  # no energies, plain centring
  np.testing.assert_allclose(plain, advantages, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('bad', [1e30, np.nan])
def test_the_token_baseline_looks_only_at_decisions(bad):
  clean = token_baseline(*token_arrays(), TOKEN_MASK, TOKEN_GROUPS)
  poisoned = token_baseline(
      *(np.where(TOKEN_MASK, x, bad).astype(np.float32) for x in token_arrays()), TOKEN_MASK, TOKEN_GROUPS
  )
  np.testing.assert_array_equal(poisoned, clean)
  np.testing.assert_array_equal(np.asarray(clean)[~TOKEN_MASK], 0)


def test_score_energies_are_the_squared_norm_of_the_gradient_of_the_logits():
  pi = np.array([[0.2, 0.7, 0.1], [0.25, 0.25, 0.5]])
  gradient = np.array([0.0, 1.0, 0.0]) - pi  # of log π(1)
  energies = groups.score_energies(jnp.log(pi[:, 1]), jnp.array((pi**2).sum(axis=1)))
  np.testing.assert_allclose(energies, (gradient**2).sum(axis=1), rtol=1e-5)
