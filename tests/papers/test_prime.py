"""PRIME: rewards of tokens by hand, what they sum to, and what is left without them."""

import functools

import algorithms_table as table
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages.process import returns_beside_others
from rlx.algorithms.bradley_terry import bradley_terry
from rlx.algorithms.dpo import dpo
from rlx.algorithms.pointwise import pointwise
from rlx.algorithms.presets import rloo
from rlx.algorithms.prime import prime
from rlx.losses import preference
from rlx.losses.anchors import no_kl
from rlx.models import heads
from rlx.rewards.of_learners import verdicts
from rlx.rewards.verifier import verifier

BETA = table.IMPLICIT.head.beta
POLICY, OTHER = (table.MODEL.init(jax.random.key(seed)) for seed in (0, 1))
ROWS, _ = jax.jit(table.samples(8).draw)({'policy': POLICY}, {}, jax.random.key(2))
SAME, APART = ({'policy': policy, 'reference': POLICY} for policy in (POLICY, OTHER))


def test_a_token_is_compared_with_the_mean_token_of_the_others():
  """Means are 2, 1 and 6: 3.5 is expected of the first row's tokens, 4 of the second's and 1.5."""
  rewards = jnp.array([[1.0, 3.0, 9.0], [0.0, 1.0, 2.0], [6.0, 9.0, 9.0], [5.0, 5.0, 5.0]])
  mask = jnp.array([[1, 1, 0], [1, 1, 1], [1, 0, 0], [0, 0, 0]], bool)
  groups = jnp.zeros(4, jnp.int32)
  found = returns_beside_others(rewards, groups, mask, discount=1.0)
  np.testing.assert_allclose(found, [[-3, -0.5, 0], [-9, -5, -2], [4.5, 0, 0], [0, 0, 0]])
  found = returns_beside_others(rewards, groups, mask, discount=0.5)
  np.testing.assert_allclose(found, [[-2.75, -0.5, 0], [-6, -4, -2], [4.5, 0, 0], [0, 0, 0]])
  alone = returns_beside_others(rewards, jnp.arange(4), mask, discount=1.0)
  np.testing.assert_allclose(alone[0], [0, 1, 0])  # 1 - 2 and 3 - 2


def test_rewards_of_tokens_are_log_ratios_and_sum_to_that_of_the_row():
  tokens = table.IMPLICIT.of_tokens(APART, ROWS)
  ratio = jnp.subtract(*(table.POLICY.score(params, ROWS)[0] for params in (OTHER, POLICY)))
  np.testing.assert_allclose(tokens, BETA * ratio, rtol=1e-5, atol=1e-7)
  np.testing.assert_allclose(table.IMPLICIT.apply(APART, ROWS), tokens.sum(axis=1), rtol=1e-6)
  assert not np.asarray(table.IMPLICIT.of_tokens(SAME, ROWS)).any()


@pytest.mark.slow
def test_verdicts_teach_the_policy_and_leave_the_reference():
  """At first nothing is known of any row: log 2."""
  method = pointwise(None, table.IMPLICIT)
  rows = verdicts(verifier(table.TASK, table.POLICY), of='a', to='b', success=0.3)({}, {'a': ROWS}, None)['b']
  assert 0 < rows['preferred'].mean() < 1
  rows = method.advantage({}, rows, None)
  loss, slopes = jax.value_and_grad(lambda judge: method.loss({'judge': judge}, rows, None)[0])(SAME)
  np.testing.assert_allclose(loss, np.log(2), rtol=1e-6)
  assert np.asarray(slopes['policy']['embedding']).any()
  assert not any(np.asarray(x).any() for x in jax.tree.leaves(slopes['reference']))


def test_comparisons_of_an_implicit_reward_are_dpo():
  pairs = {**ROWS, 'preferred': jnp.arange(8) % 2 == 0}
  mine = bradley_terry(None, table.IMPLICIT)
  loss, _ = mine.loss({'judge': APART}, mine.advantage({}, pairs, None), None)
  theirs = dpo(None, table.POLICY, table.POLICY, loss=lambda known: preference.sigmoid(
      known['chosen'], known['rejected'], beta=BETA))
  models = {'policy': OTHER, 'reference': POLICY}
  expected, _ = theirs.loss(models, theirs.advantage(models, pairs, None), None)
  np.testing.assert_allclose(loss, expected, rtol=1e-5)


@functools.cache
def advised(weight, apart):
  method = prime(
      None, None, table.POLICY, table.IMPLICIT, no_kl(), clip_low=0.2, clip_high=0.2, discount=1.0,
      process_weight=weight,
  )
  rows = {**ROWS, 'rewards': jnp.array([1.0, 0, 0, 1, 0, 0, 0, 0])}
  return method.advantage({'process': APART if apart else SAME}, rows, None)


@pytest.mark.slow
def test_without_weight_or_without_a_ratio_it_is_rloo():
  rows = {**ROWS, 'rewards': jnp.array([1.0, 0, 0, 1, 0, 0, 0, 0])}
  plain = rloo(None, None, table.POLICY, no_kl()).advantage({}, rows, None)['advantages']
  np.testing.assert_array_equal(advised(0.0, True)['advantages'], plain)
  np.testing.assert_array_equal(advised(1.0, False)['advantages'], plain)


def test_both_returns_are_added():
  """Where a group has failed altogether, tokens still have advantages."""
  told, mask = advised(2.0, True), ROWS['action_mask']
  of_tokens = returns_beside_others(told['token_rewards'], ROWS['groups'], mask, discount=1.0)
  expected = advised(0.0, True)['advantages'] + 2 * of_tokens
  np.testing.assert_allclose(told['advantages'], expected, rtol=1e-5, atol=1e-6)
  assert np.asarray(told['advantages'])[4:].any()
  np.testing.assert_allclose(told['process/reward'], told['token_rewards'].sum(axis=1), rtol=1e-6)


def test_a_reference_of_another_shape_is_refused():
  with pytest.raises(ValueError, match='of one shape'):
    heads.implicit_reward(table.MODEL, table.MODEL.replace(num_layers=2), beta=0.1)
