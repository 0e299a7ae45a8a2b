"""The engine: one program, two halves and plain Python agree; noise is fresh; a NaN is skipped."""

import functools

import algorithms_table as table
import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import optimizers
from rlx.step import make_train_step, repeat
from rlx.types import Algorithm, State

ROW = next(row for row in table.ROWS if row.name == 'grpo')


def least_squares(host=False):
  """The smallest algorithm: guess a number; the reward half may run on the host."""
  np_or_jnp = np if host else jnp

  def rollout(models, world, key):
    return {'x': jax.random.normal(key, (8,)), 'seen': jnp.full(8, world)}, world + 1

  def reward(models, batch, key):
    assert not host or isinstance(batch['x'], np.ndarray)
    return {**batch, 'y': np_or_jnp.float32(2) * batch['x'] + np_or_jnp.float32(1)}

  def advantage(models, batch, key):
    return {**batch, 'noise': 1e-3 * jax.random.normal(key, (8,))}

  def loss(models, batch, key):
    w = models['policy']
    error = w[0] * batch['x'] + w[1] - batch['y'] + batch['noise']
    return jnp.mean(jnp.square(error)), {'noise': jnp.mean(batch['noise']), 'seen': jnp.mean(batch['seen'])}

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)


def make_state(optimizer, seed=0):
  params = {'policy': jnp.zeros(2)}
  return State(
      step=jnp.int32(0), params=params, slow={}, opt_state=optimizer.init(params), world=jnp.float32(0),
      key=jax.random.key(seed),
  )


SETTINGS = dict(epochs=2, minibatches=2, microbatches=2)


def test_one_program_two_halves_and_python_agree():
  optimizer = optax.adam(0.1)
  fused_step = make_train_step(least_squares(), optimizer, **SETTINGS)
  halves_step = make_train_step(least_squares(host=True), optimizer, **SETTINGS, host_reward=True)
  fused, metrics = jax.jit(repeat(fused_step, 5))(make_state(optimizer))
  single, python, halves = (make_state(optimizer) for _ in range(3))
  for i in range(5):
    single, single_metrics = jax.jit(fused_step)(single)
    halves, halves_metrics = halves_step(halves)
    with jax.disable_jit():
      python, python_metrics = fused_step(python)
    for other in (single_metrics, halves_metrics, python_metrics):
      # Adam divides by small second moments at first, which makes 1e-7 of rounding a few 1e-5.
      chex.assert_trees_all_close(other, jax.tree.map(lambda x, i=i: x[i], metrics), rtol=2e-4)
  for other in (single, halves, python):
    chex.assert_trees_all_close(other.params, fused.params, rtol=2e-4)
    assert other.step == 5 and other.world == 5


def test_language_model_step_fused_equals_scanned_and_python():
  optimizer = optax.sgd(0.1)
  init = functools.partial(_language_state, optimizer)
  train_step = make_train_step(ROW.make(), optimizer, epochs=1, minibatches=2, microbatches=1)
  scanned, metrics = jax.jit(repeat(train_step, 3))(init())
  state, jitted = init(), jax.jit(train_step)
  for i in range(3):
    state, one = jitted(state)
    chex.assert_trees_all_close(one, jax.tree.map(lambda x, i=i: x[i], metrics), rtol=1e-4, atol=1e-6)
  chex.assert_trees_all_close(state.params, scanned.params, rtol=1e-4, atol=1e-6)


def _language_state(optimizer):
  import test_conformance

  return test_conformance.make_state(ROW, optimizer)


def test_population_is_vmap():
  optimizer = optax.adam(0.1)
  train_step = make_train_step(least_squares(), optimizer, **SETTINGS)
  members = [make_state(optimizer, seed) for seed in range(3)]
  together, _ = jax.jit(jax.vmap(train_step))(jax.tree.map(lambda *x: jnp.stack(x), *members))
  for i, member in enumerate(members):
    alone, _ = jax.jit(train_step)(member)
    chex.assert_trees_all_close(jax.tree.map(lambda x, i=i: x[i], together.params), alone.params, rtol=1e-5)


def test_every_step_draws_fresh_noise():
  optimizer = optax.sgd(0.0)
  step = jax.jit(repeat(make_train_step(least_squares(), optimizer, **SETTINGS), 20))
  _, metrics = step(make_state(optimizer))
  assert len(np.unique(np.asarray(metrics['noise']))) == 20
  _, again = step(make_state(optimizer))
  np.testing.assert_array_equal(again['noise'], metrics['noise'])
  _, other = step(make_state(optimizer, seed=1))
  assert not np.intersect1d(other['noise'], metrics['noise']).size


