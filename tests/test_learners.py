"""Several learners in a step: each moves as it would alone, and nothing of another's changes it."""

import functools
import zlib

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import sharding
from rlx.controllers.memory import with_memory
from rlx.learners import Learner, handed, make_learners_step, optimizer_of, without_rests
from rlx.rewards.host import OnHost
from rlx.rollout.each import each, for_all
from rlx.split import SplitStep
from rlx.step import make_train_step, repeat
from rlx.types import Algorithm, State, StatefulRollout

SHAPES = {'line': (2,), 'plane': (3, 2), 'cube': (2, 2, 2)}
ROWS = {'line': 12, 'plane': 8, 'cube': 6}
UPDATES = {
    'line': dict(epochs=1, minibatches=1, microbatches=1),
    'plane': dict(epochs=3, minibatches=2, microbatches=2),
    'cube': dict(epochs=2, minibatches=3, microbatches=1),
}
OPTIMIZERS = {'line': optax.sgd(0.1), 'plane': optax.adam(0.05), 'cube': optax.sgd(0.1, momentum=0.9)}
STEPS = 6


def rollout_of(name):
  """Rows of a learner's own number and shape, and a memory that counts the batches."""

  def draw(models, world, key):
    del models
    return {'x': jax.random.normal(key, (ROWS[name], *SHAPES[name]))}, {'count': world['count'] + 1}

  return StatefulRollout(begin=lambda key: {'count': jnp.int32(0)}, draw=draw, data=None)


def reward(models, batch, key):
  """A target that depends on another model, as a judge's would."""
  del key
  shift = 0.1 * jnp.sum(models['line'])
  return {**batch, 'rewards': jnp.sum(batch['x'].reshape(len(batch['x']), -1), axis=1) + shift}


def rewards(models, rows, key):
  return {name: reward(models, batch, key) for name, batch in rows.items()}


def algorithm_of(name, rollout):
  """Least squares, with a memory of its own, noise in the loss and a lagging copy."""
  rollout = with_memory(
      rollout, 'mean', begin=lambda key: jnp.float32(0),
      annotate=lambda mean, batch: {**batch, 'before': jnp.full(ROWS[name], mean)},
      observe=lambda mean, batch: 0.9 * mean + 0.1 * batch['rewards'].mean(),
  )

  def advantage(models, batch, key):
    noise = jax.random.normal(key, (ROWS[name],))
    return {**batch, 'advantages': batch['rewards'] - batch['before'] + 0.01 * noise}

  def loss(models, batch, key):
    said = jnp.sum((models[name][None] * batch['x']).reshape(len(batch['x']), -1), axis=1)
    error = said - batch['advantages'] + 0.01 * jax.random.normal(key, said.shape)
    return jnp.mean(jnp.square(error)), {'loss/other': jnp.sum(models['lagging'])}

  def track(slow, params, update):
    return {**slow, 'lagging': 0.9 * slow['lagging'] + 0.1 * jnp.sum(params[name])}

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss, track=track)


def learner(name, every=1):
  algorithm = algorithm_of(name, handed)
  return Learner(
      step=make_train_step(algorithm, OPTIMIZERS[name], **UPDATES[name]), optimizer=OPTIMIZERS[name],
      trained=(name,), every=every,
  )


def together(names, every=1, reward=rewards):
  learners = {name: learner(name, every) for name in names}
  rollout = each(**{name: rollout_of(name) for name in names})
  return make_learners_step(rollout, reward, learners), optimizer_of(learners)


def begin(step, optimizer, names, seed=0):
  key = jax.random.key(seed)
  params = {name: jnp.full(SHAPES[name], 0.5) for name in names}
  world = step.rollout.begin(jax.random.key(1))
  return State(
      step=jnp.int32(0), params=params, slow={'lagging': jnp.float32(0)}, opt_state=optimizer.init(params),
      world=world, key=key,
  )


