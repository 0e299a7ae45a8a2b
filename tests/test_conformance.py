"""Every property over every algorithm of `algorithms_table.py`."""

import dataclasses
import functools
import inspect

import algorithms_table as table
import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import sharding
from rlx.algorithms import trees
from rlx.engine.packing import Packing
from rlx.models import drafter, heads
from rlx.run.checkpoint import Checkpoints
from rlx.step import collect, make_train_step, repeat
from rlx.types import State, check, keep_batch, stateful
from rlx.unscored import leave_out


def rows(at_once):
  """All rows; those that are not in `at_once` are left to `make test-slow`."""
  mark = lambda row: () if row.name in at_once else pytest.mark.slow
  return pytest.mark.parametrize('row', [pytest.param(x, id=x.name, marks=mark(x)) for x in table.ROWS])


of_each_kind = rows({'grpo', 'sft'})  # sampled, shown
in_time = rows({'grpo'})  # what compiles for long


# Programs are shared between tests where they can be: most of the time here is compilation.


@functools.cache
def initial_policy(model):
  return jax.jit(model.init)(jax.random.key(0))


def make_state(row, optimizer):
  policy = jax.tree.map(jnp.copy, initial_policy(row.model))
  params = row.trained(policy)
  if row.critic:
    params['value'] = heads.init_value(policy)
  if row.drafter:
    params['drafter'] = drafter.init(policy, num_layers=1)
  slow = {name: jax.tree.map(jnp.copy, policy) for name in row.slow}
  if row.target:
    slow['target'] = heads.init_value(policy)
  return State(
      step=jnp.int32(0), params=params, slow=slow, opt_state=optimizer.init(params),
      world=rollout_of(row).begin(jax.random.key(0)), key=jax.random.key(1),
  )


def rollout_of(row):
  """With what it remembers, and the arrays that it is given at each step."""
  return stateful(row.make().rollout)


ADAM = optax.adam(5e-3)
MODELS = (
    'policy', 'reference', 'last', 'past', 'judge', 'prover', 'value', 'target', 'drafter', 'rectifier',
    'process', 'progress', 'rival', 'behaviour', 'critic',
)
AXES = dict.fromkeys(MODELS, table.MODEL.axes)  # all are decoders, or stand on one


@functools.cache
def make_dispatch(row):
  """Twenty steps of two minibatches: what learning and resuming are tried on."""
  return with_data(row, repeat(make_step(row, ADAM, minibatches=2), 20))


def with_data(row, program):
  """The program of a state, compiled; what a rollout is given is not compiled in."""
  compiled, data = jax.jit(program), rollout_of(row).data
  return functools.partial(_call, compiled, data)


def _call(compiled, data, state):
  return compiled(state, data)


@functools.cache
def a_batch(row):
  """The state at the start, the policy moved away from its copies, and a batch: so every term is live."""
  state = make_state(row, optax.sgd(1.0))
  algorithm = row.make()
  batch = with_data(row, functools.partial(collect, algorithm))(state)
  state = perturbed(state)
  batch = jax.jit(algorithm.survey)(state.models, batch, jax.random.key(3))
  return state, batch, jax.jit(functools.partial(loss_and_gradient, algorithm))


def make_step(row, optimizer, *, epochs=1, minibatches=1, microbatches=1):
  return make_train_step(
      row.make(), optimizer, epochs=epochs, minibatches=minibatches, microbatches=microbatches
  )


def perturbed(state):
  """The policy moved away from its copies, so that ratios, KL terms and value clipping are live."""
  leaves, tree = jax.tree.flatten(state.params)
  keys = jax.random.split(jax.random.key(7), len(leaves))
  noisy = [x + 0.05 * jax.random.normal(k, x.shape, x.dtype) for x, k in zip(leaves, keys, strict=True)]
  return state.replace(params=jax.tree.unflatten(tree, noisy))


def loss_and_gradient(algorithm, state, batch):
  def loss(params):
    return algorithm.loss({**state.slow, **params}, batch, jax.random.key(0))[0]

  return jax.value_and_grad(loss)(state.params)


def assert_close(a, b, *, atol=2e-6):
  """Gradients in float32: differences are rounding of sums in another order, whose size is the largest's."""
  def one(x, y):
    x, y = np.asarray(x), np.asarray(y)
    size = np.abs(y[np.isfinite(y)]).max(initial=1.0)
    np.testing.assert_allclose(x, y, atol=atol * size, rtol=2e-4)

  jax.tree.map(one, a, b)