def test_each_epoch_sees_every_row_once():
  seen = []

  def loss(models, batch, key):
    jax.debug.callback(lambda x: seen.append(np.asarray(x)), batch['index'])
    return jnp.sum(models['policy'][0] * 0), {}

  rollout = lambda models, world, key: ({'index': jnp.arange(12)}, world)
  optimizer = optax.sgd(0.1)
  algorithm = Algorithm(rollout=rollout, loss=loss)
  step = make_train_step(algorithm, optimizer, epochs=2, minibatches=3, microbatches=2)
  jax.block_until_ready(step(make_state(optimizer)))
  jax.effects_barrier()
  rows = np.concatenate(seen)
  assert all(len(part) == 2 for part in seen) and len(rows) == 24
  first, second = rows[:12], rows[12:]
  np.testing.assert_array_equal(np.sort(first), np.arange(12))
  np.testing.assert_array_equal(np.sort(second), np.arange(12))
  assert (first != second).any()


def test_a_nan_is_skipped_and_counted():
  def loss(models, batch, key):
    value = jnp.sum(jnp.square(models['policy'] - 1))
    return jnp.where(batch['seen'][0] == 1, jnp.nan, 1.0) * value, {}

  algorithm = least_squares()
  algorithm = Algorithm(rollout=algorithm.rollout, loss=loss)
  optimizer = optimizers.finite(optax.sgd(0.1))
  step = jax.jit(make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1))
  state, metrics = step(make_state(optimizer))
  assert metrics['optimizer/nonfinite_updates'] == 0
  skipped, metrics = step(state)
  assert metrics['optimizer/nonfinite_updates'] == 1
  np.testing.assert_array_equal(skipped.params['policy'], state.params['policy'])
  after, metrics = step(skipped)
  assert metrics['optimizer/nonfinite_updates'] == 0
  assert (after.params['policy'] > state.params['policy']).all()


@pytest.mark.parametrize(
    'settings, words',
    [({'minibatches': 3}, 'minibatches=3 does not divide the 8 rows'),
     ({'microbatches': 3}, 'microbatches=3 does not divide the 4 rows')],
)
def test_rows_must_divide(settings, words):
  optimizer = optax.sgd(0.1)
  step = make_train_step(least_squares(), optimizer, **{**SETTINGS, **settings})
  with pytest.raises(ValueError, match=words):
    step(make_state(optimizer))


def test_metrics_of_a_batch_and_of_an_update_by_hand():
  from rlx.metrics import describe, describe_update

  mask = jnp.array([[0, 1, 1], [0, 1, 0], [0, 1, 0], [0, 1, 1]], bool)
  batch = {
      'rewards': jnp.array([1.0, 0.0, 1.0, 1.0]), 'groups': jnp.array([0, 0, 1, 1]), 'action_mask': mask,
      'truncated': jnp.array([True, False, False, False]), 'reward/format': jnp.array([1.0, 1.0, 0.0, 0.0]),
      'sampler_logprobs': jnp.zeros((4, 3)), 'advantages': jnp.ones((4, 3)), 'weights': mask * 4 / 6,
  }
  metrics = describe(batch)
  assert metrics['reward/mean'] == 0.75 and metrics['reward/zero_variance_fraction'] == 0.5
  assert metrics['tokens/actions'] == 6 and metrics['tokens/response_mean'] == 1.5
  assert metrics['tokens/truncated_fraction'] == 0.25 and metrics['reward/format'] == 0.5
  logprobs = jnp.where(jnp.arange(3)[None] == 1, jnp.log(2.0), 0.0) * jnp.ones((4, 1))
  metrics = describe_update(batch, logprobs, jnp.full((4, 3), 0.3), clip_low=0.2, clip_high=0.2)
  np.testing.assert_allclose(metrics['policy/entropy'], 0.3, rtol=1e-6)
  np.testing.assert_allclose(metrics['policy/clipped_high'], 4 / 6, rtol=1e-6)  # the four doubled tokens
  assert metrics['policy/clipped_low'] == 0
  np.testing.assert_allclose(metrics['kl/old'], 4 / 6 * (0.5 - 1 + np.log(2)), rtol=1e-5)
