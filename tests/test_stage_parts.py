"""Parts of stages and of learners: memories that go on, pairs, exchanges, models that begin as others."""

import contextlib
import functools
import os
from pathlib import Path
import types

import algorithms_table as table
import chex
import jax
import jax.numpy as jnp
from ml_collections import ConfigDict
import numpy as np
import optax
import pytest

from rlx import config as configs
from rlx.algorithms.bradley_terry import bradley_terry
from rlx.algorithms.following import following
from rlx.algorithms.gather import gather
from rlx.models import adapters
from rlx.models.adapters import Lora
from rlx.models.lora import lora, merged
from rlx.rewards.host import HostReward
from rlx.rewards.of_learners import against_solutions, best_and_worst, by_name, in_turn, pairs
from rlx.rollout import store as stores
from rlx.rollout.each import each, for_all
from rlx.rollout.gathered import from_memory, gathered, remembered
from rlx.rollout.pairs import paired
from rlx.rollout.swarm import swarm
from rlx.rollout.turns import tokens_as_turns
from rlx.run import states, train
from rlx.run.build import build
from rlx.step import make_train_step
from rlx.types import Algorithm, State, StatefulRollout

ROOT = Path(__file__).parents[1]
QUICKSTART = 'experiments/configs/quickstart/arithmetic.py:smoke'


