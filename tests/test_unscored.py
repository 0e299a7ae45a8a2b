"""A row without a reward counts for nothing: what is left is as if it had never been there.

Every function that takes a statistic of rewards, and every reduction, with some rows unscored against the
same rows without them. That of whole algorithms is in `test_conformance.py` and `test_policy_gradient.py`.
"""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import metrics, reductions
from rlx.advantages import budgets, groups, modes, objectives, running, segments, tree
from rlx.controllers import difficulty
from rlx.losses import weights
from rlx.rewards.of_learners import best_and_worst, solution_and_worst
from rlx.unscored import leave_out, scored_rows
from tests.cases import cases

B, T = 16, 4
RNG = np.random.default_rng(0)
REWARDS = (5 + RNG.integers(0, 5, B) / 4).astype(np.float32)
GROUPS = np.int32([0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 5, 5, 5, 5, 5, 9])
GONE = np.isin(np.arange(B), [2, 5, 6, 14, 15])  # of three groups some rows, the only row of the last
MASK = RNG.random((B, T)) < 0.8
MASK[7] = False  # scored, and without a token: it still counts in the sums
COLUMNS = dict(
    groups=GROUPS, pools=GROUPS // 5, modes=np.int32(RNG.integers(0, 2, B)),
    lengths=np.int32(RNG.integers(1, 9, B)), baselines=RNG.random(B).astype(np.float32),
    successes=np.int32(RNG.integers(1, 4, B)), attempts=np.full(B, 5, np.int32),
    success_rates=RNG.random(B).astype(np.float32), mask=MASK,
    energies=RNG.random((B, T)).astype(np.float32), similarities=RNG.random(B).astype(np.float32),
    sizes=(0.1 + RNG.random(B)).astype(np.float32), probabilities=RNG.random(B).astype(np.float32),
    truncated=RNG.random(B) < 0.4,
    nodes=tree.prefix_nodes(jnp.asarray(RNG.integers(0, 2, (B, T))), jnp.ones((B, T), bool), GROUPS),
    turns=np.int32(np.broadcast_to(np.arange(T) // 2, (B, T))),
)
BINARY = np.float32([1, 0, 1, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0])
SEVERAL = np.stack([REWARDS, BINARY, RNG.random(B).astype(np.float32)], axis=1)
TOKENS = RNG.random((B, T)).astype(np.float32)

GIVEN = (1.0, 2.0, 0.5)
BASELINES = {  # name -> (rewards, what they are for: rewards and columns by name)
    'centred': (REWARDS, groups.centred),
    'normalised': (REWARDS, groups.normalised),
    'leave_one_out': (REWARDS, groups.leave_one_out),
    'deviation': (REWARDS, lambda rewards, groups: _of_its_rows(rewards, _deviation(rewards, groups))),
    'is_informative': (REWARDS, groups.is_informative),
    'pool_normalised': (REWARDS, groups.pool_normalised),
    'pool_scaled': (REWARDS, groups.pool_scaled),
    'batch_normalised': (REWARDS, groups.batch_normalised),
    'batch_scaled': (REWARDS, groups.batch_scaled),
    'globally_normalised': (REWARDS, groups.globally_normalised),
    'against': (
        REWARDS, lambda rewards, baselines: groups.globally_normalised(groups.against(rewards, baselines))),
    'length_weighted': (REWARDS, groups.length_weighted),
    'mean_normalised': (REWARDS, groups.mean_normalised),
    'pass_at_k': (BINARY, functools.partial(groups.pass_at_k, k=2)),
    'pass_at_k_centred': (BINARY, functools.partial(groups.pass_at_k_centred, k=2)),
    'best_margin': (REWARDS, groups.best_margin),
    'pooled': (BINARY, groups.pooled),
    'optimal_token_baseline': (
        TOKENS, lambda rewards, energies, mask, groups: _token_baseline(rewards, energies, mask, groups)),
    'sum_then_normalise': (SEVERAL, functools.partial(objectives.sum_then_normalise, weights=GIVEN)),
    'normalise_then_sum': (SEVERAL, functools.partial(objectives.normalise_then_sum, weights=GIVEN)),
    'gdpo': (SEVERAL, functools.partial(objectives.gdpo, weights=GIVEN)),
    'intra_mode': (REWARDS, modes.intra_mode),
    'inter_mode': (REWARDS, functools.partial(modes.inter_mode, margins=(0.0, 0.1))),
    'prefix_td': (REWARDS, tree.prefix_td),
    'subgroups': (REWARDS, tree.subgroups),
    'segment_td': (REWARDS, functools.partial(tree.segment_td, length_power=0.5)),
    'budget_relative': (
        SEVERAL, lambda rewards, groups: budgets.budget_relative(
            rewards, jnp.array(GIVEN), groups, decay=0.5)),
    'segments.term': (REWARDS, lambda rewards, mask, turns, groups: _turns(rewards, mask, turns, groups)),
    'weights.informative': (REWARDS, weights.informative),
    'weights.medium_difficulty': (
        BINARY, lambda rewards, groups: _of_its_rows(
            rewards, weights.medium_difficulty(rewards, groups, scale=2.0))),
    'weights.data_hardness': (
        REWARDS, lambda rewards, similarities, groups: weights.data_hardness(
            similarities, groups, ~jnp.isnan(rewards))),
    'weights.responsiveness': (
        REWARDS - 5.5, lambda rewards, groups: _of_its_rows(
            rewards, weights.responsiveness(rewards, groups, deviation_max=0.1))),
    'weights.scaled_by_difficulty': (
        REWARDS - 5.5, lambda rewards, similarities, groups: weights.scaled_by_difficulty(
            similarities, rewards, groups, ~jnp.isnan(rewards), deviation_max=0.1)),
    'weights.small_targets': (
        REWARDS, lambda rewards, sizes: weights.small_targets(
            sizes, ~jnp.isnan(rewards), weight_min=0.1, weight_max=5.0)),
    'weights.balanced': (REWARDS, lambda rewards, probabilities: jnp.stack(
        weights.balanced(probabilities, rewards), axis=1)),
}
UNLIKE = (
    'normalised', 'leave_one_out', 'batch_normalised', 'pass_at_k', 'optimal_token_baseline', 'gdpo',
    'subgroups',
)
NOT_HERE = {'join', 'score_energies', 'equal', 'weighted_sum'}  # no statistics over rows
# A 0 would be no verdict on the others here: they look at rows by themselves, or at the best alone.
BLIND = (
    'pooled', 'weights.data_hardness', 'weights.small_targets', 'best_margin', 'is_informative',
)


def _deviation(rewards, ids):
  return groups.deviation(rewards, ids)


def _token_baseline(rewards, energies, mask, ids):
  return groups.optimal_token_baseline(rewards, energies, mask, ids)


def _of_its_rows(rewards, x):
  """What is said of a group is said of its unscored rows too; nobody asks."""
  return jnp.where(jnp.isnan(rewards), 0, x)


def _turns(rewards, mask, turns, ids):
  turns = segments.steps(turns, mask)
  rewards, keys = rewards[:, None], ids[:, None]
  return segments.term(
      rewards, turns, baseline=segments.key_mean(rewards, turns, keys),
      scale=segments.key_deviation(rewards, turns, keys) + 1e-6,
  )


def called(function, rewards, rows=slice(None)):
  names = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
  given = {**COLUMNS, 'rewards': rewards}
  return np.asarray(jax.jit(function)(*(jnp.asarray(given[name])[rows] for name in names)))


@pytest.mark.parametrize('name', cases(BASELINES, at_once=UNLIKE))
def test_a_row_without_a_reward_changes_nothing_for_the_others(name):
  rewards, function = BASELINES[name]
  gone = np.full(rewards.shape, np.nan, np.float32)
  unscored = np.where(np.expand_dims(GONE, tuple(range(1, rewards.ndim))), gone, rewards)
  found, expected = called(function, unscored), called(function, rewards, ~GONE)
  np.testing.assert_allclose(found[~GONE], expected, rtol=1e-5, atol=1e-6)
  assert not np.any(found[GONE]), 'its own is 0'
  assert np.any(expected)
  as_zero = called(function, np.where(np.isnan(unscored), 0, unscored))[~GONE]
  if name not in BLIND:
    assert not np.allclose(as_zero, expected, atol=1e-3), 'a silent 0 would not be seen here'


def test_every_baseline_and_weight_is_here():
  public = {
      f.__name__ for module in (groups, objectives, weights) for f in vars(module).values()
      if inspect.isfunction(f) and f.__module__ == module.__name__ and not f.__name__.startswith('_')
  }
  assert public - NOT_HERE == {name.removeprefix('weights.') for name in BASELINES} & public
  assert public - NOT_HERE <= {name.removeprefix('weights.') for name in BASELINES}


def test_an_objective_that_does_not_apply_to_a_row_is_not_a_zero():
  """Each objective over the rows that it applies to, by hand; gdpo was NaN for the whole batch."""
  rewards = SEVERAL.copy()
  rewards[[1, 6], 0] = np.nan
  expected = np.zeros(B)
  for column, weight in zip(rewards.T, GIVEN, strict=True):
    for group in np.unique(GROUPS):
      rows = (group == GROUPS) & ~np.isnan(column)
      x = column[rows]
      if len(x) > 1 and np.ptp(x) > 1e-6:
        expected[rows] += weight * (x - x.mean()) / (x.std(ddof=1) + 1e-6)
  gdpo = jax.jit(functools.partial(objectives.gdpo, weights=GIVEN))
  np.testing.assert_allclose(
      gdpo(rewards, GROUPS), expected / (expected.std(ddof=1) + 1e-6), rtol=1e-4, atol=1e-5
  )


def test_reinforce_plus_plus_with_one_row_unscored():
  """Eight rewards near 5, one of them unknown: a 0 in its place gave the seven others .24 to .47."""
  rewards = np.float32([5.0, 5.5, 4.5, 5.0, 5.25, 4.75, 5.0, np.nan])
  known = rewards[:-1]
  expected = np.append((known - known.mean()) / known.std(ddof=1), 0)
  found = jax.jit(groups.globally_normalised)(rewards)
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
  assert expected[1] > 1.5 and expected[2] < -1.5


REDUCTIONS = {
    'token_mean': reductions.token_mean,
    'sequence_mean': reductions.sequence_mean,
    'sequence_sum': reductions.sequence_sum,
    'constant_length_sum': functools.partial(reductions.constant_length_sum, length=3),
    'prompt_mean': reductions.prompt_mean,
    'without_truncated': functools.partial(
        reductions.without_truncated, reduction=functools.partial(reductions.constant_length_sum, length=3)),
}


@pytest.mark.parametrize('name', REDUCTIONS)
def test_a_reduction_counts_scored_rows(name):
  """The mean over rows of any loss and its gradient; a scored row without a token counts in the sums."""
  known = {**COLUMNS, 'mask': MASK & ~GONE[:, None], 'scored': ~GONE}
  x = jnp.asarray(RNG.normal(size=(B, T)).astype(np.float32))

  def mean(x, rows):
    given = {name: jnp.asarray(a)[rows] for name, a in known.items()}
    return reductions.weighted_mean(x[rows], reductions.fill(REDUCTIONS[name], given))

  value, gradient = jax.value_and_grad(mean)(x, slice(None))
  expected, expected_gradient = jax.value_and_grad(mean)(x, ~GONE)
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-5)
  assert np.any(gradient) and not np.any(gradient[GONE])


def test_every_reduction_is_here():
  ours = lambda f: getattr(f, '__module__', '') == reductions.__name__
  public = {name for name, f in vars(reductions).items() if ours(f)}
  assert public - {'weighted_mean'} == set(REDUCTIONS)


def test_a_scored_row_without_a_token_counts_and_an_unscored_row_does_not():
  mask = jnp.array([[True, True], [False, False], [True, False]])
  mean = lambda scored: reductions.weighted_mean(
      jnp.ones(mask.shape), reductions.sequence_sum(mask & scored[:, None], scored)
  )
  assert mean(jnp.array([True, True, True])) == 1  # three tokens of three rows
  assert mean(jnp.array([True, True, False])) == 1  # two of two
  assert mean(jnp.array([True, False, True])) == 1.5  # three of two


STATISTICS = {
    'mean': (running.mean_init(6, value=0.3), functools.partial(running.mean_update, decay=0.7)),
    'moments': (running.moments_init(6), functools.partial(running.moments_update, keep=0.9)),
    'beta': (
        running.beta_init(6, value=0.4, strength=3.0), functools.partial(running.beta_update, keep=0.9)),
    'difficulty': (
        difficulty.init(6, num_active=6, level=2.0), functools.partial(
            difficulty.update, target=0.5, rate=0.4, low=1.0, high=5.0, min_rise=0.1, patience=2)),
}


@pytest.mark.parametrize('name', STATISTICS)
def test_what_is_remembered_does_not_take_in_a_row_without_a_reward(name):
  state, update = STATISTICS[name]
  update = jax.jit(update)
  keys = jnp.asarray(GROUPS % 6)
  found = update(state, keys, jnp.where(GONE, jnp.nan, BINARY))
  expected = update(state, keys[~GONE], jnp.asarray(BINARY)[~GONE])
  for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_pairs_are_made_of_scored_rows():
  rewards = np.float32([1, 0, np.nan, np.nan, 0, np.nan])
  batch = {
      'rewards': rewards, 'groups': np.int32([0, 0, 0, 3, 4, 4]), 'tokens': np.arange(18).reshape(6, 3),
      'valid': np.ones((6, 3), bool), 'prompt_lengths': np.ones(6, np.int32),
      'solutions': np.full((6, 2), 9),
  }
  batch = jax.tree.map(jnp.asarray, batch)
  pairs = jax.jit(best_and_worst)(batch)
  assert pairs['weights'].tolist() == [1, 1, 0, 0, 0, 0]
  assert pairs['tokens'][:2, 0].tolist() == [0, 3]
  with_solutions = jax.jit(solution_and_worst)(batch)['weights'][::2]
  assert with_solutions.tolist() == [1, 0, 0, 0, 1, 0]  # row 3 was not wrong


def test_what_counts_is_said_once_and_metrics_are_of_scored_rows():
  batch = {
      'rewards': jnp.array([1.0, jnp.nan, 3.0]), 'action_mask': jnp.ones((3, 2), bool).at[2, 1].set(False),
      'scored': jnp.array([True, True, False]), 'groups': jnp.zeros(3, jnp.int32),
  }
  left = leave_out(batch)
  assert left['scored'].tolist() == [True, False, False] == scored_rows(left).tolist()
  assert str(left['rewards'].tolist()) == '[1.0, nan, nan]'
  assert left['action_mask'].tolist() == [[True, True], [False, False], [False, False]]
  said = metrics.describe(left)
  np.testing.assert_allclose(said['reward/unscored_fraction'], 2 / 3, rtol=1e-6)
  assert said['reward/mean'] == 1 and said['tokens/response_mean'] == said['tokens/response_min'] == 2
  assert np.isnan(metrics.describe({**left, 'scored': jnp.zeros(3, bool)})['reward/mean'])
  control = {'rewards': jnp.array([jnp.nan, 1.0])}  # no tokens: a NaN of an environment stays in sight
  assert leave_out(control) is control and np.isnan(metrics.describe(control)['reward/mean'])
