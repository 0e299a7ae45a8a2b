"""Papers as terms: equal to the functions that compute them directly, or to a loop over segments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import groups, segments, tree

# Two prompts in mixed order, the second with one row only; turns with observations between, and an empty row.
GROUPS = np.array([4, 0, 4, 4, 0, 4], np.int32)
TURNS = np.array([
    [-1, 0, 0, 0, 1, 1, 2],
    [-1, 0, 0, 1, 1, 1, 1],
    [-1, 0, 0, 0, 0, 1, 1],
    [-1, 0, 1, 1, 2, 2, 2],
    [-1, -1, -1, -1, -1, -1, -1],
    [-1, 0, 1, 1, 1, 2, 2],
], np.int32)
MASK = np.array([
    [0, 1, 1, 0, 1, 0, 1],
    [0, 1, 0, 1, 0, 1, 1],
    [0, 1, 0, 0, 0, 1, 0],
    [0, 1, 1, 0, 1, 1, 0],
    [0, 0, 0, 0, 0, 0, 0],
    [0, 1, 1, 1, 0, 1, 0],
], bool)
NUM, COLUMNS = MASK.shape
REWARDS = np.array([1.0, 0.3, 0.0, 2.0, 5.0, -1.0], np.float32)
TOKEN_REWARDS = np.random.default_rng(0).normal(size=MASK.shape).astype(np.float32)


def members(*columns):
  """What a segment is, spelled out: the tokens by what they have in common."""
  found = {}
  for b, t in zip(*np.nonzero(MASK), strict=True):
    found.setdefault(tuple(np.broadcast_to(x, MASK.shape)[b, t] for x in columns), []).append((b, t))
  return found


ROWS, PLACES = np.arange(NUM)[:, None], np.arange(COLUMNS)[None]
LEVELS = {
    'token': (ROWS, PLACES), 'turn': (ROWS, TURNS), 'sequence': (ROWS, 0),
    'column of a prompt': (GROUPS[:, None], PLACES),
}


@jax.jit
def statistics(first, second):
  ids = segments.ids(MASK, first, second)
  return (
      ids, segments.firsts(ids), segments.segment_sum(TOKEN_REWARDS, ids),
      segments.segment_mean(TOKEN_REWARDS, ids), segments.broadcast(TOKEN_REWARDS, ids),
  )


def at_tokens(level):
  return [np.broadcast_to(np.int32(x), MASK.shape) for x in LEVELS[level]]


@pytest.mark.parametrize('level', LEVELS)
def test_segments_against_loops(level):
  ids, firsts, sums, means, broadcast = (np.asarray(x) for x in statistics(*at_tokens(level)))
  found = members(*LEVELS[level])
  assert ids.dtype == np.int32 and firsts.sum() == len(found)
  for tokens in found.values():
    values = np.array([TOKEN_REWARDS[at] for at in tokens])
    begin = min(b * COLUMNS + t for b, t in tokens)
    for at in tokens:
      assert ids[at] == begin
      np.testing.assert_allclose(sums[at], values.sum(), rtol=1e-5, atol=1e-6)
      np.testing.assert_allclose(means[at], values.mean(), rtol=1e-5, atol=1e-6)
      assert broadcast[at] == TOKEN_REWARDS.reshape(-1)[begin]
  assert (ids[~MASK] == -1).all()
  for x in (sums, means, broadcast, firsts):
    assert not x[~MASK].any()


def test_levels_have_names():
  named = jax.jit(lambda: (segments.tokens(MASK), segments.steps(TURNS, MASK), segments.sequences(MASK)))()
  for ids, level in zip(named, ('token', 'turn', 'sequence'), strict=True):
    np.testing.assert_array_equal(ids, statistics(*at_tokens(level))[0])
    assert ids.dtype == jnp.int32


@jax.jit
def grpo(returns, mask=MASK):
  """GRPO, RLOO and Dr. GRPO of rows."""
  ids, prompt = segments.sequences(mask), GROUPS[:, None]
  mean, others = (f(returns, ids, prompt) for f in (segments.key_mean, segments.key_mean_of_others))
  scale = segments.key_deviation(returns, ids, prompt) + 1e-6
  return {
      'normalised': segments.term(returns, ids, baseline=mean, scale=scale),
      'leave_one_out': segments.term(returns, ids, baseline=others),
      'centred': segments.term(returns, ids, baseline=mean),
  }


@jax.jit
def direct(rewards, ids):
  return {name: getattr(groups, name)(rewards, ids) for name in ('normalised', 'leave_one_out', 'centred')}


def test_grpo_rloo_and_dr_grpo_are_one_term():
  # A row without a token is no sample: it leaves its group.
  expected = direct(REWARDS, np.where(MASK.any(axis=1), GROUPS, 3).astype(np.int32))
  for name, advantages in grpo(REWARDS[:, None]).items():
    np.testing.assert_allclose(advantages, np.where(MASK, expected[name][:, None], 0), rtol=1e-5, atol=1e-6)
    assert np.count_nonzero(advantages) > 10
    np.testing.assert_array_equal(np.asarray(advantages)[1], 0)  # alone with its prompt


def test_what_does_not_differ_is_exactly_zero():
  a, b, c = np.float32([0.1, 0.3, 0.5])
  residue = np.where(np.arange(NUM) % 3 == 0, (a + b) + c, a + (b + c))
  assert residue[0] != residue[2] and residue.dtype == np.float32
  for returns in (residue, np.full(NUM, 0.1, np.float32), np.full(NUM, 12345.678, np.float32)):
    for advantages in grpo(returns[:, None]).values():
      np.testing.assert_array_equal(advantages, 0)


def test_huge_returns_stay_finite_and_a_nan_is_no_return():
  for advantages in grpo(1e15 * REWARDS[:, None]).values():
    assert np.isfinite(advantages).all() and np.any(advantages)
  bad = np.where(np.arange(NUM) == 2, np.nan, REWARDS)[:, None].astype(np.float32)
  for advantages in grpo(bad).values():
    assert np.isfinite(advantages).all() and not np.any(advantages[2]) and np.any(advantages)


@jax.jit
def turn_level(token_rewards):
  """MAPO: a turn's rewards to come, half against the same turn of the prompt, half against all turns."""
  ids, prompt = segments.steps(TURNS, MASK), jnp.broadcast_to(GROUPS[:, None], MASK.shape)
  returns = segments.returns_to_go(token_rewards, ids, discount=0.9)
  same_turn = groups.join(prompt.reshape(-1), TURNS.reshape(-1)).reshape(MASK.shape)
  terms = []
  for keys in (same_turn, 0):
    baseline = segments.key_mean(returns, ids, keys)
    scale = segments.key_deviation(returns, ids, keys) + 1e-6
    terms.append(segments.term(returns, ids, baseline=baseline, scale=scale, weight=0.5))
  return returns, *terms