@in_time
def test_learns_and_stays_finite_and_compiles_once(row):
  state, dispatch = make_state(row, ADAM), make_dispatch(row)
  structure = jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), jax.eval_shape(lambda: state))
  history = []
  for _ in range(10):
    state, metrics = dispatch(state)
    history.append(jax.device_get(metrics))
  assert dispatch.args[0]._cache_size() == 1, 'the step compiled more than once'
  assert structure == jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), jax.eval_shape(lambda: state))
  chex.assert_tree_all_finite(history)
  sign, name = (-1, row.metric[1:]) if row.metric.startswith('-') else (1, row.metric)
  first, last = sign * history[0][name][0], sign * np.mean(history[-1][name])
  assert first < row.reached - row.rise, f'the toy is no test: it begins at {first}'
  assert last > row.reached, f'{row.name} went from {first:.2f} to {last:.2f}, not above {row.reached}'


@in_time
def test_loss_is_a_mean_over_rows(row):
  """So it splits: order, minibatches and micro-batches do not matter, for value and gradient."""
  state, batch, evaluate = a_batch(row)
  check(batch)
  whole = evaluate(state, batch)
  assert float(optax.tree.norm(whole[1])) > 1e-3
  together = row.make().together  # what are whole comparisons stays whole
  order = np.random.default_rng(0).permutation(len(batch['tokens']) // together)
  order = (order[:, None] * together + np.arange(together)).ravel()
  assert_close(evaluate(state, jax.tree.map(lambda a: a[order], batch)), whole)
  parts = [
      evaluate(state, jax.tree.map(lambda a: a[rows], batch)) for rows in np.split(order, 4)
  ]
  assert_close(jax.tree.map(lambda *x: sum(x) / 4, *parts), whole)


@in_time
def test_padding_changes_nothing(row):
  """More padding columns, and other tokens in the padding, leave loss and gradient alone."""
  state, batch, evaluate = a_batch(row)
  length = batch['tokens'].shape[1]
  wide = {
      name: jnp.pad(x, [(0, 0), (0, 3)] + [(0, 0)] * (x.ndim - 2)) if x.shape[1:2] == (length,) else x
      for name, x in batch.items()
  }
  wide['tokens'] = jnp.where(wide['valid'], wide['tokens'], 5)
  assert_close(evaluate(state, wide), evaluate(state, batch))


UNSCORED = table.GROUP_SIZE + 1  # the last group, and one row of the group before it
WHOLE_GROUPS = ('remax',)  # whose rows have to be so many a prompt
# No reward is asked: demonstrations; answers that the algorithm verifies by itself.
OF_PAIRS = {'dpo', 'hypo', 'apo_accelerated', 'inpo', 'modpo', 'tpo', 'kto', 'reference_free', 'cycle_align'}
OF_JUDGES = {'bradley_terry', 'contrasted', 'meta_step', 'critique_then_score', 'pointwise'}
SUPERVISED = {'sft', 'gkd', 'c_rlft', 'stepwise'} | OF_JUDGES
NO_REWARD = {'brpo'} | SUPERVISED | OF_PAIRS


def test_only_what_asks_for_no_reward_has_none():
  assert {row.name for row in table.ROWS if row.make().reward is keep_batch} == SUPERVISED | OF_PAIRS


@pytest.mark.parametrize('row', [
    pytest.param(x, id=x.name, marks=() if x.name == 'grpo' else pytest.mark.slow)
    for x in table.ROWS if x.name not in NO_REWARD
])
def test_rows_that_were_not_scored_change_nothing(row, monkeypatch):
  """Advantages of the others, loss and gradient are those of a batch without them."""
  state = make_state(row, optax.sgd(1.0))
  rollout = rollout_of(row)
  world = state.world if rollout.data is None else {**state.world, 'data': rollout.data}
  sampled, _ = jax.jit(rollout.draw)(state.models, world, jax.random.key(5))
  num = len(sampled['tokens']) - (table.GROUP_SIZE if row.name in WHOLE_GROUPS else UNSCORED)
  outcomes = table.reward

  def reward(models, batch, key):
    batch = outcomes(models, batch, key)
    known = jnp.arange(len(batch['rewards'])) < num
    return {**batch, 'rewards': jnp.where(known, 5 + batch['rewards'], jnp.nan)}

  monkeypatch.setattr(table, 'reward', reward)
  algorithm, moved = row.make(), perturbed(state)
  models = (moved if row.target else state).models  # advantages of a critic that says 0 are 0

  @jax.jit
  def learnt(batch):
    batch = leave_out(algorithm.reward(models, batch, jax.random.key(6)))
    batch = algorithm.advantage(models, batch, jax.random.key(7))
    column = batch['advantages' if 'advantages' in batch else 'rewards']  # SuperHF has no advantages
    return column, loss_and_gradient(algorithm, moved, batch)

  advantages, whole = learnt(sampled)
  expected, without = learnt(jax.tree.map(lambda a: a[:num], sampled))
  np.testing.assert_allclose(advantages[: len(expected)], expected, rtol=2e-4, atol=1e-5)
  assert_close(whole, without)
  assert np.any(expected) and float(optax.tree.norm(whole[1])) > 1e-3


@rows(())
def test_packing_changes_nothing(row, monkeypatch):
  """Packed rows with shared prompts have the loss and gradient of padded ones."""
  state, batch, evaluate = a_batch(row)
  expected = evaluate(state, batch)
  packing = Packing(columns=batch['tokens'].shape[1] + 6, rows=4, share_prompts=True)
  for name in ('POLICY', 'DRAFTER', 'CRITIC', 'IMPLICIT', 'WORLD_POLICY', 'WORLD_CRITIC'):
    scoring = dataclasses.replace(table.SCORING, packing=packing)
    monkeypatch.setattr(table, name, dataclasses.replace(getattr(table, name), scoring=scoring))
  packed = jax.jit(functools.partial(loss_and_gradient, row.make()))
  assert_close(packed(state, batch), expected)


@in_time
def test_microbatches_and_devices_take_the_same_step(row):
  """SGD, so that a difference of parameters is a difference of gradients."""
  optimizer = optax.sgd(row.rate)
  state = make_state(row, optimizer)
  whole_state, whole = with_data(row, make_step(row, optimizer, minibatches=2))(state)
  split_state, split = with_data(row, make_step(row, optimizer, minibatches=2, microbatches=4))(state)
  assert_close(split_state.params, whole_state.params)
  assert_close(split, whole)
  mesh = sharding.make_mesh(data=2, fsdp=2, tensor=2)
  with jax.set_mesh(mesh):
    placed = jax.device_put(state, sharding.state_shardings(state, mesh, AXES))
    sharded_state, sharded = with_data(row, make_step(row, optimizer, minibatches=2))(placed)
  assert all(len(leaf.sharding.device_set) == 8 for leaf in jax.tree.leaves(sharded_state.params))
  assert_close(jax.device_get(sharded_state.params), jax.device_get(whole_state.params))
  assert_close(jax.device_get(sharded), jax.device_get(whole))


@of_each_kind
def test_resumes_bitwise(row, tmp_path):
  dispatch = make_dispatch(row)
  middle, _ = dispatch(make_state(row, ADAM))
  uninterrupted, metrics = dispatch(middle)
  with Checkpoints(tmp_path / 'checkpoints', keep=2) as checkpoints:
    checkpoints.save(middle, extra={})
  like = jax.eval_shape(lambda: make_state(row, ADAM))
  with Checkpoints(tmp_path / 'checkpoints', keep=2) as checkpoints:
    restored, _ = checkpoints.restore(lambda step, extra: like, lambda text: None)
  resumed, resumed_metrics = dispatch(restored)
  raw = lambda state: jax.device_get(state.replace(key=jax.random.key_data(state.key)))
  chex.assert_trees_all_equal(raw(resumed), raw(uninterrupted))
  chex.assert_trees_all_equal(resumed_metrics, metrics)


def test_every_algorithm_of_the_library_has_a_row():
  import pkgutil

  import rlx.algorithms

  modules = {module.name for module in pkgutil.iter_modules(rlx.algorithms.__path__)}
  of_trees = {name for name, x in vars(trees).items() if inspect.getmodule(x) is trees}
  # Choices among the parts of one; train steps of their own; a table of its own, in tests/control; no samples
  # of a policy (tests/test_stage_parts.py), and what is around these.
  others = {'presets', 'seeupo', 'internal_rl', 'control', 'gather', 'following', 'memento', 'rlcoder', 'rmm'}
  more = {'grpo_rooms', 'grpo_seats', 'grpo_own_seat'}  # the same algorithm with other rollouts
  assert modules - {'trees'} | of_trees == {row.name for row in table.ROWS} - more | others
