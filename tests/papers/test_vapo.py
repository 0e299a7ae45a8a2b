"""The two decays of VAPO: the policy's λ follows the length of each row, the critic's is 1.

https://arxiv.org/abs/2504.05118; its other parts are not checked here.
"""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import temporal
from rlx.algorithms.ppo import ppo
from rlx.algorithms.vapo import vapo
from rlx.losses.anchors import no_kl

LENGTHS = np.array([1, 3, 6])
MASK = (np.arange(8) >= 1) & (np.arange(8) <= LENGTHS[:, None])
VALUES = np.sin(np.arange(24, dtype=np.float32)).reshape(3, 8)
CRITIC = types.SimpleNamespace(apply=lambda params, batch: jnp.array(VALUES))
BATCH = {'action_mask': jnp.array(MASK), 'rewards': jnp.array([1.0, 0.0, 1.0])}


@jax.jit
def adaptive(alpha):
  return advantages(functools.partial(temporal.lengths_to_lambda, alpha=alpha))


def advantages(lambda_):
  algorithm = ppo(
      None, None, None, CRITIC, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0, value_coef=0.5,
      value_clip=0.2, discount=0.9, lambda_=lambda_,
  )
  batch = algorithm.advantage({'value': None}, BATCH, None)
  return batch['advantages'], batch['returns']


def test_each_row_has_the_lambda_of_its_length():
  """α = 1/2: rows of 1, 3 and 6 actions have λ = 0, 1/3 and 2/3. By hand, before the batch is whitened."""
  whitened, returns = adaptive(0.5)
  expected = np.zeros((3, 8))
  for row, (length, lambda_) in enumerate([(1, 0.0), (3, 1 / 3), (6, 2 / 3)]):
    values, later = np.append(VALUES[row, 1 : length + 1].astype(np.float64), 0), 0.0
    for t in reversed(range(length)):
      reward = float(BATCH['rewards'][row]) if t == length - 1 else 0.0
      later = reward + 0.9 * values[t + 1] - values[t] + 0.9 * lambda_ * later
      expected[row, 1 + t] = later
  np.testing.assert_allclose(returns, np.where(MASK, expected + VALUES, 0), rtol=1e-5, atol=1e-6)
  centred = np.where(MASK, expected - expected[MASK].mean(), 0)
  np.testing.assert_allclose(whitened, centred / expected[MASK].std(ddof=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('alpha, lambda_', [(1e-3, 0.0), (1e7, 1.0)])
def test_at_its_limits_it_is_a_number(alpha, lambda_):
  for found, expected in zip(adaptive(alpha), jax.jit(advantages)(lambda_), strict=True):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@jax.jit
def decoupled(alpha):
  algorithm = vapo(
      None, None, None, CRITIC, clip_low=0.2, clip_high=0.28, entropy_coef=0.0, value_coef=0.5,
      value_clip=0.2, alpha=alpha,
  )
  batch = algorithm.advantage({'value': None}, BATCH, None)
  return batch['advantages'], batch['returns']


def test_the_critic_learns_outcomes_and_the_policy_what_its_lambda_leaves():
  """Without a discount what is to come is the outcome, whatever the critic says; the policy's λ is PPO's."""
  policy = ppo(
      None, None, None, CRITIC, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0, value_coef=0.5,
      value_clip=0.2, discount=1.0, lambda_=functools.partial(temporal.lengths_to_lambda, alpha=0.5),
  ).advantage({'value': None}, BATCH, None)
  found, returns = decoupled(0.5)
  np.testing.assert_allclose(found, policy['advantages'], rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(returns, np.where(MASK, [[1.0], [0.0], [1.0]], 0), atol=1e-6)
  assert np.abs(returns - policy['returns']).max() > 0.1
  np.testing.assert_allclose(decoupled(1e7)[1], returns, atol=1e-6)
