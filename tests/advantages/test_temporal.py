"""Generalised advantage estimates against a loop, at their limits, and over gaps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import temporal

MASK = np.array([
    [0, 0, 1, 1, 0, 0, 1, 0],  # two turns with an observation between them, padding behind
    [0, 1, 1, 1, 1, 1, 1, 1],
    [0, 0, 0, 0, 0, 0, 0, 0],
    [1, 0, 1, 0, 1, 0, 0, 1],
], bool)


def oracle(rewards, values, discounts, lambda_):
  """Equation 16 as the sum it is: A_t = Σ_n (Π_{k<n} γ_{t+k} λ) δ_{t+n}."""
  length = len(rewards)
  deltas = [rewards[t] + discounts[t] * values[t + 1] - values[t] for t in range(length)]
  return np.array([
      sum(np.prod(discounts[t : t + n]) * lambda_**n * deltas[t + n] for n in range(length - t))
      for t in range(length)
  ])


def token_oracle(rewards, values, mask, discount, lambda_):
  """Takes the decisions out of each row, lets `oracle` look at them alone, and puts them back."""
  out = np.zeros(mask.shape)
  for row, decides in enumerate(mask):
    at = np.flatnonzero(decides)
    values_with_end = np.append(values[row, at], 0.0)
    out[row, at] = oracle(rewards[row, at], values_with_end, np.full(len(at), discount), lambda_)
  return out


def random(*shape, seed=0):
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize('lambda_', [0.0, 0.5, 0.95, 1.0])
def test_against_the_sum(lambda_):
  rewards, values = random(3, 6), random(3, 7, seed=1)
  discounts = np.where(random(3, 6, seed=2) > 1, 0, 0.9).astype(np.float32)
  assert (discounts == 0).any()
  expected = [oracle(*row, lambda_) for row in zip(rewards, values, discounts, strict=True)]
  advantages = temporal.gae(jnp.array(rewards), jnp.array(values), jnp.array(discounts), lambda_=lambda_)
  np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-6)


def test_by_hand():
  """δ = (1 + 0.5·4 - 2, 3 + 0 - 4): the second step is terminal and does not look at the value 100."""
  advantages = temporal.gae(
      jnp.array([1.0, 3.0]), jnp.array([2.0, 4.0, 100.0]), jnp.array([0.5, 0.0]), lambda_=0.5
  )
  np.testing.assert_allclose(advantages, [1 + 0.5 * 0.5 * -1, -1], rtol=1e-6)


def test_lambda_one_is_the_return_minus_the_value():
  rewards, values = random(6), random(7, seed=1)
  returns, later = np.zeros(6), values[6]
  for t in reversed(range(6)):
    returns[t] = later = rewards[t] + 0.9 * later
  advantages = temporal.gae(jnp.array(rewards), jnp.array(values), jnp.full(6, 0.9), lambda_=1.0)
  np.testing.assert_allclose(advantages, returns - values[:-1], rtol=1e-5, atol=1e-6)


def test_lambda_zero_is_the_temporal_difference():
  rewards, values = random(2, 6), random(2, 7, seed=1)
  advantages = temporal.gae(jnp.array(rewards), jnp.array(values), jnp.full((2, 6), 0.9), lambda_=0.0)
  np.testing.assert_allclose(advantages, rewards + 0.9 * values[:, 1:] - values[:, :-1], rtol=1e-5, atol=1e-6)


def test_nothing_flows_over_a_terminal_step():
  rewards, values = jnp.array(random(6)), jnp.array(random(7, seed=1))
  discounts = jnp.full(6, 0.9).at[2].set(0)
  advantage = lambda rewards, values: temporal.gae(rewards, values, discounts, lambda_=0.9)[:3].sum()
  for gradient in jax.grad(advantage, (0, 1))(rewards, values):
    assert (gradient[:3] != 0).any()
    np.testing.assert_array_equal(gradient[3:], 0)


def test_leading_axes_are_rows():
  rows = jnp.array(random(2, 3, 5)), jnp.array(random(2, 3, 6, seed=1)), jnp.full((2, 3, 5), 0.9)
  whole = temporal.gae(*rows, lambda_=0.8)
  one = temporal.gae(*(x[1, 2] for x in rows), lambda_=0.8)
  np.testing.assert_allclose(whole[1, 2], one, rtol=1e-6)


def test_values_need_a_bootstrap():
  with pytest.raises(AssertionError):
    temporal.gae(jnp.zeros((2, 5)), jnp.zeros((2, 5)), jnp.zeros((2, 5)), lambda_=1.0)


@pytest.mark.parametrize('lambda_', [0.0, 0.7, 1.0])
@pytest.mark.parametrize('discount', [0.9, 1.0])
def test_tokens_are_gae_over_the_decisions_alone(discount, lambda_):
  rewards, values = random(*MASK.shape), random(*MASK.shape, seed=1)
  advantages = temporal.gae_tokens(
      jnp.array(rewards), jnp.array(values), jnp.array(MASK), discount=discount, lambda_=lambda_
  )
  expected = token_oracle(rewards, values, MASK, discount, lambda_)
  np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-6)
  np.testing.assert_array_equal(np.asarray(advantages)[~MASK], 0)


def test_tokens_by_hand():
  """Decisions at 1 and 3 with values 2 and 3, reward 1 at the end: δ = (0 + 3 - 2, 1 + 0 - 3)."""
  advantages = temporal.gae_tokens(
      jnp.array([[9.0, 0.0, 9.0, 1.0, 9.0]]), jnp.array([[9.0, 2.0, 9.0, 3.0, 9.0]]),
      jnp.array([[False, True, False, True, False]]), discount=1.0, lambda_=0.5,
  )
  np.testing.assert_allclose(advantages, [[0, 1 + 0.5 * -2, 0, -2, 0]], atol=1e-6)


def test_tokens_without_gaps_are_gae_with_a_terminal_end():
  rewards, values = random(2, 6), random(2, 6, seed=1)
  tokens = temporal.gae_tokens(
      jnp.array(rewards), jnp.array(values), jnp.ones((2, 6), bool), discount=0.9, lambda_=0.8
  )
  padded = jnp.pad(jnp.array(values), ((0, 0), (0, 1)), constant_values=50.0)
  discounts = jnp.full((2, 6), 0.9).at[:, -1].set(0)
  dense = temporal.gae(jnp.array(rewards), padded, discounts, lambda_=0.8)
  np.testing.assert_allclose(tokens, dense, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('bad', [1e30, np.inf, np.nan])
def test_what_stands_outside_the_mask_changes_nothing(bad):
  rewards, values = random(*MASK.shape), random(*MASK.shape, seed=1)

  def total(rewards, values):
    advantages = temporal.gae_tokens(rewards, values, jnp.array(MASK), discount=0.9, lambda_=0.8)
    return jnp.sum(jnp.square(advantages)), advantages

  poison = lambda x: jnp.array(np.where(MASK, x, bad))
  evaluate = jax.grad(total, (0, 1), has_aux=True)
  clean, poisoned = evaluate(jnp.array(rewards), jnp.array(values)), evaluate(poison(rewards), poison(values))
  jax.tree.map(np.testing.assert_array_equal, poisoned, clean)


def test_float32_from_bfloat16():
  half = jnp.ones((1, 3), jnp.bfloat16)
  assert temporal.gae(half[:, :2], half, half[:, :2], lambda_=0.9).dtype == jnp.float32
  assert temporal.gae_tokens(half, half, half > 0, discount=0.9, lambda_=0.9).dtype == jnp.float32
