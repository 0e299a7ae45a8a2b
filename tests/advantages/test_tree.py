"""Trees by hand, and against plain Python on ragged groups in any order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import groups as group_advantages
from rlx.advantages import tree

prefix_nodes = jax.jit(tree.prefix_nodes)
node_values = jax.jit(tree.node_values)
prefix_td, subgroups = jax.jit(tree.prefix_td), jax.jit(tree.subgroups)
segment_td = jax.jit(tree.segment_td, static_argnames='length_power')


def some_groups(seed, *, shuffled=True, alphabet=2):
  """24 rows of 3 groups over a small alphabet, so that many share prefixes; prompts differ by group."""
  rng = np.random.default_rng(seed)
  num, columns = 24, 9
  groups = rng.permutation(np.repeat([5, 0, 17], 8)) if shuffled else np.repeat([0, 1, 2], 8)
  lengths = rng.integers(1, 8, num)
  index = np.arange(columns)[None] - 1
  mask = (index >= 0) & (index < lengths[:, None])
  tokens = np.where(index < 0, groups[:, None], rng.integers(0, alphabet, (num, columns)))
  rewards = rng.integers(0, 2, num).astype(np.float32)
  return tokens.astype(np.int32), mask, groups.astype(np.int32), rewards


def prefixes(tokens, mask, groups):
  """The identity of each node, spelled out: the group and all that was said up to the column."""
  return [
      [(groups[b], *tokens[b, : t + 1]) if mask[b, t] else None for t in range(tokens.shape[1])]
      for b in range(len(tokens))
  ]


def rows_through(names, row, column):
  return [b for b in range(len(names)) if names[b][column] == names[row][column]]


@pytest.mark.parametrize('seed', range(3))
def test_rows_share_a_node_as_long_as_they_are_equal(seed):
  tokens, mask, groups, rewards = some_groups(seed)
  nodes = prefix_nodes(tokens, mask, groups)
  values = node_values(rewards, nodes)
  names = prefixes(tokens, mask, groups)
  shared = 0
  for b in range(len(tokens)):
    for t in range(tokens.shape[1]):
      if not mask[b, t]:
        assert nodes[b, t] == -1 and values[b, t] == 0
        continue
      rows = rows_through(names, b, t)
      shared += len(rows) > 1
      assert nodes[b, t] == min(rows)
      np.testing.assert_allclose(values[b, t], rewards[rows].mean(), rtol=1e-6)
  assert shared > 20, 'these groups are no test'


def test_observations_part_rows_and_padding_shares_nothing():
  tokens = np.array([[7, 1, 8, 2], [7, 1, 9, 2], [7, 1, 8, 2], [7, 1, 0, 0]], np.int32)
  mask = np.array([[0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 1]], bool)
  nodes = prefix_nodes(tokens, mask, np.zeros(4, np.int32))
  assert nodes.tolist() == [[-1, 0, -1, 0], [-1, 0, -1, 1], [-1, 0, -1, 0], [-1, 0, 3, 3]]
  ended = np.where(np.arange(4) < 2, mask, mask & (tokens != 0))  # the last row is over after one token
  other = np.where(ended[3] | (np.arange(4) == 0), tokens[3], 8)
  nodes = prefix_nodes(np.stack([tokens[0], other]), np.stack([mask[0] | (np.arange(4) == 2), ended[3]]),
                       np.zeros(2, np.int32))
  assert nodes.tolist() == [[-1, 0, 0, 0], [-1, 0, -1, -1]]


def test_values_take_any_ids():
  nodes = np.array([[9, 40], [9, 41], [3, 40], [9, 41]], np.int32)
  values = node_values(np.array([1.0, 2.0, 4.0, 6.0], np.float32), nodes)
  np.testing.assert_allclose(values, [[3, 2.5], [3, 4], [4, 2.5], [3, 4]])


# The hand tree: rows `AAx`, `AAy`, `AB`, `B` with outcomes 1, 0, 1, 0; their mean is 1/2, and the unbiased
# variance of the outcomes is 4 * 1/4 / 3 = 1/3.
TOKENS = np.array([[5, 1, 1, 3], [5, 1, 1, 4], [5, 1, 2, 0], [5, 2, 0, 0]], np.int32)
MASK = np.array([[0, 1, 1, 1], [0, 1, 1, 1], [0, 1, 1, 0], [0, 1, 0, 0]], bool)
GROUPS, REWARDS = np.zeros(4, np.int32), np.array([1, 0, 1, 0], np.float32)
# V(A) = 2/3, V(AA) = 1/2, V(AAx) = 1, V(AAy) = 0, V(AB) = 1, V(B) = 0.


def hand_nodes():
  return prefix_nodes(TOKENS, MASK, GROUPS)


def test_the_hand_tree_of_tempo():
  outcome = np.array([[0.5], [-0.5], [0.5], [-0.5]])
  change = np.array([
      [0, 2 / 3 - 1 / 2, 1 / 2 - 2 / 3, 1 - 1 / 2],
      [0, 2 / 3 - 1 / 2, 1 / 2 - 2 / 3, 0 - 1 / 2],
      [0, 2 / 3 - 1 / 2, 1 - 2 / 3, 0],
      [0, 0 - 1 / 2, 0, 0],
  ])
  expected = np.where(MASK, outcome + change, 0) / (3**-0.5)
  np.testing.assert_allclose(prefix_td(REWARDS, hand_nodes(), GROUPS), expected, rtol=1e-5, atol=1e-6)


def test_the_hand_tree_of_treepo():
  """Row 0 is in the group, in A and in AA: 1/3 (1/2 + 1/3 + 1/2). `B` is in the group alone."""
  expected = [
      (1 / 2 + (1 - 2 / 3) + (1 - 1 / 2)) / 3,
      (-1 / 2 + (0 - 2 / 3) + (0 - 1 / 2)) / 3,
      (1 / 2 + (1 - 2 / 3)) / 2,
      -1 / 2,
  ]
  np.testing.assert_allclose(subgroups(REWARDS, hand_nodes(), GROUPS), expected, rtol=1e-5)


def test_the_hand_tree_of_rose():
  plain = np.array([
      [0, 2 / 3 - 1 / 2, 1 / 2 - 2 / 3, 1 - 1 / 2],
      [0, 2 / 3 - 1 / 2, 1 / 2 - 2 / 3, 0 - 1 / 2],
      [0, 2 / 3 - 1 / 2, 1 - 2 / 3, 0],
      [0, 0 - 1 / 2, 0, 0],
  ])
  np.testing.assert_allclose(segment_td(REWARDS, hand_nodes(), GROUPS, length_power=0.0), plain, atol=1e-6)
  # The shortest right row is `AB`; row 0 parts from it after A, with two tokens to go against one.
  scaled = plain.copy()
  scaled[0, 2] -= (1 / 6) * (1 - (1 / 2) ** 2)
  scaled[0, 3] -= (1 / 2) * (1 - (1 / 2) ** 2)
  np.testing.assert_allclose(segment_td(REWARDS, hand_nodes(), GROUPS, length_power=2.0), scaled, atol=1e-6)


def test_a_segment_has_one_advantage():
  """Rows that part only at their third token: the first two are one segment, worth V - mean."""
  tokens = np.array([[1, 1, 1], [1, 1, 2], [2, 1, 1], [2, 2, 1]], np.int32)
  rewards = np.array([1, 1, 0, 1], np.float32)
  mask = np.ones_like(tokens, bool)
  nodes = prefix_nodes(tokens, mask, GROUPS)
  expected = [[0.25, 0.25, 0], [0.25, 0.25, 0], [-0.25, -0.5, -0.5], [-0.25, 0.5, 0.5]]
  np.testing.assert_allclose(segment_td(rewards, nodes, GROUPS, length_power=0.0), expected, atol=1e-6)


@pytest.mark.parametrize('seed', range(3))
def test_against_plain_python(seed):
  tokens, mask, groups, rewards = some_groups(seed, shuffled=False)
  names, nodes = prefixes(tokens, mask, groups), prefix_nodes(tokens, mask, groups)
  td, nested = prefix_td(rewards, nodes, groups), subgroups(rewards, nodes, groups)
  segments = segment_td(rewards, nodes, groups, length_power=0.0)
  for b, reward in enumerate(rewards):
    group = rewards[groups == groups[b]]
    columns = np.flatnonzero(mask[b])
    sets = [rows_through(names, b, t) for t in columns]
    values = [group.mean(), *(rewards[rows].mean() for rows in sets)]
    for i, t in enumerate(columns):
      want = (reward - group.mean() + values[i + 1] - values[i]) / (group.std(ddof=1) + 1e-6)
      np.testing.assert_allclose(td[b, t], want, rtol=1e-4, atol=1e-5)
      start = next(j for j in range(i + 1) if sets[j] == sets[i])
      np.testing.assert_allclose(segments[b, t], values[i + 1] - values[start], rtol=1e-4, atol=1e-5)
    subtrees = [rows for i, rows in enumerate(sets) if len(rows) > 1 and (i == 0 or rows != sets[i - 1])]
    terms = [reward - group.mean(), *(reward - rewards[rows].mean() for rows in subtrees)]
    np.testing.assert_allclose(nested[b], np.mean(terms), rtol=1e-4, atol=1e-5)


def test_without_a_shared_prefix_tempo_is_grpo_and_the_first_token_counts_twice():
  rng = np.random.default_rng(0)
  tokens = np.concatenate([np.zeros((8, 1)), np.arange(8)[:, None], rng.integers(0, 8, (8, 4))], axis=1)
  mask = np.arange(6)[None] > np.zeros((8, 1))
  groups, rewards = np.repeat([0, 4], 4).astype(np.int32), rng.normal(size=8).astype(np.float32)
  nodes = prefix_nodes(tokens.astype(np.int32), mask, groups)
  grpo = group_advantages.normalised(rewards, groups)[:, None]
  expected = np.concatenate([0 * grpo, 2 * grpo, *[grpo] * 4], axis=1)
  np.testing.assert_allclose(prefix_td(rewards, nodes, groups), expected, rtol=1e-6, atol=1e-6)
  np.testing.assert_allclose(
      subgroups(rewards, nodes, groups), group_advantages.centred(rewards, groups), rtol=1e-6
  )


def test_in_shared_tokens_the_terms_of_deeper_subtrees_cancel():
  """A full binary tree of eight rows: summed over the rows of a node, only its ancestors speak."""
  tokens = np.array([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)], np.int32)
  rewards = np.random.default_rng(1).normal(size=8).astype(np.float32)
  groups = np.zeros(8, np.int32)
  nodes = prefix_nodes(tokens, np.ones_like(tokens, bool), groups)
  advantages = subgroups(rewards, nodes, groups)
  for rows in (slice(0, 2), slice(2, 4), slice(4, 8)):
    value, up = rewards[rows].mean(), (rewards.mean(), rewards[: 4].mean())
    expected = (value - up[0] + (value - up[1] if rows.stop <= 4 else 0)) / 3
    np.testing.assert_allclose(advantages[rows].mean(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('rewards', [[0.1] * 4, [1.0] * 4, [0.0] * 4])
def test_a_group_of_equal_rewards_gets_exactly_zero(rewards):
  rewards, nodes = jnp.array(rewards), hand_nodes()
  for advantages in (
      prefix_td(rewards, nodes, GROUPS), subgroups(rewards, nodes, GROUPS),
      segment_td(rewards, nodes, GROUPS, length_power=1.0),
  ):
    assert not np.any(np.asarray(advantages))


def test_what_is_not_an_action_does_not_matter():
  tokens, mask, groups, rewards = some_groups(0, shuffled=False)
  junk = np.where(mask | (np.arange(9) < 1), tokens, np.random.default_rng(9).integers(0, 2, tokens.shape))
  expected = prefix_nodes(tokens, mask, groups)
  np.testing.assert_array_equal(prefix_nodes(junk.astype(np.int32), mask, groups), expected)
  wide = lambda x, value=0: np.pad(x, ((0, 0), (0, 2)), constant_values=value)
  for function in (prefix_td, lambda *x: segment_td(*x, length_power=1.0)):
    advantages = function(rewards, expected, groups)
    np.testing.assert_array_equal(function(rewards, wide(expected, -1), groups), wide(advantages))
    assert not np.any(np.asarray(advantages)[~mask])
