"""BRPO: thinking is judged at every budget, and against what it had earned before."""

import functools

import chain_toy
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import types
from rlx.advantages import budgets as budget_advantages
from rlx.advantages import groups
from rlx.algorithms.brpo import brpo
from rlx.algorithms.grpo import grpo
from rlx.losses.anchors import no_kl
from rlx.rewards.verifier import verifier
from rlx.rollout import prompts
from rlx.step import collect

TASK = chain_toy.sums(checks=0)
POLICY = chain_toy.policy_for(TASK)
BUDGETS, SUMMARIES = (2, 4, 6), 2
SETTINGS = dict(
    **chain_toy.CLIP, budgets=BUDGETS, budget_weights=(0.25, 0.5, 0.25), decay=0.5, marker='#',
    summary_tokens=2, summary_samples=SUMMARIES,
)


def algorithm(**changes):
  rollout = prompts.completions(TASK, POLICY, batch_size=16, group_size=4, num_slots=0)
  return brpo(rollout, POLICY, TASK, **{**SETTINGS, **changes})


def test_three_budgets_by_hand():
  """Rewards 0, 1, 1 and 0, 0, 1 with P = 1/4, 1/2, 1/4: R = 3/4, 3/4, 1/4 and 1/4, 1/4, 1/4.

  V2 = 1/2, 1/2, 1/4. V1 of the first row is 0 at the second budget and (1/4 0 + 1/2 1) / (3/4) 1/4 = 1/6 at
  the third, of the second row 0. Their shares are 0, 1/3, 2/3.
  """
  rewards, weights = jnp.array([[0.0, 1, 1], [0, 0, 1]]), jnp.array([1 / 4, 1 / 2, 1 / 4])
  found = budget_advantages.budget_relative(rewards, weights, jnp.array([0, 0]), decay=0.5)
  expected = [
      [3 / 4 - 1 / 2, 3 / 4 - 2 / 3 / 2, 1 / 4 - 2 / 3 / 6 - 1 / 3 / 4],
      [1 / 4 - 1 / 2, 1 / 4 - 2 / 3 / 2, 1 / 4 - 1 / 3 / 4],
  ]
  np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_with_one_budget_it_is_the_centred_reward():
  rewards, ids = jnp.array([0.0, 1, 1, 0, 1]), jnp.array([0, 0, 0, 1, 1])
  found = budget_advantages.budget_relative(rewards[:, None], jnp.ones(1), ids, decay=0.5)
  np.testing.assert_allclose(found[:, 0], groups.centred(rewards, ids), rtol=1e-6)


def test_thinking_belongs_to_the_budget_that_it_reaches():
  x, index = jnp.array([[1.0, 2, 3]]), jnp.array([[-1, 0, 1, 2, 3, 4, 5]])
  found = budget_advantages.at_budgets(x, index, (1, 3, 5))
  assert found.tolist() == [[0, 1, 2, 2, 3, 3, 0]]


@pytest.mark.slow
def test_the_variance_is_below_that_of_the_group_mean():
  """4,000 groups of 8 rows that find the answer at some time and then know it, mostly, at six budgets.

  Measured: 0.86, 0.71, 0.61, 0.58, 0.62 of the variance with the mean alone, at the second budget to the
  sixth; the same at the first. With the own answers alone it is 1.34 at the second, 0.71 at the sixth.
  """
  found_key, slip_key = jax.random.split(jax.random.key(0))
  num, weights = 6, jnp.full(6, 1 / 6)
  when = jax.random.geometric(found_key, 0.25, (32000, 1)) - 1
  rewards = (when <= jnp.arange(num)[None]) & jax.random.bernoulli(slip_key, 0.95, (32000, num))
  ids = jnp.arange(32000) // 8
  relative = budget_advantages.budget_relative(rewards.astype(jnp.float32), weights, ids, decay=0.5)
  mean_only = budget_advantages.budget_returns(rewards, weights) - budget_advantages.group_baseline(
      rewards, weights, ids
  )
  ratio = np.asarray(relative.var(axis=0) / mean_only.var(axis=0))
  np.testing.assert_allclose(ratio[0], 1, rtol=1e-5)
  assert ratio[1] < 0.9 and ratio[2:].max() < 0.75


@functools.cache
def rows():
  """A batch that the algorithm made, and its number of rows of the rollout."""
  params = chain_toy.MODEL.init(jax.random.key(0))
  state = chain_toy.state_of(params, optax.sgd(0.1), jax.random.key(1))
  batch = jax.jit(functools.partial(collect, algorithm()))(state)
  types.check(batch)
  return jax.tree.map(np.asarray, batch), 16


