"""Accelerated preference optimisation: what is set ahead, and when. https://arxiv.org/abs/2410.06293"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.apo_accelerated import apo_accelerated
from rlx.algorithms.dpo import dpo
from rlx.algorithms.following import following
from rlx.envs import gold
from rlx.losses import preference
from rlx.step import make_train_step, repeat
from rlx.types import State

POLICY = gold.LogLinear()
WORLD = jax.jit(gold.gold_worlds(
    num_prompts=4, num_answers=4, width=3, hump=0.0, hidden=0.0, spread=1.0
).make)(jax.random.key(0))
PERIOD, ROUNDS = 3, 4


def learnt(make):
  """The state behind each train step, one update each."""

  def rollout(models, world, key):
    del models
    return gold.labelled(WORLD, key, num=8, sharpness=1.0), world

  parent = dpo(rollout, POLICY, POLICY, loss=functools.partial(preference.sigmoid, beta=1.0))
  optimizer = optax.sgd(0.5)
  step = make_train_step(make(parent), optimizer, epochs=1, minibatches=1, microbatches=1)
  begin = POLICY.init(WORLD)
  state = State(
      step=jnp.int32(0), params={'policy': begin}, slow={'reference': begin, 'last': begin},
      opt_state=optimizer.init({'policy': begin}), world={}, key=jax.random.key(1),
  )
  program, states = jax.jit(repeat(step, 1)), []
  for _ in range(PERIOD * ROUNDS):
    state, _ = program(state)
    states.append(jax.device_get({name: model['theta'] for name, model in state.models.items()}))
  return states


def test_without_momentum_it_is_iterative_dpo_to_the_bit():
  plain = learnt(functools.partial(following, copies={'reference': 'policy'}, period=PERIOD))
  still = learnt(functools.partial(apo_accelerated, momentum=0.0, period=PERIOD))
  moved = learnt(functools.partial(apo_accelerated, momentum=0.5, period=PERIOD))
  for one, other in zip(plain, still, strict=True):
    np.testing.assert_array_equal(one['policy'], other['policy'])
    np.testing.assert_array_equal(one['reference'], other['reference'])
  assert np.abs(moved[-1]['policy'] - plain[-1]['policy']).max() > 1e-3


def test_the_reference_is_set_ahead_behind_each_round_alone():
  states = learnt(functools.partial(apo_accelerated, momentum=0.5, period=PERIOD))
  last = np.zeros(3)
  for number, now in enumerate(states, start=1):
    if number % PERIOD:
      continue
    np.testing.assert_allclose(now['reference'], now['policy'] + 0.5 * (now['policy'] - last), rtol=1e-6)
    np.testing.assert_array_equal(now['last'], now['policy'])
    last = now['policy']
    for between in states[number : number + PERIOD - 1]:
      np.testing.assert_array_equal(between['reference'], now['reference'])


@pytest.mark.parametrize('wrong', [dict(momentum=-0.1, period=1), dict(momentum=0.5, period=0)])
def test_numbers_out_of_range_are_refused(wrong):
  with pytest.raises(ValueError, match='momentum|period'):
    learnt(functools.partial(apo_accelerated, **wrong))
