"""Samples that are ahead of learning, and on a mesh of their own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import sharding
from rlx.split import SplitStep
from rlx.step import make_train_step
from rlx.types import Algorithm, State, StatefulRollout
from tests.cases import cases

STEPS = 8


def algorithm_of(observe=None):
  """Each step adds 1 to a number; rows say by which number they were drawn, and which draw it was."""

  def draw(models, world, key):
    number = models['policy']['w'][0, 0]
    columns = {'by': jnp.full(4, number), 'noise': jax.random.normal(key, (4,))}
    columns |= {'draw': jnp.full(4, world['draws']), 'seen': jnp.full(4, world['seen'])}
    mask = jnp.arange(3)[None] < jnp.array([1, 2, 3, 2])[:, None]
    return {**columns, 'action_mask': mask}, {**world, 'draws': world['draws'] + 1}

  def loss(models, batch, key):
    del key
    told = {name: batch[name].mean() for name in ('by', 'noise', 'draw', 'seen')}
    if 'policy_version' in batch:
      told |= {'version_max': batch['policy_version'].max(), 'padding': batch['policy_version'].min()}
    return -jnp.mean(models['policy']['w']) * 12 * jnp.ones(()), told

  begin = lambda key: {'draws': jnp.int32(0), 'seen': jnp.float32(0)}
  more = {} if observe is None else {'observe': observe}
  return Algorithm(rollout=StatefulRollout(begin=begin, draw=draw, data=None, **more), loss=loss)


def begin(algorithm, mesh=None):
  params = {'policy': {'w': jnp.zeros((4, 3))}}
  optimizer = optax.sgd(1.0)
  state = State(
      step=jnp.int32(0), params=params, slow={}, opt_state=optimizer.init(params),
      world=algorithm.rollout.begin(jax.random.key(0)), key=jax.random.key(3),
  )
  if mesh is None:
    return state
  return jax.device_put(state, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()))


def split(algorithm, **how):
  step = make_train_step(algorithm, optax.sgd(1.0), epochs=1, minibatches=1, microbatches=1)
  return SplitStep(step, on_host=False, **how)


@pytest.mark.parametrize('lag', cases([0, 1, 4, 20], at_once=[4]))
def test_rows_are_as_old_as_the_lag_says(lag):
  algorithm = algorithm_of()
  state, metrics = split(algorithm, lag=lag).repeat(begin(algorithm), None, STEPS)
  age = np.minimum(np.arange(STEPS), lag)
  np.testing.assert_array_equal(metrics['rollout/policy_lag'], age)
  np.testing.assert_allclose(metrics['by'], np.arange(STEPS) - age, atol=1e-5)
  np.testing.assert_array_equal(metrics['draw'], np.arange(STEPS))
  assert state.step == STEPS and state.world['draws'] == STEPS
  if lag:
    np.testing.assert_array_equal(metrics['version_max'], np.arange(STEPS) - age)
    np.testing.assert_array_equal(metrics['padding'], -1)
  _, fresh = split(algorithm, lag=0).repeat(begin(algorithm), None, STEPS)
  np.testing.assert_array_equal(metrics['noise'], fresh['noise'])  # a draw's noise is its own


def test_nothing_is_in_flight_behind_a_call():
  """Every call begins with the newest weights: the ages begin at 0 again, and versions go on."""
  algorithm = algorithm_of()
  pieces = split(algorithm, lag=2)
  state, _ = pieces.repeat(begin(algorithm), None, 4)
  state, metrics = pieces.repeat(state, None, 4)
  np.testing.assert_array_equal(metrics['rollout/policy_lag'], [0, 1, 2, 2])
  np.testing.assert_array_equal(metrics['version_max'], [4, 4, 4, 5])
  np.testing.assert_allclose(metrics['by'], metrics['version_max'], atol=1e-5)


def test_what_is_remembered_of_rows_comes_as_late_as_they_are():
  observe = lambda world, batch: {**world, 'seen': world['seen'] + 1}
  algorithm = algorithm_of(observe)
  state, metrics = split(algorithm, lag=2).repeat(begin(algorithm), None, 6)
  np.testing.assert_array_equal(metrics['seen'], [0, 0, 0, 1, 2, 3])
  assert state.world['seen'] == 6 and state.world['draws'] == 6


@pytest.mark.parametrize('lag', cases([0, 3], at_once=[3]))
def test_a_mesh_that_samples_and_a_mesh_that_learns_are_as_one(lag):
  """Eight devices: four learn and four sample; up to rounding it is what one device does."""
  algorithm, axes = algorithm_of(), {'policy': {'w': ('embed', None)}}
  learning = sharding.make_mesh(data=2, fsdp=2, tensor=1)
  sampling = sharding.make_mesh(data=2, fsdp=2, tensor=1, beside=learning)
  assert not set(learning.devices.ravel()) & set(sampling.devices.ravel())
  _, alone = split(algorithm, lag=lag).repeat(begin(algorithm), None, STEPS)
  pieces = split(algorithm, lag=lag, sampling=sampling, axes=axes)
  with jax.set_mesh(learning):
    state, metrics = pieces.repeat(begin(algorithm, learning), None, STEPS)
  for name in ('by', 'noise', 'draw', 'rollout/policy_lag'):
    np.testing.assert_allclose(metrics[name], alone[name], rtol=1e-6, atol=1e-6)
  assert metrics['sampling/weights_bytes'][0] == 4 * 3 * 4 and pieces.seconds['weights'] > 0
  # Where parts overlap, a clock that waited for each would keep them from it.
  assert set(pieces.seconds) == ({'weights'} if lag else {'weights', 'sampling', 'reward', 'learning'})
  assert state.world['draws'] == STEPS
  homes = {leaf.sharding.mesh for leaf in jax.tree.leaves(state)}
  assert homes == {learning}  # all of the state is back where it is saved from


def test_what_cannot_be_ahead_is_refused():
  unfinished = algorithm_of()
  unfinished = Algorithm(
      rollout=StatefulRollout(begin=lambda key: {}, draw=unfinished.rollout.draw, data=None, ahead=False),
      loss=unfinished.loss,
  )
  with pytest.raises(ValueError, match='unfinished rows'):
    split(unfinished, lag=1)
  split(unfinished, lag=0)
  with pytest.raises(ValueError, match='lag=-1 is negative'):
    split(algorithm_of(), lag=-1)
  remembers = algorithm_of(lambda world, batch: world)
  with pytest.raises(ValueError, match='remembers what became of its rows'):
    split(remembers, lag=1, sampling=sharding.make_mesh(data=1, fsdp=1, tensor=1))