def numbered(num=4, name='x'):
  """Rows whose numbers go on from batch to batch: 0, 1, 2, ..."""

  def draw(models, world, key):
    del models, key
    rows = world['next'] + jnp.arange(num)
    return {name: rows, 'groups': rows // 2 * 2, 'area/what': jnp.zeros(num)}, {'next': world['next'] + num}

  return StatefulRollout(begin=lambda key: {'next': jnp.int32(0)}, draw=draw, data=None)


def even(models, batch, key):
  """1 for even numbers."""
  del models, key
  return {**batch, 'rewards': (batch['x'] % 2 == 0).astype(jnp.float32)}


def advance(rollout, world, reward=even):
  batch, world = rollout({}, world, jax.random.key(0))
  return batch, rollout.observe(world, reward({}, batch, None))


# --- memories -----------------------------------------------------------------------------------------------


def test_a_store_takes_the_rows_that_are_wanted_and_wraps():
  store = stores.empty({'x': jnp.zeros(1, jnp.int32)}, 5)
  write = jax.jit(stores.write_where)
  store = write(store, {'x': jnp.arange(4)}, jnp.array([True, False, True, True]))
  assert store['rows']['x'][:3].tolist() == [0, 2, 3] and (store['size'], store['next']) == (3, 3)
  store = write(store, {'x': jnp.arange(10, 14)}, jnp.array([True, True, False, True]))
  assert store['rows']['x'].tolist() == [13, 2, 3, 10, 11] and (store['size'], store['next']) == (5, 1)
  same = write(store, {'x': jnp.arange(4)}, jnp.zeros(4, bool))
  chex.assert_trees_all_equal(same, store)


def test_good_rows_are_remembered_and_drawn_again():
  rollout = remembered(numbered(), memory='right', capacity=6, min_reward=1.0)
  world = rollout.warm_up({}, rollout.begin(jax.random.key(0)), jax.random.key(1))
  assert world['right']['size'] == 0
  for _ in range(4):
    _, world = advance(rollout, world)
  assert world['next'] == 16
  kept = world['right']
  assert set(kept['rows']) == {'x', 'groups', 'rewards'}  # no measurements
  assert sorted(kept['rows']['x'].tolist()) == [4, 6, 8, 10, 12, 14] and kept['size'] == 6
  again = from_memory(memory='right', batch_size=64)
  batch, after = again({}, {'right': kept}, jax.random.key(3))
  assert set(batch['x'].tolist()) == {4, 6, 8, 10, 12, 14} and batch['rewards'].min() == 1
  chex.assert_trees_all_equal(after, {'right': kept})


def test_an_empty_memory_counts_for_nothing():
  store = stores.empty({'x': jnp.zeros(1), 'action_mask': jnp.ones((1, 3), bool)}, 4)
  store = {**store, 'rows': {**store['rows'], 'action_mask': jnp.ones((4, 3), bool)}}
  batch, _ = from_memory(memory='m', batch_size=2)({}, {'m': store}, jax.random.key(0))
  assert not batch['action_mask'].any()
  with pytest.raises(ValueError, match='name it in takes'):
    from_memory(memory='m', batch_size=2)({}, {}, jax.random.key(0))


def test_a_memory_smaller_than_a_batch_is_refused():
  rollout = remembered(numbered(8), memory='m', capacity=6, min_reward=1.0)
  with pytest.raises(ValueError, match='capacity=6'):
    rollout.warm_up({}, rollout.begin(jax.random.key(0)), jax.random.key(1))


def test_rows_are_gathered_before_the_first_step():
  inner = remembered(numbered(), memory='right', capacity=8, min_reward=1.0)
  rollout = gathered(inner, even, steps=3)
  world = rollout.warm_up({}, rollout.begin(jax.random.key(0)), jax.random.key(1))
  assert world['next'] == 12 and world['right']['size'] == 6
  with pytest.raises(ValueError, match='steps=0'):
    gathered(inner, even, steps=0)


def test_gathering_learns_nothing_and_remembers():
  algorithm = gather(remembered(numbered(), memory='right', capacity=8, min_reward=1.0), even)
  step = make_train_step(algorithm, optax.identity(), epochs=1, minibatches=1, microbatches=1)
  world = algorithm.rollout.warm_up({}, algorithm.rollout.begin(jax.random.key(0)), jax.random.key(1))
  state = State(step=jnp.int32(0), params={}, slow={}, opt_state=(), world=world, key=jax.random.key(0))
  state, metrics = jax.jit(step)(state)
  assert state.world['right']['size'] == 2 and state.step == 1 and metrics['reward/mean'] == 0.5


# --- rows by name -------------------------------------------------------------------------------------------


def noisy(num):
  return lambda models, world, key: ({'x': jax.random.normal(key, (num,))}, world)


def test_each_learner_has_rows_and_noise_of_its_own():
  one, two = each(a=noisy(3), b=noisy(5)), each(a=noisy(3), b=noisy(5), c=numbered())
  key = jax.random.key(4)
  few, _ = one({}, one.begin(key), key)
  more, world = two({}, two.begin(key), key)
  chex.assert_trees_all_equal(few, {name: more[name] for name in ('a', 'b')})
  assert more['c']['x'].tolist() == [0, 1, 2, 3] and world['c']['next'] == 4
  both = for_all(numbered(), learners=('a', 'b'))
  rows, _ = both({}, both.begin(key), key)
  chex.assert_trees_all_equal(rows['a'], rows['b'])


def test_rewards_by_name_and_in_turn():
  double = lambda models, batch, key: {**batch, 'rewards': 2 * batch['x']}
  rows = {'a': {'x': jnp.arange(4)}, 'b': {'x': jnp.arange(4)}}
  scored = by_name(a=even)({}, rows, jax.random.key(0))
  assert scored['a']['rewards'].tolist() == [1, 0, 1, 0] and 'rewards' not in scored['b']
  twice = in_turn(by_name(a=even), by_name(b=double))({}, rows, jax.random.key(0))
  assert twice['a']['rewards'].tolist() == [1, 0, 1, 0] and twice['b']['rewards'].tolist() == [0, 2, 4, 6]
  with pytest.raises(ValueError, match=r"rewards for \['c'\]"):
    by_name(c=even)({}, rows, jax.random.key(0))


def test_one_of_the_rewards_by_name_may_be_python():
  class Counting(HostReward):

    def __init__(self):
      self.closed = False

    def __call__(self, models, batch, key):
      assert isinstance(batch['x'], np.ndarray)
      return {**batch, 'rewards': np.float32(batch['x'])}

    def heard(self):
      return ['heard']

    @contextlib.contextmanager
    def only_shapes(self):
      yield

    def close(self):
      self.closed = True

  host = Counting()
  reward = by_name(a=host, b=even)
  rows = {'a': {'x': np.arange(4)}, 'b': {'x': np.arange(4)}}
  scored = reward({}, rows, jax.random.key(0))
  assert scored['a']['rewards'].tolist() == [0, 1, 2, 3] and scored['b']['rewards'].tolist() == [1, 0, 1, 0]
  assert reward.heard() == ['heard']
  with reward.only_shapes():
    pass
  reward.close()
  assert host.closed
  with pytest.raises(ValueError, match='put their functions into one section'):
    by_name(a=host, b=host)


def test_pairs_are_the_best_and_the_worst_of_each_group():
  tokens = jnp.arange(12, dtype=jnp.int32).reshape(6, 2)
  batch = {
      'tokens': tokens, 'valid': jnp.ones((6, 2), bool), 'groups': jnp.array([0, 0, 0, 3, 3, 3]),
      'rewards': jnp.array([0.0, 2.0, 1.0, 1.0, 1.0, 1.0]),
  }
  found = best_and_worst(batch)
  assert found['weights'].tolist() == [1, 1, 0, 0, 0, 0]  # the second group has nothing to prefer
  assert found['tokens'][:2].tolist() == [[2, 3], [0, 1]] and found['rewards'][:2].tolist() == [2, 0]
  assert found['preferred'].tolist() == [True, False] * 3 and found['groups'].tolist() == [0, 0, 1, 1, 2, 2]
  reward = lambda models, batch, key: batch
  rows = pairs(reward, of='policy', to='judge')({}, {'policy': batch}, None)
  chex.assert_trees_all_equal(rows['judge'], found)
  rollout = paired(lambda models, world, key: (batch, world), reward)
  chex.assert_trees_all_equal(rollout({}, {}, jax.random.key(0))[0], found)


def test_a_wrong_answer_stands_beside_the_solution_of_its_problem():
  """Also in a group in which nobody is right."""
  batch = {
      'tokens': jnp.array([[5, 6, 9], [5, 6, 1], [7, 8, 9], [7, 8, 8]], jnp.int32),
      'valid': jnp.ones((4, 3), bool), 'groups': jnp.array([0, 0, 2, 2]), 'prompt_lengths': jnp.full(4, 1),
      'solutions': jnp.array([[6, 1], [6, 1], [2, 1], [2, 1]], jnp.int32),
      'rewards': jnp.array([0.0, 1, 0, 0]),
  }
  reward = lambda models, batch, key: batch
  found = against_solutions(reward, of='policy', to='judge')({}, {'policy': batch}, None)['judge']
  assert found['weights'].tolist() == [1, 1, 0, 0, 1, 1, 0, 0]
  assert found['tokens'][::4].tolist() == [[5, 6, 1], [7, 2, 1]] and found['valid'].all()
  assert found['tokens'][1::4].tolist() == [[5, 6, 9], [7, 8, 9]]
  everybody = {**batch, 'rewards': jnp.ones(4)}
  assert not against_solutions(reward, of='a', to='b')({}, {'a': everybody}, None)['b']['weights'].any()


class Reads:
  """A judge whose parameters are what each token is worth."""

  def apply(self, params, rows):
    return jnp.where(rows['valid'], params[rows['tokens']], 0).sum(axis=1)


def test_a_reward_model_learns_which_answer_is_preferred():
  """By hand, and independent of micro-batches and of pairs that do not count."""
  chosen, rejected = [[0, 1], [1, 1], [2, 2], [0, 0]], [[0, 0], [0, 1], [2, 2], [2, 2]]
  pair = {
      'tokens': jnp.stack([jnp.array(chosen), jnp.array(rejected)], axis=1).reshape(8, 2),
      'valid': jnp.ones((8, 2), bool), 'weights': jnp.repeat(jnp.array([1.0, 1.0, 0.0, 0.0]), 2),
  }
  algorithm = bradley_terry(lambda models, world, key: (pair, world), Reads())
  params = {'judge': jnp.array([0.5, 1.0, 9.0])}
  batch = algorithm.advantage(params, pair, None)
  value, metrics = algorithm.loss(params, batch, None)
  np.testing.assert_allclose(value, -np.log(1 / (1 + np.exp(-0.5))), rtol=1e-6)
  assert metrics['judge/right'] == 1
  slope = jax.grad(lambda judge: algorithm.loss({'judge': judge}, batch, None)[0])(params['judge'])
  np.testing.assert_allclose(slope, [1 / (1 + np.exp(0.5)), -1 / (1 + np.exp(0.5)), 0], rtol=1e-6)
  run = lambda parts: make_train_step(algorithm, optax.sgd(1.0), epochs=1, minibatches=1, microbatches=parts)
  begin = lambda: State(
      step=jnp.int32(0), params=params, slow={}, opt_state=optax.sgd(1.0).init(params), world={},
      key=jax.random.key(0),
  )
  whole, _ = jax.jit(run(1))(begin())
  split, _ = jax.jit(run(2))(begin())
  chex.assert_trees_all_close(whole.params, split.params, rtol=1e-6)


def test_tokens_become_turns():
  mask = jnp.array([[0, 1, 1, 1, 1], [0, 0, 1, 1, 0]], bool)
  rollout = tokens_as_turns(lambda models, world, key: ({'action_mask': mask}, world), num_turns=3)
  batch, _ = rollout({}, {}, jax.random.key(0))
  assert batch['turns'].tolist() == [[-1, 0, 1, 2, 2], [-1, -1, 0, 1, 1]]


# --- populations --------------------------------------------------------------------------------------------


NODES, GROUPS, ASKED = 8, 4, 2  # two swarms of four; each has four groups of two rows


@functools.cache
def swarmed(taken_groups):
  """Rows `x` that say whose they were and which, a policy that scores them by who reads, and rewards."""

  def inner(models, world, key):
    del key
    rows = jnp.arange(GROUPS * 2)
    # Of each member one group has a difference in its rewards: that of its number.
    right = (rows // 2 == models['policy'] % GROUPS) & (rows % 2 == 0)
    return {
        'x': 100 * models['policy'] + rows, 'groups': rows // 2, 'right': right,
        'sampler_logprobs': jnp.full((GROUPS * 2, 1), -1.0 * models['policy']),
    }, world

  scorer = types.SimpleNamespace(
      score=lambda params, batch: (jnp.zeros(batch['sampler_logprobs'].shape) - 10 - params, None)
  )
  reward = lambda models, batch, key: {**batch, 'rewards': batch['right'].astype(jnp.float32)}
  rollout = swarm(inner, scorer, reward, swarm_size=4, taken_groups=taken_groups, group_size=2)
  draw = lambda who: rollout.draw({'policy': who}, {}, jax.random.key(5))[0]
  return jax.device_get(jax.jit(jax.vmap(draw, axis_name='population'))(jnp.arange(NODES)))


def test_members_of_a_swarm_take_whole_groups_of_others():
  batch = swarmed(ASKED)
  own, taken = batch['x'][:, :4], batch['x'][:, 4:]
  members = np.arange(NODES)[:, None]
  np.testing.assert_array_equal(own, 100 * members + np.arange(4)[None])
  assert (taken // 100 != members).all()
  assert (taken // 100 // 4 == members // 4).all(), 'swarms do not know of each other'
  groups = taken.reshape(NODES, ASKED, 2)
  assert (groups[..., 1] == groups[..., 0] + 1).all() and (groups[..., 0] % 2 == 0).all()
  assert batch['groups'][0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
  np.testing.assert_array_equal(batch['swarm/taken'][0], [0, 0, 0, 0, 1, 1, 1, 1])


def test_groups_that_teach_are_taken_first():
  """Three others have one each: two of them are taken, and with four asked for all three and one other."""
  for num, share in ((ASKED, 1.0), (4, 0.75)):
    batch = swarmed(num)
    taken = batch['x'][:, -2 * num :].reshape(NODES, num, 2)[..., 0]
    teaches = taken // 100 % GROUPS == taken % 100 // 2
    np.testing.assert_array_equal(teaches.mean(axis=1), share)
    np.testing.assert_allclose(batch['swarm/informative'][:, -1], share)
    assert all(len(set(row.tolist())) == num for row in taken), 'none is taken twice'
  assert len(np.unique(swarmed(ASKED)['x'][:, 4::2] % 100)) > 2, 'each draws for itself'


def test_what_is_taken_is_scored_by_who_takes_it():
  logprobs = swarmed(ASKED)['sampler_logprobs'][..., 0]
  members = np.arange(NODES)[:, None] * np.ones((1, 4))
  np.testing.assert_array_equal(logprobs[:, :4], -members)
  np.testing.assert_array_equal(logprobs[:, 4:], -10 - members)


def test_a_swarm_that_takes_nothing_changes_nothing():
  np.testing.assert_array_equal(swarmed(0)['x'][3], 300 + np.arange(GROUPS * 2))


def test_a_swarm_of_one_has_nobody_to_take_from():
  with pytest.raises(ValueError, match='swarm_size=1: there is nobody'):
    swarm(None, None, None, swarm_size=1, taken_groups=1, group_size=2)


# --- models -------------------------------------------------------------------------------------------------


def test_lagging_models_follow_any_algorithm():
  parent = Algorithm(
      rollout=noisy(2), loss=lambda models, batch, key: (0.0, {}),
      track=lambda slow, params, update: {**slow, 'count': slow['count'] + 1},
  )
  algorithm = following(parent, copies={'old': 'policy'}, period=3)
  slow, seen = {'old': jnp.float32(-1), 'count': jnp.int32(0)}, []
  for update in range(6):
    slow = algorithm.track(slow, {'policy': jnp.float32(update)}, jnp.int32(update))
    seen.append(float(slow['old']))
  assert seen == [-1, -1, 2, 2, 2, 5] and slow['count'] == 6
  with pytest.raises(ValueError, match='period=0'):
    following(parent, copies={}, period=0)


@pytest.mark.slow
def test_a_lora_becomes_plain_weights():
  model = table.MODEL
  kind = lora(model, rank=2, alpha=4.0, targets='layers/(query|value)', full='final_norm/scale', directory='')
  base = model.init(jax.random.key(0))
  own = kind.init(jax.random.key(1), {'base': base})
  own = jax.tree.map(lambda x: x + 0.1 * jax.random.normal(jax.random.key(2), x.shape), own)
  seen = kind.view(own, {'base': base})
  plain = merged(kind.functions).init(jax.random.key(3), {'of': seen})
  chex.assert_trees_all_equal_structs(plain, base)
  how = Lora(rank=2, alpha=4.0, targets='layers/(query|value)', full='final_norm/scale')
  chex.assert_trees_all_close(plain, adapters.merge(base, own, how), rtol=1e-5, atol=1e-6)
  tokens = jnp.arange(8).reshape(2, 4) % 4
  hidden = [model.forward(params, tokens)[0] for params in (seen, plain)]
  chex.assert_trees_all_close(*hidden, rtol=1e-4, atol=1e-5)


@pytest.fixture
def in_the_repository():
  before = Path.cwd()
  os.chdir(ROOT)
  yield
  os.chdir(before)


def quickstart() -> ConfigDict:
  config = configs.load(QUICKSTART).unlock()
  config.mesh.data = 1
  config.stages = ('main',)
  del config['sft']
  config.steps = 2
  return config


@pytest.fixture
def optimised():
  """Programs are compiled as those of users are."""
  before = jax.config.read('jax_disable_most_optimizations')
  jax.config.update('jax_disable_most_optimizations', False)
  yield
  jax.config.update('jax_disable_most_optimizations', before)


def test_models_begin_with_the_numbers_of_a_program_that_is_compiled_as_others_are(optimised):
  """To the bit: what was recorded does not depend on how their one program is compiled."""
  run = build(configs.load('control/ppo_cartpole:smoke'))
  with jax.set_mesh(run.mesh):
    begun = states.begin(run, 0, {}, 0).params
    made = jax.jit(lambda key: run.stages[0].make({}, key))(states._keys(run, 0, 0)[0])
  chex.assert_trees_all_equal(jax.device_get(begun), jax.device_get(made))


@pytest.mark.slow
def test_a_copy_begins_as_the_other_and_goes_its_own_way(in_the_repository):
  config = quickstart()
  config.models.observer = {'name': 'copy', 'names': {'of': 'policy'}}
  config.slow = {'policy': 'policy'}
  config.trained = ('observer',)
  del config['reward']
  config.rollout = {'name': 'solutions', 'batch_size': 16}
  config.algorithm = {'name': 'sft', 'names': {'policy': 'observer'}}
  run = build(config)
  with jax.set_mesh(run.mesh):
    state = states.begin(run, 0, {}, 0)
    chex.assert_trees_all_equal(state.params['observer'], state.slow['policy'])
    state, _ = run.stages[0].program.dispatch(state, None)
  assert not np.array_equal(state.params['observer']['embedding'], state.slow['policy']['embedding'])


@pytest.mark.slow
def test_a_model_of_another_run(in_the_repository, tmp_path):
  """As trained there; frozen it is in no checkpoint, and what is wrong is one line."""
  first = quickstart()
  train.train(first, tmp_path / 'first', quiet=True, command='')
  there, _ = train.restore_models(build(first), tmp_path / 'first')
  config = quickstart()
  config.models.policy = {'name': 'run', 'directory': str(tmp_path / 'first'), 'model': 'policy'}
  config.models.reference = {'name': 'run', 'directory': str(tmp_path / 'first'), 'model': 'policy'}
  config.slow = {'reference': 'reference'}
  config.algorithm.kl = {'name': 'kl_in_loss', 'coef': 0.1}
  run = build(config)
  with jax.set_mesh(run.mesh):
    frozen = states.load_frozen(run, 0, {})
    state = states.begin(run, 0, {}, 0, frozen)
  chex.assert_trees_all_equal(jax.device_get(state.params['policy']), jax.device_get(there['policy']))
  chex.assert_trees_all_equal(jax.device_get(frozen['reference']), jax.device_get(there['policy']))
  assert train.train(config, tmp_path / 'second', quiet=True, command='').finished
  for directory, model, words in (
      (tmp_path / 'none', 'policy', 'no config.json'), (tmp_path / 'first', 'judge', "no model 'judge'")
  ):
    config.models.policy.update(directory=str(directory), model=model)
    with pytest.raises(configs.ConfigError, match=words):
      build(config)
