"""A memory in `world`: read before the batch is scored, written after it, in every form of the step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.controllers.memory import with_memory
from rlx.split import SplitStep
from rlx.step import make_train_step, repeat
from rlx.types import Algorithm, State, StatefulRollout


def counting(models, world, key):
  """The rollout inside has a memory of its own: how many batches it gave."""
  return {'x': jnp.full(4, world['given'], jnp.float32)}, {'given': world['given'] + 1}


INNER = StatefulRollout(begin=lambda key: {'given': jnp.int32(0)}, draw=counting, data=None)


def running_sum(rollout=INNER, name='sum'):
  """Remembers the sum of all rewards, and shows it to the batch."""
  return with_memory(
      rollout, name, begin=lambda key: jnp.float32(0),
      annotate=lambda memory, batch: {**batch, name: jnp.full(4, memory)},
      observe=lambda memory, batch: memory + batch['rewards'].sum(),
  )


def algorithm(rollout):
  return Algorithm(
      rollout=rollout, reward=lambda models, batch, key: {**batch, 'rewards': batch['x'] + 1},
      loss=lambda models, batch, key: (jnp.sum(models['policy']), {'seen': jnp.mean(batch['sum'])}),
  )


def run(num_steps, *, host=False, lag=0):
  rollout, sgd = running_sum(), optax.sgd(0.0)
  step = make_train_step(algorithm(rollout), sgd, epochs=1, minibatches=2, microbatches=1)
  params = {'policy': jnp.zeros(1)}
  state = State(
      step=jnp.int32(0), params=params, slow={}, opt_state=sgd.init(params),
      world=rollout.begin(jax.random.key(0)), key=jax.random.key(1),
  )
  if host:
    return SplitStep(step, lag=lag).repeat(state, None, num_steps)
  return jax.jit(repeat(step, num_steps))(state)


# Batch i has rewards i + 1 in four rows, so sums are 0, 4, 12, 24, 40.


def test_every_batch_sees_those_before_it():
  state, metrics = run(4)
  np.testing.assert_array_equal(metrics['seen'], [0, 4, 12, 24])
  assert state.world['sum'] == 40 and state.world['given'] == 4


def test_in_two_halves_it_is_the_same():
  state, metrics = run(4, host=True)
  np.testing.assert_array_equal(metrics['seen'], [0, 4, 12, 24])
  assert state.world['sum'] == 40 and state.world['given'] == 4


def test_samples_ahead_of_learning_see_it_one_batch_late_and_loses_nothing():
  state, metrics = run(4, host=True, lag=1)
  np.testing.assert_array_equal(metrics['seen'], [0, 0, 4, 12])
  assert state.world['sum'] == 40 and state.world['given'] == 4


def test_two_memories_do_not_mix():
  rollout = running_sum(running_sum(), 'other')
  world = rollout.begin(jax.random.key(0))
  batch, world = rollout({}, world, jax.random.key(0))
  world = rollout.observe(world, {**batch, 'rewards': jnp.ones(4)})
  assert set(batch) == {'x', 'sum', 'other'}
  assert (world['sum'], world['other'], world['given']) == (4, 4, 1)
  with pytest.raises(ValueError, match="there is a memory 'sum' already"):
    running_sum(running_sum()).begin(jax.random.key(0))


def test_a_rollout_that_remembers_nothing_can_have_one():
  rollout = running_sum(lambda models, world, key: ({'x': jnp.zeros(4)}, world))
  assert rollout.begin(jax.random.key(0)) == {'sum': 0} and rollout.data is None
