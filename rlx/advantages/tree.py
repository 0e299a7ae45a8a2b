"""Credit from the tree that the samples of a prompt form: rows that begin alike share a node for as long.

A node is what rows with the same prefix have in common at a column; its value is the mean outcome of the rows
through it. `prefix_nodes` finds the tree in any finished group, and `rollout/tree.py` hands it on where rows
were branched on purpose; all else here works on either. A *span* is a stretch of one row in which the node
and the rows through it stay the same: between two branchings.

Values are those of centred rewards, so that the root's is zero, and everything is exactly zero in a group
whose rewards are all equal (see `groups.py`). A row that was not scored (NaN) goes through no node.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages


def prefix_nodes(tokens: jax.Array, mask: jax.Array, groups: jax.Array) -> jax.Array:
  """The prefix tree of finished groups: rows that are equal up to a column, and in it, share a node there.

  Args:
    tokens: [B, T] int32 rows; observations between the actions count for what is equal.
    mask: [B, T] bool, True where the policy sampled the token.
    groups: [B] int32, any numbers; rows of different groups share nothing.
  Returns:
    [B, T] int32, the smallest of the rows that share the node; -1 where `mask` is False.
  Source: TEMPO, https://arxiv.org/abs/2509.18314, section 3 (prefix to tree).
  """
  chex.assert_rank([tokens, mask, groups], [2, 2, 1])
  # A row that is over shares nothing with one that goes on, whatever stands in its padding.
  symbols = 2 * tokens + mask

  def descend(node, symbol):
    node = group_advantages.join(node, symbol)
    return node, node

  _, nodes = jax.lax.scan(descend, group_advantages.join(groups), symbols.T)
  return jnp.where(mask, nodes.T, -1)


def node_values(rewards: jax.Array, nodes: jax.Array) -> jax.Array:
  """The mean outcome of the rows through each node: V(s) = mean of r_i over the rows i that begin with s.

  Args:
    rewards: [B] outcomes.
    nodes: [B, T] int32, equal where rows share a node in the same column; -1 outside.
  Returns:
    [B, T] float32; 0 where there is no node.
  Source: TEMPO, https://arxiv.org/abs/2509.18314, section 3.
  """
  chex.assert_rank([rewards, nodes], [1, 2])
  nodes = _of_scored(nodes, rewards)
  rewards = jnp.broadcast_to(rewards[:, None].astype(jnp.float32), nodes.shape)
  return jnp.where(nodes >= 0, _node_sums(rewards, nodes) / node_sizes(nodes), 0)


def node_sizes(nodes: jax.Array) -> jax.Array:
  """[B, T] float32: how many rows share each node."""
  return _node_sums(jnp.ones(nodes.shape, jnp.float32), nodes)


def prefix_td(rewards: jax.Array, nodes: jax.Array, groups: jax.Array) -> jax.Array:
  """TEMPO: the outcome relative to the group, and at branchings what the token changed in value.

      A_t = [ r - mean(r) + V(s_t+1) - V(s_t) ] / std(r)

  with s_t the prefix before token t. V(s_t) of the first token is the prompt's value, mean(r). Where rows do
  not part, the difference is 0 and the token has GRPO's advantage. Rows that share no prefix part at their
  first token, where the formula counts the outcome twice; all other tokens then have GRPO's advantage.

  Args:
    rewards: [B] outcomes.
    nodes: [B, T] of `prefix_nodes`.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B, T] float32 advantages; zero where there is no node.
  Source: TEMPO, https://arxiv.org/abs/2509.18314.
  """
  outcome, nodes = group_advantages.normalised(rewards, groups), _of_scored(nodes, rewards)
  values = node_values(outcome, nodes)
  change = jnp.where(_spans(nodes).begins, values - _before(values, nodes), 0)
  return jnp.where(nodes >= 0, outcome[:, None] + change, 0)


def subgroups(rewards: jax.Array, nodes: jax.Array, groups: jax.Array) -> jax.Array:
  """TreePO: the outcome against the mean of every subtree that the row is in, averaged over those.

      A_i = 1/J Σ_j ( r_i - mean(r over the subtree G_j) )

  G_0 is the whole group; the others are the spans of the row that it shares with another row. All tokens of
  a row have its A_i, as in the authors' code. In a token that several rows share, the terms of the subtrees
  behind it cancel where J is the same: what is left is its own value against its ancestors'.

  Args:
    rewards: [B] outcomes.
    nodes: [B, T], of the rollout or of `prefix_nodes`.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B] float32 advantages, not scaled.
  Source: TreePO, https://arxiv.org/abs/2508.17445, section 2.3; the plain average over depths is that of
    the authors' training script (`adv_weight_strategy="average"`).
  """
  outcome, nodes = group_advantages.centred(rewards, groups), _of_scored(nodes, rewards)
  spans = _spans(nodes)
  counted = spans.begins & (spans.sizes > 1)
  relative = jnp.where(counted, outcome[:, None] - node_values(outcome, nodes), 0)
  return (outcome + relative.sum(axis=1)) / (1 + counted.sum(axis=1))


def segment_td(
    rewards: jax.Array, nodes: jax.Array, groups: jax.Array, *, length_power: float
) -> jax.Array:
  """ROSE: what a segment changed in value; right rows have less of it where they are longer than need be.

      A = V(end of the segment) - V(its beginning),    then    A - |A| (1 - (l_short / l)^power)

  A segment is a span; at the end of a row, V is its own outcome. The second step is for rows with a positive
  reward, behind the column where they part from the shortest such row of their group: l and l_short are the
  tokens that the two have from there on.

  Args:
    rewards: [B] outcomes; above 0 is right.
    nodes: [B, T], of the rollout or of `prefix_nodes`.
    groups: [B] int32 ids in 0..B-1.
    length_power: 0 leaves lengths alone.
  Returns:
    [B, T] float32 advantages; zero where there is no node.
  Source: ROSE, https://arxiv.org/abs/2601.05053, and the authors' code, where the mean of all rows through
    the beginning stands for the siblings.
  """
  outcome, nodes = group_advantages.centred(rewards, groups), _of_scored(nodes, rewards)
  values = node_values(outcome, nodes)
  spans = _spans(nodes)
  change = jnp.where(spans.begins, values - _before(values, nodes), 0)
  advantages = jnp.take_along_axis(change, spans.beginnings, axis=1)
  waste, parted = _waste(rewards, nodes, groups, length_power)
  advantages -= jnp.where(parted, jnp.abs(advantages) * waste[:, None], 0)
  return jnp.where(nodes >= 0, advantages, 0)


def _of_scored(nodes, rewards):
  """Nodes [B, T], none in the rows whose reward is NaN."""
  return jnp.where(jnp.isnan(rewards)[:, None], -1, nodes)


def _waste(rewards, nodes, groups, power):
  """1 - (l_short / l)^power [B], and the tokens [B, T] behind the parting from the shortest right row."""
  num_rows, inside = rewards.shape[0], nodes >= 0
  lengths, right = inside.sum(axis=1), rewards > 0
  # The smallest of (length, row) in one number: ties go to the first row.
  order = jnp.where(right, lengths, nodes.shape[1] + 1) * num_rows + jnp.arange(num_rows)
  shortest = jax.ops.segment_min(order, groups, num_segments=num_rows)[groups] % num_rows
  shared = (inside & (nodes == nodes[shortest])).sum(axis=1)
  rest = jnp.maximum(lengths - shared, 1)
  ratio = (lengths[shortest] - shared) / rest
  waste = jnp.where(right & (jnp.arange(num_rows) != shortest), 1 - ratio**power, 0)
  return waste, jnp.cumsum(inside, axis=1) > shared[:, None]


class _Spans(NamedTuple):
  sizes: jax.Array  # [B, T] float32, rows through the node
  begins: jax.Array  # [B, T] bool, where a span begins
  beginnings: jax.Array  # [B, T] int32, the column where the token's span began


def _spans(nodes):
  inside, sizes = nodes >= 0, node_sizes(nodes)
  last, first = _last_inside(inside)
  before = lambda x: jnp.take_along_axis(x, last, axis=1)
  begins = inside & (first | (before(nodes) != nodes) | (before(sizes) != sizes))
  columns = jnp.arange(nodes.shape[1])[None]
  return _Spans(sizes, begins, jax.lax.cummax(jnp.where(begins, columns, 0), axis=1))


def _before(values, nodes):
  """[B, T]: the value of the node before, which is the root's (0) at the first token."""
  last, first = _last_inside(nodes >= 0)
  return jnp.where(first, 0, jnp.take_along_axis(values, last, axis=1))


def _last_inside(inside):
  """The last column inside before each one [B, T], and where there is none [B, T]."""
  columns = jnp.arange(inside.shape[1])[None]
  last = jax.lax.cummax(jnp.where(inside, columns, -1), axis=1)
  last = jnp.pad(last[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
  return jnp.maximum(last, 0), last < 0


def _node_sums(x, nodes):
  """[B, T]: for each row and column, the sum of `x` over the rows that share its node."""

  def column(x, ids):
    leaders = group_advantages.join(ids)
    return jax.ops.segment_sum(x, leaders, num_segments=ids.shape[0])[leaders]

  return jax.vmap(column, in_axes=1, out_axes=1)(x, nodes)