def test_a_turn_level_advantage_against_a_loop():
  returns, first, second = (np.asarray(x) for x in turn_level(TOKEN_REWARDS))
  turns = members(GROUPS[:, None], ROWS, TURNS)
  to_go = {}
  for prompt, row, turn in sorted(turns, key=lambda x: -x[2]):
    own = sum(TOKEN_REWARDS[at] for at in turns[prompt, row, turn])
    to_go[prompt, row, turn] = own + 0.9 * to_go.get((prompt, row, turn + 1), 0)
  everyone, compared = list(to_go.values()), 0
  for key, tokens in turns.items():
    same = [x for (prompt, _, turn), x in to_go.items() if (prompt, turn) == (key[0], key[2])]
    compared += len(same) > 1
    for at in tokens:
      np.testing.assert_allclose(returns[at], to_go[key], rtol=1e-5, atol=1e-6)
      for result, others in ((first, same), (second, everyone)):
        scale = np.std(others, ddof=1) + 1e-6 if len(others) > 1 else 1
        expected = 0.5 * (to_go[key] - np.mean(others)) / scale
        np.testing.assert_allclose(result[at], expected, rtol=1e-3, atol=1e-5)
  assert compared > 6
  for x in (returns, first, second):
    assert not x[~MASK].any()


def test_to_go_from_tokens_and_from_whole_rows():
  """One segment a row: the sum. One a token: what comes after, discounted by the token."""
  whole, tokens = jax.jit(lambda: (
      segments.returns_to_go(TOKEN_REWARDS, segments.sequences(MASK), discount=0.5),
      segments.returns_to_go(TOKEN_REWARDS, segments.tokens(MASK), discount=0.5),
  ))()
  for b in range(NUM):
    rewards = TOKEN_REWARDS[b, MASK[b]]
    np.testing.assert_allclose(np.asarray(whole)[b, MASK[b]], rewards.sum(), rtol=1e-5, atol=1e-6)
    expected = [sum(0.5**i * x for i, x in enumerate(rewards[t:])) for t in range(len(rewards))]
    np.testing.assert_allclose(np.asarray(tokens)[b, MASK[b]], expected, rtol=1e-5, atol=1e-6)


