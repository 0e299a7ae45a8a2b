"""Seats with own parameters: two models, each of which learns from the rows of its own seat."""

import functools

import algorithms_table as table
import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import lens
from rlx.algorithms.grpo import grpo
from rlx.controllers import schedules
from rlx.learners import Learner, handed, make_learners_step, optimizer_of
from rlx.losses.anchors import no_kl
from rlx.rollout import seats
from rlx.step import make_train_step, repeat
from rlx.types import State

SEATS = {'one': 'policy', 'two': 'rival'}
ADAM = optax.adam(1e-2)
LEARNERS = {name: (name,) for name in SEATS}


def learner(seat, model, every=1):
  algorithm = lens.bind(
      grpo(handed, lambda models, batch, key: batch, table.POLICY, no_kl(), **table.clip, entropy_coef=0.0),
      {'policy': model},
  )
  step = make_train_step(algorithm, ADAM, epochs=1, minibatches=1, microbatches=1)
  return Learner(step=step, optimizer=ADAM, trained=(model,), every=every)


@functools.cache
def trained(every):
  """Both after 80 steps, the second of which learns at every nth, and the metrics of each dispatch of 20."""
  play = seats.for_learners(
      table.repeat_at_seats(), dict.fromkeys(SEATS, table.POLICY), episodes=32, group_size=8, turn_tokens=1,
      max_turns=functools.partial(schedules.constant, value=2), learners=LEARNERS,
  )
  learners = {'one': learner('one', 'policy'), 'two': learner('two', 'rival', every)}
  step = make_learners_step(lens.bind(play, SEATS), lambda models, rows, key: rows, learners)
  params = {name: table.MODEL.init(jax.random.key(i)) for i, name in enumerate(SEATS.values())}
  state = State(
      step=jnp.int32(0), params=params, slow={}, opt_state=optimizer_of(learners).init(params),
      world=step.rollout.begin(jax.random.key(5)), key=jax.random.key(6),
  )
  traced = []

  @jax.jit
  def dispatch(state):
    traced.append(state)
    return repeat(step, 20)(state)

  history = []
  for _ in range(4):
    state, metrics = dispatch(state)
    history.append(jax.device_get(metrics))
  assert len(traced) == 1, 'the step was traced more than once'
  return params, state, history


@pytest.mark.slow
def test_each_model_learns_from_the_rows_of_its_seat():
  _, _, history = trained(every=1)
  for seat in SEATS:
    first, last = history[0][f'{seat}/reward/mean'][0], np.mean(history[-1][f'{seat}/reward/mean'])
    assert first < 0.4 and last > 0.9, f'seat {seat} went from {first:.2f} to {last:.2f}'
  chex.assert_tree_all_finite(history)


@pytest.mark.slow
def test_a_model_that_rests_stays_as_it_was_and_the_other_learns_as_well():
  params, state, history = trained(every=1000)
  chex.assert_trees_all_equal(jax.device_get(state.params['rival']), jax.device_get(params['rival']))
  assert np.mean(history[-1]['one/reward/mean']) > 0.9 > 0.5 > np.mean(history[-1]['two/reward/mean'])
