"""The store of transitions: its ring, stretches of n steps, and priorities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.control import pendulum, probes
from rlx.models import networks
from rlx.rollout.control import priorities, replay

NUM_ENVS, GAMMA = 2, 0.5


def step_of(number):
  """What two environments do at a step: the first one ends its episode at step 1, the other is cut at 2."""
  at = np.float32(number)
  return {
      'observations': jnp.array([[at], [100 + at]]),
      'next_observations': jnp.array([[at + 1], [101 + at]]),
      'rewards': jnp.array([at + 1, 10 * (at + 1)]),
      'terminated': jnp.array([number == 1, False]),
      'truncated': jnp.array([False, number == 2]),
  }


def store_after(num_steps, num_blocks=4):
  store = replay.empty(step_of(0), NUM_ENVS * num_blocks)
  for number in range(num_steps):
    store = replay.write(store, step_of(number))
  return store


def stretches(store, places, n=3):
  return replay.stretches(store, jnp.array(places), n=n, num_envs=NUM_ENVS, discount=GAMMA)


def test_a_ring_forgets_the_oldest():
  store = store_after(6)
  assert store['size'] == 8 and store['next'] == 4
  np.testing.assert_array_equal(store['rows']['observations'][:, 0], [4, 104, 5, 105, 2, 102, 3, 103])
  with pytest.raises(ValueError, match='no multiple of the 2 transitions'):
    replay.write(replay.empty(step_of(0), 7), step_of(0))


def test_stretches_end_where_episodes_do():
  rows = stretches(store_after(4), range(8))
  np.testing.assert_array_equal(rows['spans'], [2, 3, 1, 2, 2, 1, 1, 1])
  # First environment: 1 + 2/2 and the end; 2, the end; 3 + 4/2, all there is; 4. Second: 10 + 20/2 + 30/4.
  np.testing.assert_allclose(rows['rewards'], [2, 27.5, 2, 35, 5, 30, 4, 40])
  np.testing.assert_array_equal(rows['next_observations'][:, 0], [2, 103, 2, 103, 4, 103, 4, 104])
  np.testing.assert_array_equal(rows['observations'][:, 0], [0, 100, 1, 101, 2, 102, 3, 103])
  np.testing.assert_array_equal(rows['terminated'], [1, 0, 1, 0, 0, 0, 0, 0])
  np.testing.assert_array_equal(rows['truncated'], [0, 1, 0, 1, 0, 1, 0, 0])
  # What was cut off is bootstrapped, with γ to the power of the steps that there were.
  np.testing.assert_allclose(replay.discounts(rows, GAMMA), [0, 0.125, 0, 0.25, 0.25, 0.5, 0.5, 0.5])


def test_stretches_go_round_the_ring_and_never_over_its_seam():
  rows = stretches(store_after(5), [0, 4, 6])  # steps 4, 2, 3 of the first environment; 0 is forgotten
  np.testing.assert_array_equal(rows['spans'], [1, 3, 2])
  np.testing.assert_allclose(rows['rewards'], [5, 3 + 4 / 2 + 5 / 4, 4 + 5 / 2])
  np.testing.assert_array_equal(rows['next_observations'][:, 0], [5, 5, 5])


@pytest.mark.slow
def test_a_stretch_of_one_step_is_the_row():
  store, places = store_after(5), jnp.arange(8)
  one, rows = stretches(store, range(8), n=1), replay.rows_at(store, places)
  assert (one.pop('spans') == 1).all()
  jax.tree.map(np.testing.assert_array_equal, one, rows)
  np.testing.assert_array_equal(replay.discounts(one, GAMMA), replay.discounts(rows, GAMMA))


def test_a_tree_holds_sums_whatever_is_written_twice():
  tree = priorities.empty(5)
  tree = priorities.put(tree, jnp.array([0, 1, 4, 3]), jnp.array([1.0, 2.0, 5.0, 4.0]))
  tree = priorities.put(tree, jnp.array([1, 1, 3]), jnp.array([7.0, 7.0, 0.0]))
  np.testing.assert_array_equal(priorities.at(tree, jnp.arange(5)), [1, 7, 0, 0, 5])
  assert priorities.total(tree) == 13
  halves = len(tree) // 2
  for node in range(1, halves):
    assert tree[node] == tree[2 * node] + tree[2 * node + 1]


def test_places_are_drawn_in_proportion():
  numbers = jnp.array([1.0, 0.0, 3.0, 0.5, 0.0, 2.5])
  tree = priorities.put(priorities.empty(6), jnp.arange(6), numbers)
  drawn = priorities.draw(tree, jax.random.key(0), 1000)
  counts = np.bincount(drawn, minlength=6)
  assert len(counts) == 6 and counts[1] == counts[4] == 0
  # Of 1000 pieces, those of a place are known but for the two at its ends.
  assert (np.abs(counts - 1000 * np.array(numbers) / 7) < 2).all()


def rollout_of(make, **more):
  env = probes.better(discrete=True)
  policy = networks.epsilon_greedy(
      env, epsilon=0.5,
      network=lambda env: networks.action_values(env, hidden=(4,), activation='tanh', layer_norm=False),
  )
  numbers = dict(num_envs=NUM_ENVS, num_steps=1, capacity=16, warmup_steps=8, batch_size=6)
  rollout = make(env, policy, **numbers | more)
  world = rollout.begin(jax.random.key(0))
  return rollout, {'policy': policy.init(jax.random.key(1))}, world


def drawn(rollout, models, world):
  return jax.jit(rollout.draw)(models, world, jax.random.key(2))


@pytest.mark.slow
def test_priorities_go_to_the_rows_that_they_are_of():
  rollout, models, world = rollout_of(
      replay.prioritised_replay, alpha=0.5, beta=1.0, n=1, discount=GAMMA
  )
  assert priorities.total(world['store']['tree']) == 8, 'random rows have the first priority, 1'
  batch, world = drawn(rollout, models, world)
  np.testing.assert_allclose(batch['weights'], 1)
  batch['priorities'] = 4.0 * batch['places']
  world = rollout.observe(world, batch)
  tree, places = world['store']['tree'], np.array(batch['places'])
  np.testing.assert_allclose(priorities.at(tree, places), 2 * np.sqrt(places), atol=1e-2)
  others = np.setdiff1d(np.arange(10), places)
  np.testing.assert_array_equal(priorities.at(tree, others), 1)
  np.testing.assert_allclose(world['store']['highest'], 2 * np.sqrt(places.max()), rtol=1e-5)
  batch, world = drawn(rollout, models, world)
  store = world['store']
  np.testing.assert_array_equal(priorities.at(store['tree'], np.array([10, 11])), store['highest'])
  shares = priorities.at(store['tree'], batch['places'])
  np.testing.assert_allclose(batch['weights'], shares.min() / shares, rtol=1e-5)
  np.testing.assert_array_equal(batch['actions'], store['rows']['actions'][batch['places']])


def stretched(length):
  """A rollout of rows of steps, its policy with parameters, and the world that it begins with."""
  env = pendulum.pendulum(max_steps=200)
  policy = networks.gaussian(env, hidden=(8,), activation='tanh', initial_log_std=-1.0)
  rollout = replay.stretch_replay(
      env, policy, length=length, num_envs=NUM_ENVS, num_steps=1, capacity=16, warmup_steps=8, batch_size=32
  )
  models = {'policy': policy.init(jax.random.key(1))}
  return rollout, policy, models, rollout.begin(jax.random.key(0))


@pytest.mark.slow
def test_rows_of_stretches_are_consecutive_and_know_how_likely_their_actions_were():
  rollout, policy, models, world = stretched(length=3)
  for _ in range(9):  # the ring has room for 8 steps
    batch, world = drawn(rollout, models, world)
    assert batch['rewards'].shape == (32, 3)
    np.testing.assert_array_equal(batch['next_observations'][:, :-1], batch['observations'][:, 1:])
  likely = policy.score(models['policy'], batch['observations'], batch['actions'])[0]
  np.testing.assert_allclose(batch['sampler_logprobs'], likely, rtol=1e-5)
  assert len(np.unique(batch['rewards'][:, 0])) > 8


def test_random_actions_are_as_likely_as_a_uniform_draw():
  store = stretched(length=3)[-1]['store']
  written = np.arange(16) < int(store['size'])
  np.testing.assert_allclose(store['rows']['sampler_logprobs'][written], -np.log(2))


@pytest.mark.parametrize('length', [0, 5])
def test_a_stretch_is_no_longer_than_what_is_there_at_first(length):
  with pytest.raises(ValueError, match='warmup_steps / num_envs = 4'):
    stretched(length=length)


@pytest.mark.parametrize('n', [0, 9])
def test_stretches_fit_into_the_store(n):
  with pytest.raises(ValueError, match='capacity / num_envs = 8'):
    rollout_of(replay.n_step_replay, n=n, discount=GAMMA)