TREE_TOKENS = np.random.default_rng(1).integers(0, 2, MASK.shape).astype(np.int32)
TREE_MASK = np.arange(COLUMNS)[None] < np.array([5, 4, 7, 3, 2, 6])[:, None]
TREE_GROUPS = np.array([0, 0, 0, 0, 5, 0], np.int32)


@jax.jit
def as_terms(rewards):
  """TEMPO: GRPO of rows, and the change in value of the nodes, over the same deviation."""
  tree_nodes = tree.prefix_nodes(*(jnp.array(x) for x in (TREE_TOKENS, TREE_MASK, TREE_GROUPS)))
  nodes, rows, prompt = segments.nodes(tree_nodes), segments.sequences(TREE_MASK), TREE_GROUPS[:, None]
  returns = jnp.broadcast_to(rewards[:, None], TREE_MASK.shape)
  mean, scale = segments.key_mean(returns, rows, prompt), segments.key_deviation(returns, rows, prompt) + 1e-6
  values = segments.segment_mean(returns, nodes)
  before = jnp.concatenate([mean[:, :1], values[:, :-1]], axis=1)  # there are no gaps in these rows
  sequence = segments.term(returns, rows, baseline=mean, scale=scale)
  change = segments.term(values, nodes, baseline=before, scale=scale)
  direct = tree.prefix_td(rewards, tree_nodes, TREE_GROUPS)
  return sequence + change, direct, values, tree.node_values(rewards, tree_nodes)


def test_the_tree_of_tempo_is_two_terms():
  total, expected, values, node_values = as_terms(REWARDS)
  np.testing.assert_allclose(values, node_values, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-5)
  spread = [np.unique(np.round(np.asarray(total)[b][TREE_MASK[b]], 3)).size for b in range(NUM)]
  assert max(spread) > 2, 'no branchings: this tree is no test'


@jax.jit
def one_of_all(returns, scale, weight):
  return segments.term(
      returns, segments.sequences(MASK), baseline=0.5, scale=scale, weight=weight,
      post=lambda x: jnp.clip(x, -0.4, 1.0),
  )


def test_the_formula_of_a_term():
  """w · clip((G - b) / scale) by row, with weights of rows."""
  weight = np.arange(NUM, dtype=np.float32)[:, None]
  advantages = one_of_all(REWARDS[:, None], np.float32(2.0), weight)
  expected = weight * np.clip((REWARDS[:, None] - 0.5) / 2, -0.4, 1)
  np.testing.assert_allclose(advantages, np.where(MASK, expected, 0), rtol=1e-6)
  half = one_of_all(jnp.array(REWARDS[:, None], jnp.bfloat16), np.float32(2.0), weight)
  assert half.dtype == jnp.float32
  np.testing.assert_allclose(half, advantages, rtol=1e-2)


def test_what_stands_outside_counts_for_nothing():
  poison = np.where(MASK, TOKEN_REWARDS, np.nan).astype(np.float32)
  jax.tree.map(np.testing.assert_array_equal, turn_level(poison), turn_level(TOKEN_REWARDS))


def test_the_order_of_rows_does_not_matter():
  order = np.array([3, 5, 0, 1, 4, 2])
  function = jax.jit(lambda returns, mask, prompt: segments.term(
      returns, segments.sequences(mask), baseline=segments.key_mean(returns, segments.sequences(mask), prompt)
  ))
  prompt, returns = GROUPS[:, None], REWARDS[:, None]
  shuffled = function(returns[order], MASK[order], 7 - prompt[order])
  expected = np.asarray(function(returns, MASK, prompt))[order]
  np.testing.assert_allclose(shuffled, expected, rtol=1e-5, atol=1e-6)


def test_one_axis_could_be_rows_or_columns():
  with pytest.raises(AssertionError):
    segments.broadcast(jnp.zeros(NUM), jnp.zeros((NUM, NUM), jnp.int32))
  with pytest.raises(AssertionError):
    segments.ids(jnp.ones((3, 3), bool), jnp.arange(3))
