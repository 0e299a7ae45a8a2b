"""Generalised advantage estimates, returns and V-trace against loops, at their limits, and over gaps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import temporal

DENSE = {name: jax.jit(getattr(temporal, name)) for name in ('gae', 'lambda_returns', 'returns', 'vtrace')}
TOKENS = {name: jax.jit(getattr(temporal, f'{name}_tokens')) for name in DENSE}
adaptive_gae = jax.jit(temporal.gae_tokens_adaptive)
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
  advantages = DENSE['gae'](jnp.array(rewards), jnp.array(values), jnp.array(discounts), lambda_=lambda_)
  np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-6)


def test_by_hand():
  """δ = (1 + 0.5·4 - 2, 3 + 0 - 4): the second step is terminal and does not look at the value 100."""
  advantages = DENSE['gae'](
      jnp.array([1.0, 3.0]), jnp.array([2.0, 4.0, 100.0]), jnp.array([0.5, 0.0]), lambda_=0.5
  )
  np.testing.assert_allclose(advantages, [1 + 0.5 * 0.5 * -1, -1], rtol=1e-6)


def test_lambda_one_is_the_return_minus_the_value():
  rewards, values = random(6), random(7, seed=1)
  returns, later = np.zeros(6), values[6]
  for t in reversed(range(6)):
    returns[t] = later = rewards[t] + 0.9 * later
  advantages = DENSE['gae'](jnp.array(rewards), jnp.array(values), jnp.full(6, 0.9), lambda_=1.0)
  np.testing.assert_allclose(advantages, returns - values[:-1], rtol=1e-5, atol=1e-6)


def test_lambda_zero_is_the_temporal_difference():
  rewards, values = random(2, 6), random(2, 7, seed=1)
  advantages = DENSE['gae'](jnp.array(rewards), jnp.array(values), jnp.full((2, 6), 0.9), lambda_=0.0)
  np.testing.assert_allclose(advantages, rewards + 0.9 * values[:, 1:] - values[:, :-1], rtol=1e-5, atol=1e-6)


def test_nothing_flows_over_a_terminal_step():
  rewards, values = jnp.array(random(6)), jnp.array(random(7, seed=1))
  discounts = jnp.full(6, 0.9).at[2].set(0)
  advantage = lambda rewards, values: DENSE['gae'](rewards, values, discounts, lambda_=0.9)[:3].sum()
  for gradient in jax.grad(advantage, (0, 1))(rewards, values):
    assert (gradient[:3] != 0).any()
    np.testing.assert_array_equal(gradient[3:], 0)


def test_leading_axes_are_rows():
  rows = jnp.array(random(2, 3, 5)), jnp.array(random(2, 3, 6, seed=1)), jnp.full((2, 3, 5), 0.9)
  whole = DENSE['gae'](*rows, lambda_=0.8)
  one = DENSE['gae'](*(x[1, 2] for x in rows), lambda_=0.8)
  np.testing.assert_allclose(whole[1, 2], one, rtol=1e-6)
  by_row = DENSE['gae'](*rows, lambda_=jnp.array([[[0.0]] * 3, [[0.8]] * 3]))  # [2, 3, 1]
  np.testing.assert_allclose(by_row[1], whole[1], rtol=1e-6)
  np.testing.assert_allclose(by_row[0], DENSE['gae'](*rows, lambda_=0.0)[0], rtol=1e-6)


def test_values_need_a_bootstrap():
  with pytest.raises(AssertionError):
    DENSE['gae'](jnp.zeros((2, 5)), jnp.zeros((2, 5)), jnp.zeros((2, 5)), lambda_=1.0)


@pytest.mark.parametrize('lambda_', [0.0, 0.7, 1.0])
@pytest.mark.parametrize('discount', [0.9, 1.0])
def test_tokens_are_gae_over_the_decisions_alone(discount, lambda_):
  rewards, values = random(*MASK.shape), random(*MASK.shape, seed=1)
  advantages = TOKENS['gae'](
      jnp.array(rewards), jnp.array(values), jnp.array(MASK), discount=discount, lambda_=lambda_
  )
  expected = token_oracle(rewards, values, MASK, discount, lambda_)
  np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-6)
  np.testing.assert_array_equal(np.asarray(advantages)[~MASK], 0)


def test_tokens_by_hand():
  """Decisions at 1 and 3 with values 2 and 3, reward 1 at the end: δ = (0 + 3 - 2, 1 + 0 - 3)."""
  advantages = TOKENS['gae'](
      jnp.array([[9.0, 0.0, 9.0, 1.0, 9.0]]), jnp.array([[9.0, 2.0, 9.0, 3.0, 9.0]]),
      jnp.array([[False, True, False, True, False]]), discount=1.0, lambda_=0.5,
  )
  np.testing.assert_allclose(advantages, [[0, 1 + 0.5 * -2, 0, -2, 0]], atol=1e-6)


def test_tokens_without_gaps_are_gae_with_a_terminal_end():
  rewards, values = random(2, 6), random(2, 6, seed=1)
  tokens = TOKENS['gae'](
      jnp.array(rewards), jnp.array(values), jnp.ones((2, 6), bool), discount=0.9, lambda_=0.8
  )
  padded = jnp.pad(jnp.array(values), ((0, 0), (0, 1)), constant_values=50.0)
  discounts = jnp.full((2, 6), 0.9).at[:, -1].set(0)
  dense = DENSE['gae'](jnp.array(rewards), padded, discounts, lambda_=0.8)
  np.testing.assert_allclose(tokens, dense, rtol=1e-5, atol=1e-6)


@jax.jit
@functools.partial(jax.grad, argnums=(0, 1), has_aux=True)
def gradients(rewards, values):
  advantages = temporal.gae_tokens(rewards, values, jnp.array(MASK), discount=0.9, lambda_=0.8)
  return jnp.sum(jnp.square(advantages)), advantages


@pytest.mark.parametrize('bad', [1e30, np.inf, np.nan])
def test_what_stands_outside_the_mask_changes_nothing(bad):
  rewards, values = random(*MASK.shape), random(*MASK.shape, seed=1)
  poison = lambda x: np.where(MASK, x, np.float32(bad))
  clean, poisoned = gradients(rewards, values), gradients(poison(rewards), poison(values))
  jax.tree.map(np.testing.assert_array_equal, poisoned, clean)


def dense_arrays():
  rewards, values = random(3, 6), random(3, 7, seed=1)
  discounts = np.where(random(3, 6, seed=2) > 1, 0, 0.9).astype(np.float32)
  return rewards, values, discounts, np.exp(random(3, 6, seed=3))


def vtrace_oracle(rewards, values, discounts, ratios, lambda_, clip_rho, clip_c):
  """Equation 1 as the sum it is, one row."""
  length, rho = len(rewards), np.minimum(ratios, clip_rho)
  c = lambda_ * np.minimum(ratios, clip_c)
  deltas = rho * (rewards + discounts * values[1:] - values[:-1])
  targets = np.array([
      values[s] + sum(np.prod(discounts[s:t]) * np.prod(c[s:t]) * deltas[t] for t in range(s, length))
      for s in range(length)
  ])
  later = np.append(targets[1:], values[-1])
  return targets, rho * (rewards + discounts * later - values[:-1])


@pytest.mark.parametrize('clips', [(1.0, 1.0), (2.0, 0.7)])
def test_vtrace_against_the_sum(clips):
  arrays = dense_arrays()
  keywords = dict(lambda_=0.9, clip_rho=clips[0], clip_c=clips[1])
  expected = [vtrace_oracle(*row, 0.9, *clips) for row in zip(*arrays, strict=True)]
  result = DENSE['vtrace'](*arrays, **keywords)
  for i, name in enumerate(('targets', 'advantages')):
    np.testing.assert_allclose(getattr(result, name), [row[i] for row in expected], rtol=1e-4, atol=1e-5)


def test_vtrace_on_policy_has_the_returns_as_targets():
  rewards, values, discounts, _ = dense_arrays()
  for lambda_ in (1.0, 0.6):
    result = DENSE['vtrace'](
        rewards, values, discounts, np.ones((3, 6), np.float32), lambda_=lambda_, clip_rho=1.0, clip_c=1.0
    )
    targets = DENSE['lambda_returns'](rewards, values, discounts, lambda_=lambda_)
    np.testing.assert_allclose(result.targets, targets, rtol=1e-5, atol=1e-5)
    if lambda_ == 1:
      gae = DENSE['gae'](rewards, values, discounts, lambda_=lambda_)
      np.testing.assert_allclose(result.advantages, gae, rtol=1e-4, atol=1e-5)


def test_vtrace_does_not_learn_from_what_the_policy_would_never_do():
  rewards, values, discounts, _ = dense_arrays()
  ratios = np.zeros((3, 6), np.float32)
  result = DENSE['vtrace'](rewards, values, discounts, ratios, lambda_=1.0, clip_rho=1.0, clip_c=1.0)
  np.testing.assert_array_equal(result.targets, values[:, :-1])
  np.testing.assert_array_equal(result.advantages, 0)


def test_lambda_returns_against_their_recursion():
  rewards, values, discounts, _ = dense_arrays()
  expected, later = np.zeros((3, 6)), values[:, 6]
  for t in reversed(range(6)):
    mixed = (1 - 0.7) * values[:, t + 1] + 0.7 * later
    expected[:, t] = later = rewards[:, t] + discounts[:, t] * mixed
  result = DENSE['lambda_returns'](rewards, values, discounts, lambda_=0.7)
  np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
  ends = values.copy()
  ends[:, -1] = 0  # at λ = 1 only the bootstrap counts; without it they are the returns
  result = DENSE['lambda_returns'](rewards, ends, discounts, lambda_=1.0)
  np.testing.assert_allclose(result, DENSE['returns'](rewards, discounts), rtol=1e-5, atol=1e-5)


def token_arrays():
  return random(*MASK.shape), random(*MASK.shape, seed=1), np.exp(random(*MASK.shape, seed=2))


def test_on_tokens_all_are_those_of_the_decisions_alone():
  rewards, values, ratios = token_arrays()
  clips = dict(clip_rho=1.5, clip_c=1.0)
  results = {
      'returns': TOKENS['returns'](rewards, MASK, discount=0.9),
      'lambda': TOKENS['lambda_returns'](rewards, values, MASK, discount=0.9, lambda_=0.7),
      **TOKENS['vtrace'](rewards, values, MASK, ratios, discount=0.9, lambda_=0.8, **clips)._asdict(),
  }
  expected = {name: np.zeros(MASK.shape) for name in results}
  for b, row in enumerate(MASK):
    at = np.flatnonzero(row)
    discounts, ends = np.full(len(at), 0.9), np.append(values[b, at], 0)
    zeros = np.zeros(len(at) + 1)
    expected['returns'][b, at] = oracle(rewards[b, at], zeros, discounts, 1.0)
    expected['lambda'][b, at] = oracle(rewards[b, at], ends, discounts, 0.7) + values[b, at]
    targets, advantages = vtrace_oracle(rewards[b, at], ends, discounts, ratios[b, at], 0.8, 1.5, 1.0)
    expected['targets'][b, at], expected['advantages'][b, at] = targets, advantages
  for name, result in results.items():
    np.testing.assert_allclose(result, expected[name], rtol=1e-4, atol=1e-5, err_msg=name)
    np.testing.assert_array_equal(np.asarray(result)[~MASK], 0)


@pytest.mark.parametrize('bad', [np.inf, np.nan])
def test_no_poison_from_outside_the_mask(bad):
  arrays = token_arrays()
  poisoned = [np.where(MASK, x, np.float32(bad)) for x in arrays]

  def everything(rewards, values, ratios):
    more = dict(discount=0.9, lambda_=0.8)
    return (
        TOKENS['returns'](rewards, MASK, discount=0.9),
        TOKENS['lambda_returns'](rewards, values, MASK, **more),
        adaptive_gae(rewards, values, MASK, discount=0.9, alpha=0.5),
        TOKENS['vtrace'](rewards, values, MASK, ratios, **more, clip_rho=1.5, clip_c=1.0),
    )

  jax.tree.map(np.testing.assert_array_equal, everything(*poisoned), everything(*arrays))


def test_the_lambda_of_a_length():
  """The weights 1 + λ + λ² + ... add up to α l; at α l <= 1 only the difference itself is left."""
  lengths = np.array([1, 2, 10, 1000, 0])
  lambdas = np.asarray(temporal.lengths_to_lambda(jnp.array(lengths), alpha=0.5))
  np.testing.assert_allclose(1 / (1 - lambdas[1:4]), 0.5 * lengths[1:4], rtol=1e-4)
  assert lambdas[0] == lambdas[1] == lambdas[4] == 0
  assert lambdas.dtype == np.float32


def test_adaptive_gae_is_gae_with_the_lambda_of_each_row():
  rewards, values = random(*MASK.shape), random(*MASK.shape, seed=1)
  adaptive = adaptive_gae(rewards, values, MASK, discount=0.9, alpha=0.5)
  for b, row in enumerate(MASK):
    lambda_ = max(1 - 1 / (0.5 * row.sum()), 0) if row.any() else 0.0
    expected = token_oracle(rewards, values, MASK, 0.9, lambda_)[b]
    np.testing.assert_allclose(adaptive[b], expected, rtol=1e-4, atol=1e-5)


def test_adaptive_gae_at_its_limits():
  rewards, values = random(*MASK.shape), random(*MASK.shape, seed=1)
  at = lambda alpha: adaptive_gae(rewards, values, MASK, discount=0.9, alpha=alpha)
  plain = lambda lambda_: TOKENS['gae'](rewards, values, MASK, discount=0.9, lambda_=lambda_)
  np.testing.assert_allclose(at(1e7), plain(1.0), rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(at(1e-3), plain(0.0), rtol=1e-5, atol=1e-6)


def test_float32_from_bfloat16():
  half, mask = jnp.ones((1, 4), jnp.bfloat16), jnp.ones((1, 3), bool)
  short, clips = half[:, :3], dict(lambda_=0.9, clip_rho=1.0, clip_c=1.0)
  shapes = [
      jax.eval_shape(functools.partial(temporal.gae, lambda_=0.9), short, half, short),
      jax.eval_shape(functools.partial(temporal.gae_tokens, discount=0.9, lambda_=0.9), short, short, mask),
      jax.eval_shape(temporal.returns, short, short),
      jax.eval_shape(functools.partial(temporal.returns_tokens, discount=0.9), short, mask),
      jax.eval_shape(functools.partial(temporal.lambda_returns, lambda_=0.9), short, half, short),
      *jax.eval_shape(functools.partial(temporal.vtrace, **clips), short, half, short, short),
      *jax.eval_shape(
          functools.partial(temporal.vtrace_tokens, discount=0.9, **clips), short, short, mask, short
      ),
  ]
  assert {x.dtype for x in shapes} == {jnp.dtype(jnp.float32)} and len(shapes) == 9
