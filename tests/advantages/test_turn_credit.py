"""Credit of turns: by hand, and at the limits where it is that of tokens or of a bandit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import groups, segments, temporal, turns
from rlx.algorithms.gigpo import step_advantages
from rlx.algorithms.mapo import mixed_advantages

# Two episodes: three turns of 2, 1 and 2 tokens, and two of 1 and 3; what stands between was read.
TURNS = jnp.array([[-1, 0, 0, 0, 1, 1, 2, 2, 0], [-1, -1, 0, 0, 1, 1, 1, 0, 0]])
MASK = jnp.array([[0, 1, 1, 0, 1, 0, 1, 1, 0], [0, 0, 1, 0, 1, 1, 1, 0, 0]], bool)
VALUES = jnp.array([[9.0, 0.5, 9, 9, 0.6, 9, 0.7, 9, 9], [9.0, 9, 0.2, 9, 0.4, 9, 9, 9, 9]])
REWARDS = jnp.array([[0.0, 0, 0.25, 0, 0, 0, 0, 1, 0], [0.0, 0, 0, 0, 0, 0, 1, 0, 0]])


def test_turns_are_summed_and_spread():
  summed = turns.at_turns(REWARDS, TURNS, MASK, num_turns=4)
  np.testing.assert_allclose(summed, [[0.25, 0, 1, 0], [0, 1, 0, 0]])
  np.testing.assert_allclose(turns.at_turns(MASK, TURNS, MASK, num_turns=2), [[2, 1], [1, 3]])
  expected = [[0, 0.25, 0.25, 0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1, 0, 0]]
  np.testing.assert_allclose(turns.spread(summed, TURNS, MASK), expected)
  first = [[0, 1, 0, 0, 1, 0, 1, 0, 0], [0, 0, 1, 0, 1, 0, 0, 0, 0]]
  np.testing.assert_array_equal(turns.beginnings(TURNS, MASK), np.array(first, bool))


def test_gae_over_three_turns_by_hand():
  discount, lambda_ = 0.9, 0.8
  third = 1 - 0.7
  second = 0.9 * 0.7 - 0.6 + discount * lambda_ * third
  first = 0.25 + 0.9 * 0.6 - 0.5 + discount * lambda_ * second
  last = 1 - 0.4
  before = 0.9 * 0.4 - 0.2 + discount * lambda_ * last
  expected = [
      [0, first, first, 0, second, 0, third, third, 0], [0, 0, before, 0, last, last, last, 0, 0]
  ]
  advantages = turns.gae_turns(REWARDS, VALUES, TURNS, MASK, discount=discount, lambda_=lambda_)
  np.testing.assert_allclose(advantages, expected, atol=1e-6)


def test_values_inside_actions_and_observations_do_not_matter():
  first = turns.beginnings(TURNS, MASK)
  garbage = jnp.where(first, VALUES, -7.0)
  of = lambda values: turns.gae_turns(REWARDS, values, TURNS, MASK, discount=0.9, lambda_=0.8)
  np.testing.assert_array_equal(of(garbage), of(VALUES))


@pytest.mark.slow
def test_with_a_token_a_turn_it_is_gae_of_tokens_and_of_one_turn_a_bandit():
  keys = jax.random.split(jax.random.key(0), 3)
  mask = jax.random.bernoulli(keys[0], 0.6, (4, 9))
  rewards, values = (jax.random.normal(key, (4, 9)) for key in keys[1:])
  nth = jnp.cumsum(mask, axis=1) - 1
  how = dict(discount=0.95, lambda_=0.7)
  np.testing.assert_allclose(
      turns.gae_turns(rewards, values, nth, mask, **how),
      temporal.gae_tokens(rewards, values, mask, **how), atol=1e-5,
  )
  whole = turns.gae_turns(rewards, values, jnp.zeros_like(nth), mask, **how)
  first = jnp.take_along_axis(values, jnp.argmax(mask, axis=1)[:, None], axis=1)
  bandit = jnp.where(mask, jnp.sum(jnp.where(mask, rewards, 0), axis=1, keepdims=True) - first, 0)
  np.testing.assert_allclose(whole, bandit, atol=1e-5)


GROUPS = jnp.array([0, 0])
ANCHORS = jnp.array([[0, 5, 5, 5, 8, 8, 5, 5, 0], [0, 0, 5, 5, 9, 9, 9, 0, 0]])  # 5 is met three times


def test_the_steps_of_gigpo_by_hand():
  """γ = 0.5. Returns: 0.25 + 0.25 · 1 = 0.5, 0.5, 1; and 0.5, 1. State 5 begins turns of 0.5, 1, 0.5."""
  steps = step_advantages(REWARDS, TURNS, ANCHORS, GROUPS, MASK, discount=0.5, scaled=False)
  mean = 2 / 3
  low, high = 0.5 - mean, 1 - mean
  expected = [[0, low, low, 0, 0, 0, high, high, 0], [0, 0, low, 0, 0, 0, 0, 0, 0]]
  np.testing.assert_allclose(steps, expected, atol=1e-6)
  deviation = np.std([0.5, 1, 0.5], ddof=1)
  scaled = step_advantages(REWARDS, TURNS, ANCHORS, GROUPS, MASK, discount=0.5, scaled=True)
  np.testing.assert_allclose(scaled, np.array(expected) / deviation, rtol=1e-4, atol=1e-6)


def test_states_that_were_met_once_and_other_problems_say_exactly_nothing():
  alone = jnp.where(MASK, jnp.arange(18).reshape(2, 9), 0) + 10 * TURNS  # every turn has its own state
  first = segments.broadcast(alone, segments.steps(TURNS, MASK))
  steps = step_advantages(REWARDS, TURNS, first, GROUPS, MASK, discount=0.5, scaled=True)
  assert not np.any(steps)
  apart = step_advantages(REWARDS, TURNS, ANCHORS, jnp.array([0, 1]), MASK, discount=0.5, scaled=False)
  assert not np.any(apart[1]) and np.any(apart[0])


def test_mapo_by_hand():
  """Two rows of three turns of one token. γ = 1: returns 3, 2, 2 and 1, 1, 0."""
  where = jnp.tile(jnp.arange(3), (2, 1))
  rewards = jnp.array([[1.0, 0, 2], [0, 1, 0]])
  mixed = mixed_advantages(
      rewards, where, GROUPS, jnp.ones((2, 3), bool), discount=1.0, batch_weight=0.25
  )
  returns = np.array([[3.0, 2, 2], [1, 1, 0]])
  by_turn = (returns - returns.mean(axis=0)) / returns.std(axis=0, ddof=1)
  overall = (returns - returns.mean()) / returns.std(ddof=1)
  np.testing.assert_allclose(mixed, 0.75 * by_turn + 0.25 * overall, rtol=1e-4)


@pytest.mark.parametrize('share', [0.0, 1.0])
def test_mapo_at_its_ends_is_one_of_the_comparisons(share):
  mixed = mixed_advantages(REWARDS, TURNS, GROUPS, MASK, discount=0.5, batch_weight=share)
  steps = segments.steps(TURNS, MASK)
  returns = segments.returns_to_go(REWARDS, steps, discount=0.5)
  first = np.asarray(segments.firsts(steps))
  keys = np.asarray(TURNS)[first] if share == 0 else np.zeros(first.sum(), int)
  expected = groups.normalised(jnp.asarray(returns)[first], jnp.asarray(keys))
  np.testing.assert_allclose(np.asarray(mixed)[first], expected, rtol=1e-3, atol=1e-5)
