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
from rlx.split import SplitStep
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


@pytest.mark.slow
def test_one_program_two_halves_and_python_agree():
  optimizer = optax.adam(0.1)
  fused_step = make_train_step(least_squares(), optimizer, **SETTINGS)
  halves_step = SplitStep(make_train_step(least_squares(host=True), optimizer, **SETTINGS))
  fused, metrics = jax.jit(repeat(fused_step, 5))(make_state(optimizer))
  single, python, halves = (make_state(optimizer) for _ in range(3))
  for i in range(5):
    single, single_metrics = jax.jit(fused_step)(single)
    halves, halves_metrics = halves_step(halves)
    assert halves_metrics.pop('rollout/policy_lag') == 0
    with jax.disable_jit():
      python, python_metrics = fused_step(python)
    for other in (single_metrics, halves_metrics, python_metrics):
      # Adam divides by small second moments at first, which makes 1e-7 of rounding a few 1e-5.
      chex.assert_trees_all_close(other, jax.tree.map(lambda x, i=i: x[i], metrics), rtol=2e-4)
  for other in (single, halves, python):
    chex.assert_trees_all_close(other.params, fused.params, rtol=2e-4)
    assert other.step == 5 and other.world == 5


def test_steps_around_python_repeat_as_the_program_does():
  optimizer = optax.adam(0.1)
  fused = jax.jit(repeat(make_train_step(least_squares(), optimizer, **SETTINGS), 3))
  _, metrics = fused(make_state(optimizer))
  step = SplitStep(make_train_step(least_squares(host=True), optimizer, **SETTINGS))
  state, split = step.repeat(make_state(optimizer), None, 3)
  assert (split.pop('rollout/policy_lag') == 0).all()
  chex.assert_trees_all_close(split, jax.device_get(metrics), rtol=2e-4)
  assert state.step == 3 and state.world == 3


def guess_with_the_sampler():
  """The batch records which parameter it was sampled with; the reward records when it was scored."""
  scored = []

  def rollout(models, world, key):
    sampled_with = jnp.full(4, models['policy'][0])
    return {'sampled_with': sampled_with, 'noise': jax.random.normal(key, (4,))}, world + 1

  def reward(models, batch, key):
    scored.append(float(batch['sampled_with'][0]))
    return batch

  def loss(models, batch, key):
    seen = {name: jnp.mean(x) for name, x in batch.items()}
    return -jnp.mean(jnp.sum(models['policy']) * jnp.ones_like(batch['noise'])), seen

  return Algorithm(rollout=rollout, reward=reward, loss=loss), scored


def test_a_lag_of_one_update_is_off_policy_and_says_so():
  optimizer, settings = optax.sgd(1.0), dict(epochs=1, minibatches=1, microbatches=1)
  algorithm, scored = guess_with_the_sampler()  # each step adds 1 to the parameter
  step = make_train_step(algorithm, optimizer, **settings)
  state, metrics = SplitStep(step, lag=1).repeat(make_state(optimizer), None, 4)
  np.testing.assert_array_equal(metrics['sampled_with'], [0, 0, 1, 2])
  np.testing.assert_array_equal(metrics['rollout/policy_lag'], [0, 1, 1, 1])
  assert scored == [0, 0, 1, 2] and state.step == 4 and state.world == 4
  on_policy, plain = SplitStep(step).repeat(make_state(optimizer), None, 4)
  np.testing.assert_array_equal(plain['sampled_with'], [0, 1, 2, 3])
  np.testing.assert_array_equal(plain['noise'], metrics['noise'])  # the noise of a step is its own
  chex.assert_trees_all_equal(on_policy.params, state.params)


def test_data_reach_the_rollout_and_stay_out_of_the_state():
  def rollout(models, world, key):
    return {'x': world['data'][world['cursor'] + jnp.arange(2)]}, {'cursor': world['cursor'] + 2}

  def loss(models, batch, key):
    return jnp.mean(models['policy'][0] * batch['x']), {'x': jnp.mean(batch['x'])}

  optimizer, settings = optax.sgd(0.0), dict(epochs=1, minibatches=1, microbatches=1)
  algorithm, data = Algorithm(rollout=rollout, loss=loss), jnp.arange(8.0)
  begin = lambda: make_state(optimizer).replace(world={'cursor': jnp.int32(0)})
  state, metrics = jax.jit(repeat(make_train_step(algorithm, optimizer, **settings), 4))(begin(), data)
  np.testing.assert_array_equal(metrics['x'], [0.5, 2.5, 4.5, 6.5])
  assert state.world.keys() == {'cursor'} and state.world['cursor'] == 8
  for lag in (0, 1, 3):
    split = SplitStep(make_train_step(algorithm, optimizer, **settings), lag=lag)
    _, metrics = split.repeat(begin(), data, 4)
    np.testing.assert_array_equal(metrics['x'], [0.5, 2.5, 4.5, 6.5])


def test_how_metrics_of_parts_are_put_together():
  """Means, but the largest `x_max`, over micro-batches and updates; `mismatch/x` of the first update only."""

  def loss(models, batch, key):
    x = batch['x']
    metrics = {'x': x.mean(), 'x_max': x.max(), 'mismatch/x': models['policy'][0], 'mismatch/x_max': x.max()}
    return -jnp.mean(models['policy'][0] * jnp.ones_like(x)), metrics

  algorithm = Algorithm(rollout=lambda models, world, key: ({'x': jnp.arange(8.0)}, world), loss=loss)
  optimizer = optax.sgd(1.0)
  step = make_train_step(algorithm, optimizer, epochs=3, minibatches=1, microbatches=4)
  state, metrics = step(make_state(optimizer))
  assert state.params['policy'][0] == 3 and metrics['mismatch/x'] == 0
  assert metrics['x'] == 3.5 and metrics['x_max'] == 7 and metrics['mismatch/x_max'] == 7


@pytest.mark.slow
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
  # One token of each row is doubled: half of the actions of two rows, and all of the other two.
  np.testing.assert_allclose(metrics['policy/clipped_high'], 0.75, rtol=1e-6)
  assert metrics['policy/clipped_low'] == 0
  np.testing.assert_allclose(metrics['kl/old'], 0.75 * (2 - 1 - np.log(2)), rtol=1e-5)
  np.testing.assert_allclose(metrics['mismatch/logprob_mean'], 0.75 * np.log(2), rtol=1e-6)
  np.testing.assert_allclose(metrics['mismatch/logprob_max'], np.log(2), rtol=1e-6)
  # Ratios (2, 1) in two rows: 3² / (2 (4 + 1)); a single ratio in the other two is as good as any.
  np.testing.assert_allclose(metrics['mismatch/effective_samples'], (0.9 + 1 + 1 + 0.9) / 4, rtol=1e-6)


def test_rows_that_were_not_scored_do_not_count():
  from rlx.metrics import describe

  batch = {
      'rewards': jnp.array([1.0, 0.0, 0.0, 0.5]), 'groups': jnp.array([0, 0, 2, 3]),
      'scored': jnp.array([True, True, False, True]), 'rewards/math': jnp.array([1.0, 0.0, jnp.nan, 0.5]),
  }
  metrics = describe(batch)
  assert metrics['reward/mean'] == 0.5 and metrics['rewards/math'] == 0.5
  np.testing.assert_allclose(metrics['reward/std'], np.std([1.0, 0.0, 0.5]), rtol=1e-6)
  np.testing.assert_allclose(metrics['reward/zero_variance_fraction'], 1 / 3, rtol=1e-6)
