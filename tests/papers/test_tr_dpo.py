"""The reference of TR-DPO is drawn towards the policy, or takes its place. https://arxiv.org/abs/2404.09656"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from preference_toy import POLICY, pairs, uniform
import pytest

from rlx.algorithms.dpo import dpo
from rlx.algorithms.following import following
from rlx.losses import preference
from rlx.step import make_train_step
from rlx.types import State, StatefulRollout


def steps_of(period, rate, num=6):
  """Policy and reference behind each of some updates, and the loss before it."""
  rows, _ = pairs(3)
  rollout = StatefulRollout(begin=lambda key: {}, draw=lambda models, world, key: (rows, world), data=None)
  # An order of the answers: rows whose better answer has the smaller number count.
  weights = jnp.repeat((rows['tokens'][0::2, -1] < rows['tokens'][1::2, -1]).astype(jnp.float32), 2)
  rows['weights'] = weights
  parent = dpo(rollout, POLICY, POLICY, loss=functools.partial(preference.sigmoid, beta=1.0))
  algorithm = following(parent, copies={'reference': 'policy'}, period=period, rate=rate)
  optimizer = optax.sgd(1.0)
  step = jax.jit(make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1))
  params = {'policy': uniform(3)}
  state = State(
      step=jnp.int32(0), params=params, slow={'reference': uniform(3)}, opt_state=optimizer.init(params),
      world={}, key=jax.random.key(0),
  )
  seen = []
  for _ in range(num):
    state, metrics = step(state)
    logits = [np.asarray(POLICY.logprobs(x)[0]) for x in (state.params['policy'], state.slow['reference'])]
    theta = [np.asarray(x['theta']) for x in (state.params['policy'], state.slow['reference'])]
    seen.append((float(metrics['loss/preference']), *theta, *logits))
  return seen


@pytest.mark.parametrize(('period', 'rate'), [(1, 0.25), (3, 0.6), (3, 1.0), (2, 0.5)])
def test_the_reference_moves_as_the_paper_says(period, rate):
  """ref <- (1 - alpha) ref + alpha policy at every tau-th update, and stays as it is between them."""
  reference = 0.0
  for update, (_, theta, lagging, _, _) in enumerate(steps_of(period, rate), start=1):
    if update % period == 0:
      reference = (1 - rate) * reference + rate * theta
    np.testing.assert_allclose(lagging, np.broadcast_to(reference, lagging.shape), rtol=1e-5, atol=1e-7)


def test_behind_a_hard_update_the_loss_is_log_2_again():
  losses = [loss for loss, *_ in steps_of(3, 1.0)]
  np.testing.assert_allclose([losses[0], losses[3]], np.log(2), rtol=1e-5)
  assert max(losses[1], losses[2], losses[4], losses[5]) < np.log(2) - 1e-3


def test_a_reference_that_follows_lets_the_policy_go_further():
  apart = lambda seen: np.ptp(seen[-1][3])
  assert apart(steps_of(1, 0.5)) > apart(steps_of(10**6, 1.0)) + 0.05


@pytest.mark.parametrize(('period', 'rate'), [(0, 1.0), (1, 0.0), (1, 1.5)])
def test_numbers_out_of_their_range_are_refused(period, rate):
  with pytest.raises(ValueError, match='period=0 updates' if not period else f'rate={rate}'):
    following(None, copies={'reference': 'policy'}, period=period, rate=rate)