@pytest.mark.slow
def test_summaries_are_rows_behind_thinking_that_is_cut():
  """Against a walk through every row."""
  batch, num = rows()
  mark = int(TASK.encode('#')[0])
  assert len(batch['tokens']) == num * (1 + len(BUDGETS) * SUMMARIES)
  seen = set()
  for i in range(num):
    start = batch['prompt_lengths'][i]
    said = batch['tokens'][i][start:]
    thinking = said[batch['action_mask'][i][start:]]
    marks = np.flatnonzero(thinking == mark)
    assert marks.size == 0 or marks[0] == len(thinking) - 1  # nothing behind the marker is trained
    kept = int(np.sum((thinking != mark) & (thinking != 1)))
    for j, budget in enumerate(BUDGETS):
      for s in range(SUMMARIES):
        row = num + (i * len(BUDGETS) + j) * SUMMARIES + s
        cut = min(kept, budget)
        wanted = [*batch['tokens'][i][: start + cut], mark]
        length = batch['prompt_lengths'][row]
        assert batch['tokens'][row][:length].tolist() == wanted and batch['summary'][row]
        action = batch['tokens'][row][batch['action_mask'][row]]
        np.testing.assert_array_equal(np.flatnonzero(batch['action_mask'][row])[0], length)
        whole = np.concatenate([wanted[start:], action]).astype(np.int32)[None]
        assert TASK.verify({'answers': batch['answers'][i : i + 1]}, whole)[0] == batch['rewards'][row]
        seen.add((cut, kept > budget))
  assert len(seen) > 3


@pytest.mark.slow
def test_each_part_has_its_own_advantage():
  """Thinking: that of its budget. Summaries: against those of the same thinking."""
  batch, num = rows()
  batch = {**batch, 'rewards': (np.arange(len(batch['rewards'])) % 3 == 0).astype(np.float32)}
  batch['by_budget'] = (np.arange(batch['by_budget'].size).reshape(-1, 3) * 7 % 5 / 4).astype(np.float32)
  batch = jax.tree.map(np.asarray, jax.jit(algorithm().advantage)({}, batch, jax.random.key(0)))
  relative = budget_advantages.budget_relative(
      batch['by_budget'][:num], jnp.array([0.25, 0.5, 0.25]), batch['groups'][:num], decay=0.5
  )
  for i in range(num):
    columns = np.flatnonzero(batch['action_mask'][i])
    for t, column in enumerate(columns):
      wanted = relative[i, t // 2] if t < 6 else 0
      np.testing.assert_allclose(batch['advantages'][i, column], wanted, atol=1e-6)
    first = num + i * len(BUDGETS) * SUMMARIES
    for row in range(first, first + len(BUDGETS) * SUMMARIES):
      same = [
          r for r in range(first, first + len(BUDGETS) * SUMMARIES)
          if batch['prompt_lengths'][r] == batch['prompt_lengths'][row]
      ]
      wanted = (batch['rewards'][row] - batch['rewards'][same].mean()) * batch['action_mask'][row]
      np.testing.assert_allclose(batch['advantages'][row], wanted, atol=1e-6)
  weights, total = batch['weights'], len(batch['weights'])
  for part, kind in ((slice(num), num), (slice(num, None), total - num)):
    actions = batch['action_mask'][part].sum()
    expected = actions / kind / POLICY.decoding.max_tokens
    np.testing.assert_allclose(weights[part].sum() / total, expected, rtol=1e-5)


@pytest.mark.parametrize('changes, message', [
    ({'budgets': (4, 2, 6)}, 'growing'), ({'budget_weights': (1.0,)}, 'a weight each'),
    ({'marker': '#;'}, '2 tokens'), ({'summary_tokens': 99}, 'summary_tokens=99'),
])
def test_bad_arguments_are_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    algorithm(**changes)


@pytest.mark.slow
def test_it_answers_better_at_small_budgets_than_grpo():
  """Five seeds, 60 steps of 64 rows; answers behind two, four and six tokens of thinking, six being all.

  Measured, accuracy less GRPO's: 0.23, 0.00, 0.13, 0.35, 0.50 at two tokens, 0.12, 0.32, 0.29, 0.07, 0.01 at
  four. It does not dominate here: at all six it is -0.37, -0.16, -0.02, -0.04, 0.01, for GRPO trains nothing
  else and is ahead after so few steps.
  """
  params = chain_toy.taught(0)
  samples = prompts.completions(TASK, POLICY, **chain_toy.SIZES, num_slots=0)
  anytime = brpo(samples, POLICY, TASK, **SETTINGS)
  plain = grpo(samples, verifier(TASK, POLICY), POLICY, no_kl(), **chain_toy.CLIP, entropy_coef=0.0)

  def curve(params, seed):
    key = jax.random.fold_in(jax.random.key(9), seed)
    batch = collect(anytime, chain_toy.state_of(params, optax.sgd(0.1), key))
    return jnp.stack([jnp.nanmean(batch[f'budget/accuracy_{b}']) for b in BUDGETS])

  train = lambda how: chain_toy.run(how, optax.adam(1e-3), params, 60, jax.random.key(2))[0]
  curves = jax.jit(jax.vmap(curve))
  gain = np.asarray(
      curves(train(anytime), jnp.arange(chain_toy.SEEDS)) - curves(train(plain), jnp.arange(chain_toy.SEEDS))
  )
  smallest, middle = gain[:, 0], gain[:, 1]
  assert np.median(smallest) > 0.1 and np.median(middle) > 0.03
  assert smallest.min() > -0.1 and middle.min() > -0.1
