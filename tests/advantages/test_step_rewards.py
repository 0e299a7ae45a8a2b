"""Rewards of steps that are learnt from outcomes: by hand, and what they sum to."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.dpo import dpo
from rlx.algorithms.istar import istar, step_advantages
from rlx.algorithms.spa import spa
from rlx.losses import preference
from rlx.losses.anchors import no_kl
from rlx.rewards.of_progress import contributions, of_progress

# Two episodes of a problem: three turns of 2, 1 and 1 tokens, and two of 1 and 2; the rest was read.
TURNS = jnp.array([[-1, 0, 0, 0, 1, 1, 2, 0], [-1, 0, 0, 1, 1, 1, 0, 0]])
MASK = jnp.array([[0, 1, 1, 0, 1, 0, 1, 0], [0, 1, 0, 1, 1, 0, 0, 0]], bool)
VALID = jnp.array([[1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 0, 0, 0]], bool)
LOGITS = jnp.array([[9.0, 0.25, 0.75, 9, 0, 9, 2, 9], [9.0, -1, 9, 0.25, -0.25, 9, 9, 9]])  # of tokens
BETA = 0.5


def test_steps_of_istar_are_compared_with_all_steps_of_their_group():
  """Steps have 1, 0 and 2, and -1 and 0; what was read counts nowhere."""
  rewards = np.array([1.0, 0, 2, -1, 0])
  scaled = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-4)
  one, two, three, four, five = scaled
  expected = [[0, one, one, 0, two, 0, three, 0], [0, four, 0, five, five, 0, 0, 0]]
  of = jax.jit(lambda groups: step_advantages(LOGITS, TURNS, groups, MASK))
  np.testing.assert_allclose(of(jnp.array([0, 0])), expected, rtol=1e-5, atol=1e-6)
  assert not np.allclose(of(jnp.array([0, 1]))[1], expected[1]), 'problems are not compared with one another'


def scorer():
  """A model whose parameters are the log-probs of the rows."""
  return types.SimpleNamespace(score=lambda params, batch: (params, jnp.zeros_like(params)))


def batch():
  return {
      'action_mask': MASK, 'turns': TURNS, 'valid': VALID, 'tokens': jnp.zeros(MASK.shape, jnp.int32),
      'groups': jnp.zeros(2, jnp.int32), 'rewards': jnp.array([1.0, 0]),
      'sampler_logprobs': jnp.where(MASK, -1.0, 0),
  }


@functools.partial(jax.jit, static_argnums=0)
def advised(step_weight, logprobs):
  algorithm = istar(
      None, None, scorer(), scorer(), no_kl(), clip_low=0.2, clip_high=0.2, beta=BETA,
      step_weight=step_weight,
  )
  return algorithm.advantage({'process': logprobs}, batch(), jax.random.key(0))


def test_a_model_of_steps_that_is_the_policy_leaves_grpo():
  plain = advised(0.0, batch()['sampler_logprobs'] + LOGITS)['advantages']
  np.testing.assert_array_equal(advised(1.0, batch()['sampler_logprobs'])['advantages'], plain)
  assert not np.allclose(advised(1.0, batch()['sampler_logprobs'] + LOGITS)['advantages'], plain)


def test_rewards_of_steps_sum_to_the_log_odds_that_their_model_is_trained_for():
  old = batch()['sampler_logprobs']
  told = advised(1.0, old + LOGITS)['step/reward']
  np.testing.assert_allclose(told, BETA * np.array([3.0, -1]), rtol=1e-6)
  learner = dpo(
      None, scorer(), scorer(), loss=lambda known: preference.sigmoid(
          known['chosen'], known['rejected'], beta=BETA),
  )
  models = {'policy': old + LOGITS, 'reference': old}  # as the learner calls them
  rows = learner.advantage(models, batch(), jax.random.key(0))
  loss, _ = learner.loss(models, rows, jax.random.key(0))
  np.testing.assert_allclose(loss, -np.log(1 / (1 + np.exp(-(told[0] - told[1])))), rtol=1e-6)


# --- SPA: an estimator that knows a weight for each token ---------------------------------------------------

KEY, OTHER = 1, 2  # what was said; the outcome is 1 where the key was


def by_token(params, rows):
  """[B, T] before each token, as a critic: the weight of the token that stands before."""
  return jnp.pad(params[rows['tokens']][:, :-1], ((0, 0), (1, 0)))


ESTIMATOR = types.SimpleNamespace(apply=by_token)


def episodes():
  """[4, 5] a prompt and two steps of one token, each with something that was read behind it."""
  said = jnp.array([[KEY, OTHER], [OTHER, KEY], [OTHER, OTHER], [OTHER, OTHER]])
  tokens = jnp.full((4, 6), 3).at[:, 1].set(said[:, 0]).at[:, 3].set(said[:, 1])
  turns = jnp.broadcast_to(jnp.array([-1, 0, 0, 1, 1, 0]), tokens.shape)
  mask = jnp.broadcast_to(jnp.array([0, 1, 0, 1, 0, 0], bool), tokens.shape)
  return {
      'tokens': tokens, 'turns': turns, 'action_mask': mask, 'valid': mask,
      'understood': mask & (tokens == KEY), 'rewards': jnp.array([1.0, 1, 0, 0]),
      'token_rewards': jnp.zeros(tokens.shape),
  }


@pytest.mark.slow
def test_an_estimator_learns_from_outcomes_which_step_was_the_key():
  algorithm, rows = spa(None, None, ESTIMATOR), episodes()
  rows = algorithm.advantage({}, rows, jax.random.key(0))
  loss = lambda weights: algorithm.loss({'progress': weights}, rows, jax.random.key(0))[0]
  weights = jnp.zeros(4)
  step = lambda weights: weights - 0.3 * jax.grad(loss)(weights)
  weights = jax.lax.fori_loop(0, 100, lambda _, weights: step(weights), weights)
  np.testing.assert_allclose(weights[jnp.array([KEY, OTHER])], [1, 0], atol=1e-3)
  parts = contributions(by_token, weights, rows)
  np.testing.assert_allclose(parts.sum(axis=1), rows['rewards'], atol=2e-3)
  assert weights[3] == 0, 'what was read is no step'


def test_a_row_without_an_outcome_changes_no_estimate():
  algorithm, rows = spa(None, None, ESTIMATOR), episodes()
  weights = jnp.array([0.0, 0.5, 0.25, 0])

  def error(rows):
    rows = algorithm.advantage({}, rows, jax.random.key(0))
    return algorithm.loss({'progress': weights}, rows, jax.random.key(0))[0]

  error, unknown = jax.jit(error), {**rows, 'rewards': rows['rewards'].at[3].set(jnp.nan)}
  np.testing.assert_allclose(error(unknown), error(jax.tree.map(lambda x: x[:3], rows)), rtol=1e-6)


def test_steps_are_paid_their_contribution_and_for_what_the_world_understood():
  rows, weights = episodes(), jnp.array([0.0, 0.5, 0.25, 9])
  paid = of_progress(ESTIMATOR, scale=2.0, grounding=0.1)({'progress': weights}, rows, None)
  first = [0, 2 * 0.5 + 0.1, 0, 2 * 0.25, 0, 0]
  np.testing.assert_allclose(paid['token_rewards'][0], first, rtol=1e-6)
  np.testing.assert_allclose(paid['progress/sum'], [0.75, 0.75, 0.5, 0.5])
  np.testing.assert_array_equal(paid['rewards'], rows['rewards'])