def replayed(names):
  """Six steps of all, and of each alone, in its own `State`, on the rows that it had among the others."""
  step, optimizer = together(names)
  state = begin(step, optimizer, names)
  sample, score, learn = jax.jit(step.sample), jax.jit(step.scored), jax.jit(step.learn)
  ones = {
      name: jax.jit(make_train_step(algorithm_of(name, handed), OPTIMIZERS[name], **UPDATES[name]))
      for name in names
  }
  alone = {
      name: State(
          step=state.step, params={name: state.params[name]}, slow=state.slow,
          opt_state=OPTIMIZERS[name].init({name: state.params[name]}), world={'mean': jnp.float32(0)},
          key=jax.random.fold_in(state.key, zlib.crc32(name.encode()) % 2**31),
      ) for name in names
  }
  for _ in range(STEPS):
    rows, world = sample(state)
    rows = score(state, rows, {})
    lagging = state.slow['lagging']
    for name in names:
      others = {other: alone[other].params[other] for other in names if other != name}
      part = alone[name].replace(slow={'lagging': lagging, **others})
      alone[name], _ = ones[name](part.replace(world={**part.world, 'rows': rows[name]}))
      lagging = alone[name].slow['lagging']
    state, _ = learn(state.replace(world=world), rows, None, {})
  return state, alone


def numbers(tree):
  as_numbers = lambda x: jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
  return jax.tree.map(as_numbers, tree)


@functools.cache
def scanned(names=tuple(SHAPES), every=1):
  step, optimizer = together(names, every)
  return jax.jit(repeat(step, STEPS))(begin(step, optimizer, names))


@pytest.mark.slow
def test_three_learners_of_unlike_shapes_move_as_each_does_alone():
  names = tuple(SHAPES)
  state, alone = replayed(names)
  in_one_program, metrics = scanned()
  chex.assert_trees_all_close(numbers(state), numbers(in_one_program), rtol=1e-4, atol=1e-4)
  for name in names:
    chex.assert_trees_all_equal(state.params[name], alone[name].params[name])
    chex.assert_trees_all_equal(state.opt_state[name], alone[name].opt_state)
    chex.assert_trees_all_equal(state.world[name], alone[name].world)
    assert metrics[f'{name}/loss/total'].shape == (STEPS,)
    assert not np.array_equal(state.params[name], jnp.full(SHAPES[name], 0.5))
  assert state.step == STEPS and state.world['play']['cube']['count'] == STEPS


@pytest.mark.slow
def test_a_learner_more_changes_no_draw_and_no_step_of_the_others():
  """Those behind it see it; those before it, and all rows and noise, are as they were."""
  two, _ = scanned(('line', 'plane'))
  state, _ = scanned()
  # `lagging` is moved by all, and read by no learner's update.
  for name in ('line', 'plane'):
    chex.assert_trees_all_equal(two.params[name], state.params[name])
    chex.assert_trees_all_equal(two.world[name], state.world[name])


@pytest.mark.slow
def test_one_step_at_a_time_is_the_same():
  names = tuple(SHAPES)
  step, optimizer = together(names)
  state, dispatch = begin(step, optimizer, names), jax.jit(step)
  for _ in range(STEPS):
    state, _ = dispatch(state)
  chex.assert_trees_all_equal(numbers(state), numbers(scanned()[0]))


