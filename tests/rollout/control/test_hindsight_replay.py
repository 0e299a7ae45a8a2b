"""Goals in hindsight, online: where in the store they come from, and what they change."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.control import bit_flip, maze
from rlx.envs.control.conformance import check_environment
from rlx.models import networks
from rlx.rollout.control import replay

NUM_ENVS, BLOCKS = 2, 6


def step_of(number):
  """State t of the first environment is (t, -1), of the second (100 + t, -1); the first one's episode ends
  behind step 2, the second one is cut off behind step 4. What is led to is half a step further there."""
  at, ends = np.float32(number), number == 2
  led = [at + (0.5 if ends else 1), 100 + at + (0.5 if number == 4 else 1)]
  return {
      'observations': jnp.array([[at, -1.0], [100 + at, -1.0]]),
      'next_observations': jnp.array([[led[0], -1.0], [led[1], -1.0]]),
      'terminated': jnp.array([ends, False]), 'truncated': jnp.array([False, number == 4]),
  }


def store_after(num_steps):
  store = replay.empty(step_of(0), NUM_ENVS * BLOCKS)
  for number in range(num_steps):
    store = replay.write(store, step_of(number))
  return store


def goals_found(num_steps, first, env, horizon):
  """Every goal that 200 draws find for the row in which environment `env` took step `first`."""
  places = jnp.full(200, NUM_ENVS * (first % BLOCKS) + env)
  find = jax.jit(replay.goals_ahead, static_argnames=('goal_size', 'horizon', 'num_envs'))
  goals = find(
      store_after(num_steps), places, jax.random.key(0), goal_size=1, horizon=horizon, num_envs=NUM_ENVS
  )
  numbers, counts = np.unique(goals, return_counts=True)
  assert counts.min() > 0.6 * 200 / len(numbers), 'each is as likely as the others'
  return list(numbers)


@pytest.mark.parametrize(
    ('num_steps', 'first', 'env', 'horizon', 'goals'),
    [
        (6, 0, 0, 6, [1, 2, 2.5]),  # up to where the episode ended, that included
        (6, 2, 0, 6, [2.5]),
        (6, 3, 0, 6, [4, 5, 6]),  # the next episode has come no further
        (6, 0, 1, 6, [101, 102, 103, 104, 104.5]),  # to where it was cut off
        (6, 0, 1, 2, [101, 102]),  # no further than the horizon
        (2, 0, 1, 6, [101, 102]),  # the store is not full, and what is behind is empty
        (8, 5, 0, 6, [6, 7, 8]),  # round the ring, not over its seam: steps 0 and 1 are forgotten
        (8, 5, 1, 6, [106, 107, 108]),
        (8, 7, 0, 6, [8]),  # the newest row has its own outcome alone; step 2 lies behind it in the ring
    ],
)
def test_goals_are_of_the_same_episode_and_later(num_steps, first, env, horizon, goals):
  assert goals_found(num_steps, first, env, horizon) == goals


def test_a_flip_is_one_bit_and_pays_on_arrival():
  env = bit_flip.bit_flip(num_bits=3, max_steps=3)
  (state, seen), step = jax.jit(env.reset)(jax.random.key(0)), jax.jit(env.step)
  assert set(np.asarray(seen)) <= {0, 1} and not (seen[:3] == seen[3:]).all()
  wrong = [i for i in range(3) if seen[i] != seen[3 + i]]
  for count, bit in enumerate(wrong, start=1):
    new = step(state, jnp.int32(bit), jax.random.key(1))
    np.testing.assert_array_equal(np.flatnonzero(new.observation != seen), wrong[:count])
    state, last = new.state, count == len(wrong)
    assert new.reward == last - 1 and new.terminated == last and new.info['success'] == last


@pytest.mark.slow
def test_flipping_bits_keeps_the_contract():
  check_environment(bit_flip.bit_flip(num_bits=5, max_steps=7), num_steps=7)


@pytest.mark.slow
def test_every_first_goal_is_another_one_than_where_an_episode_begins():
  env = bit_flip.bit_flip(num_bits=2, max_steps=2)
  _, seen = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 300))
  apart, counts = np.unique(np.asarray(seen[:, :2] != seen[:, 2:]), axis=0, return_counts=True)
  assert len(apart) == 3 and counts.min() > 60, 'each change but none is as likely'


def test_other_goals_change_what_is_paid_and_where_it_ends():
  seen = jnp.array([[0, 0, 1, 1], [0, 1, 1, 1.0]])
  batch = {
      'observations': seen, 'next_observations': jnp.array([[1, 0, 1, 1], [1, 1, 1, 1.0]]),
      'rewards': jnp.array([-1.0, 0]), 'terminated': jnp.array([False, True]),
      'truncated': jnp.array([True, False]), 'actions': jnp.array([0, 0]),
  }
  new = bit_flip.relabel(batch, jnp.array([[1.0, 0], [0, 0]]))
  np.testing.assert_array_equal(new['observations'], [[0, 0, 1, 0], [0, 1, 0, 0]])
  np.testing.assert_array_equal(new['next_observations'], [[1, 0, 1, 0], [1, 1, 0, 0]])
  np.testing.assert_array_equal(new['rewards'], [0, -1])
  np.testing.assert_array_equal(new['terminated'], [True, False])
  np.testing.assert_array_equal(new['truncated'], [False, False])
  np.testing.assert_array_equal(new['actions'], batch['actions'])
  jax.tree.map(np.testing.assert_array_equal, bit_flip.relabel(batch, seen[:, 2:]), {**batch})


def rollout_of(env, relabel, goal_size, **numbers):
  q = lambda env: networks.action_values(env, hidden=(4,), activation='tanh', layer_norm=False)
  policy = networks.epsilon_greedy(env, network=q, epsilon=0.5)
  numbers = dict(share=0.5, horizon=4, num_envs=2, num_steps=1, capacity=16, warmup_steps=16) | numbers
  rollout = replay.hindsight_replay(
      env, policy, relabel=relabel, goal_size=goal_size, batch_size=20, **numbers
  )
  return rollout, {'policy': policy.init(jax.random.key(1))}


@pytest.mark.slow
def test_a_share_of_each_batch_has_other_goals_and_pays_for_them():
  env = bit_flip.bit_flip(num_bits=8, max_steps=8)
  rollout, models = rollout_of(env, bit_flip.relabel, 8)
  batch, _ = jax.jit(lambda key: rollout.draw(models, rollout.begin(key), key))(jax.random.key(0))
  state, goals = np.split(np.asarray(batch['next_observations']), 2, axis=1)
  arrived = (state == goals).all(axis=1)
  np.testing.assert_array_equal(batch['rewards'], arrived - 1.0)
  np.testing.assert_array_equal(batch['terminated'], arrived)
  np.testing.assert_array_equal(batch['observations'][:, 8:], goals)
  apart = np.abs(np.asarray(batch['observations'])[:, :8] - state).sum(axis=1)
  np.testing.assert_array_equal(apart, 1, err_msg='states are as they were')
  distance = np.abs(state - goals).sum(axis=1)
  assert distance[:10].max() <= 3 and arrived[:10].any(), 'at most 3 flips further'
  assert distance[10:].max() > 3, 'what was wanted is anywhere'


@pytest.mark.parametrize('bad', [{'share': 1.5}, {'horizon': 0}, {'horizon': 9}])
def test_bad_numbers_are_refused(bad):
  with pytest.raises(ValueError, match=next(iter(bad))):
    rollout_of(bit_flip.bit_flip(num_bits=2, max_steps=2), bit_flip.relabel, 2, **bad)


def test_there_is_time_for_every_bit():
  with pytest.raises(ValueError, match='max_steps=3'):
    bit_flip.bit_flip(num_bits=4, max_steps=3)


@pytest.mark.slow
def test_a_maze_can_be_relabelled_too():
  env = maze.grid_maze(layout='u', starts='S', goals='G', max_steps=8)
  rollout, models = rollout_of(env, maze.relabel, 2, share=1.0)
  batch, _ = rollout.draw(models, rollout.begin(jax.random.key(0)), jax.random.key(1))
  assert batch['rewards'].sum() > 0 and len(np.unique(batch['observations'][:, 2:], axis=0)) > 1
  np.testing.assert_array_equal(batch['rewards'], batch['terminated'])