@pytest.mark.slow
def test_a_population_of_them_is_its_members():
  names = tuple(SHAPES)
  step, optimizer = together(names)
  states = [begin(step, optimizer, names, seed) for seed in range(3)]
  stacked = jax.tree.map(lambda *x: jnp.stack(x), *states)
  many, _ = jax.jit(jax.vmap(repeat(step, STEPS)))(stacked)
  for index, state in enumerate(states):
    one, _ = jax.jit(repeat(step, STEPS))(state)
    member = jax.tree.map(lambda x, i=index: x[i], many)
    chex.assert_trees_all_close(numbers(one), numbers(member), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_on_a_mesh_they_take_the_same_steps():
  names = tuple(SHAPES)
  step, optimizer = together(names)
  with jax.set_mesh(sharding.make_mesh(data=2, fsdp=1, tensor=1)):
    state, _ = jax.jit(repeat(step, STEPS))(begin(step, optimizer, names))
  chex.assert_trees_all_close(state.params, scanned()[0].params, rtol=1e-5)


class InPython(OnHost):
  """The same rewards in NumPy."""

  def __call__(self, models, rows, key):
    assert all(isinstance(batch['x'], np.ndarray) for batch in rows.values())
    shift = np.float32(0.1) * np.sum(np.asarray(models['line']))
    scored = lambda x: x.reshape(len(x), -1).sum(axis=1) + shift
    return {name: {**batch, 'rewards': scored(batch['x'])} for name, batch in rows.items()}

  def heard(self):
    return []

  def only_shapes(self):
    raise NotImplementedError

  def close(self):
    pass


@pytest.mark.slow
def test_with_a_reward_in_python_they_take_the_same_steps():
  names = tuple(SHAPES)
  step, optimizer = together(names, reward=InPython())
  state, metrics = SplitStep(step).repeat(begin(step, optimizer, names), None, STEPS)
  chex.assert_trees_all_close(state.params, scanned()[0].params, rtol=1e-4)
  assert metrics['cube/loss/total'].shape == (STEPS,)


@pytest.mark.slow
def test_a_learner_that_rests_moves_at_its_times_and_says_so():
  state, metrics = scanned(('line', 'plane'), 4)
  np.testing.assert_array_equal(metrics['line/stepped'], [0, 0, 0, 1, 0, 0])
  step, optimizer = together(('line', 'plane'), 4)
  one, before = jax.jit(step), begin(step, optimizer, ('line', 'plane'))
  for index in range(STEPS):
    after, _ = one(before)
    moved = not np.array_equal(before.params['line'], after.params['line'])
    assert moved == (index == 3)
    assert bool(jax.tree.leaves(after.opt_state['plane'])[0]) == (index >= 3)  # Adam's count
    before = after
  chex.assert_trees_all_equal(numbers(state), numbers(before))
  row = {name: np.asarray(x[0]) for name, x in metrics.items()}
  assert set(without_rests(row)) == {'line/stepped', 'plane/stepped'}
  assert set(without_rests({name: np.asarray(x[3]) for name, x in metrics.items()})) == set(metrics)


@pytest.mark.slow
def test_resumed_they_go_on_to_the_bit():
  names = tuple(SHAPES)
  step, optimizer = together(names)
  half = jax.jit(repeat(step, STEPS // 2))
  state, _ = half(begin(step, optimizer, names))
  saved = jax.tree.map(np.asarray, numbers(state))
  again = jax.tree.map(jnp.asarray, saved)
  again = jax.tree.unflatten(jax.tree.structure(state), jax.tree.leaves(again))
  state, _ = half(again.replace(key=jax.random.wrap_key_data(again.key)))
  chex.assert_trees_all_equal(numbers(state), numbers(scanned()[0]))


def test_two_learners_of_one_model_take_turns_with_moments_of_their_own():
  def algorithm(target):
    loss = lambda models, batch, key: (jnp.mean((models['x'] - target) ** 2), {})
    return Algorithm(rollout=handed, loss=loss)

  updates = dict(epochs=1, minibatches=1, microbatches=1)
  optimizers = {'up': optax.sgd(0.25), 'down': optax.adam(0.1)}
  learners = {
      name: Learner(
          step=make_train_step(algorithm(target), optimizers[name], **updates), optimizer=optimizers[name],
          trained=('x',), every=1,
      ) for name, target in (('up', 8.0), ('down', 0.0))
  }
  rollout = for_all(lambda models, world, key: ({'y': jnp.zeros(4)}, world), learners=('up', 'down'))
  step = make_learners_step(rollout, lambda models, rows, key: rows, learners)
  params = {'x': jnp.float32(0)}
  state = State(
      step=jnp.int32(0), params=params, slow={}, opt_state=optimizer_of(learners).init(params),
      world=step.rollout.begin(jax.random.key(0)), key=jax.random.key(0),
  )
  state, metrics = jax.jit(step)(state)
  assert metrics['up/loss/total'] == 64 and metrics['down/loss/total'] == 16  # seen behind the first: x = 4
  np.testing.assert_allclose(state.params['x'], 3.9, rtol=1e-6)
  assert len(jax.tree.leaves(state.opt_state['down'])) == 3 and not jax.tree.leaves(state.opt_state['up'])


@pytest.mark.parametrize(
    ('rows', 'words'),
    [
        ({'line': 1, 'plane': 1, 'other': 1}, "there are rows for ['other']"),
        ({'line': 1}, 'a learner gets no rows'),
    ],
)
def test_rows_and_learners_that_do_not_meet_are_refused(rows, words):
  step, optimizer = together(('line', 'plane'))
  state = begin(step, optimizer, ('line', 'plane'))
  batches = {name: {'x': jnp.zeros((12, 2)), 'rewards': jnp.zeros(12)} for name in rows}
  with pytest.raises(ValueError) as error:
    step.learn(state, batches, None)
  assert words in str(error.value)
