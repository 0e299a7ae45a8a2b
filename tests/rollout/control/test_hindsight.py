"""Goals in hindsight: what is left of an episode, how far ahead a goal lies, what a batch of them holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.rollout.control import hindsight as goals

NUM = 4000
ENDS = jnp.array([0, 0, 1, 1, 0, 0, 0, 1], bool)  # episodes of 3, 1 and 4 actions


def dataset(ends=ENDS):
  """State t of the data set is (t, 100 + t); where an episode ended it led to (t + 1/2, ·)."""
  places = jnp.arange(ends.shape[0], dtype=jnp.float32)
  state = lambda x: jnp.stack([x, 100 + x, jnp.full_like(x, -1)], axis=1)  # a goal of -1, to be forgotten
  return {
      'observations': state(places), 'next_observations': state(places + jnp.where(ends, 0.5, 1.0)),
      'actions': jnp.arange(ends.shape[0]), 'terminated': ends, 'truncated': jnp.zeros_like(ends),
  }


def test_what_is_left_of_each_episode():
  np.testing.assert_array_equal(goals.steps_left(ENDS), [3, 2, 1, 1, 4, 3, 2, 1])
  np.testing.assert_array_equal(goals.steps_left(ENDS.at[-1].set(False)), [3, 2, 1, 1, 4, 3, 2, 1])


def naive_left(ends, place, newest, stride, horizon):
  """Walks along the ring until an episode ends, the store has no more of it, or the horizon is reached."""
  left = 1
  while left < horizon and not ends[place] and (newest - place) % len(ends) >= stride:
    place, left = (place + stride) % len(ends), left + 1
  return left


@pytest.mark.parametrize('newest', [11, 5])
@pytest.mark.parametrize('horizon', [1, 3, 10])
def test_what_is_left_in_a_ring_of_two_environments(newest, horizon):
  ends = np.random.default_rng(0).random(12) < 0.2
  found = goals.steps_left_in_ring(
      jnp.array(ends), jnp.arange(12), jnp.int32(newest), stride=2, horizon=horizon
  )
  np.testing.assert_array_equal(found, [naive_left(ends, i, newest, 2, horizon) for i in range(12)])


def test_a_geometric_goal_keeps_what_lies_behind_the_end_on_the_end():
  ahead = goals.geometric_ahead(jax.random.key(0), jnp.full(NUM, 3), discount=0.5)
  np.testing.assert_allclose(np.bincount(ahead, minlength=5) / NUM, [0, 1 / 2, 1 / 4, 1 / 4, 0], atol=0.03)
  near = goals.geometric_ahead(jax.random.key(0), jnp.full(NUM, 3), discount=0.0)
  assert set(np.asarray(near)) == {1}


def test_a_uniform_goal_is_anywhere_in_what_is_left():
  ahead = goals.uniform_ahead(jax.random.key(0), jnp.full(NUM, 4))
  np.testing.assert_allclose(np.bincount(ahead, minlength=6) / NUM, [0, *[1 / 4] * 4, 0], atol=0.03)
  assert set(np.asarray(goals.uniform_ahead(jax.random.key(1), jnp.ones(50, jnp.int32)))) == {1}


def test_shares_are_those_that_were_asked_for():
  places, left = jnp.full(NUM, 4), jnp.full(NUM, 4)
  shares = {'random': 0.25, 'current': 0.25, 'final': 0.5}
  where, ahead = goals.goal_places(
      jax.random.key(0), places, left, 8, shares=shares, discount=0.9
  )
  own = np.asarray(where == 4)
  np.testing.assert_allclose(np.mean(np.asarray(ahead)[own] == 4), 0.5 / (0.5 + 0.25 * 9 / 8), atol=0.03)
  np.testing.assert_allclose(np.mean(own), 0.75 + 0.25 / 8, atol=0.03)
  assert set(np.asarray(where)) == set(range(8)) and set(np.asarray(ahead)[~own]) == {0}


@pytest.mark.parametrize('shares', [{'current': 0.5}, {'future': 1.0}, {'current': 1.5, 'final': -0.5}])
def test_shares_that_are_none_are_refused(shares):
  with pytest.raises(ValueError, match='shares='):
    goals.goal_places(jax.random.key(0), jnp.zeros(2, int), jnp.ones(2, int), 2, shares=shares, discount=0.9)


@pytest.mark.slow
def test_states_ahead_are_those_of_the_same_episode():
  rows = goals.with_states(dataset(), 1)
  assert rows['states'].shape == (8, 2), 'the goal is gone'
  found = goals.state_at(rows, jnp.array([4, 4, 4, 4, 2]), jnp.array([0, 1, 3, 4, 1]))
  np.testing.assert_allclose(found[:, 0], [4, 5, 7, 7.5, 2.5])
  found = goals.state_at(rows, jnp.array([6]), jnp.array([2]), stride=2)
  np.testing.assert_allclose(found[:, 0], [1], err_msg='the row behind the ring is its first one')


def drawn(policy_goals, value_goals, waypoint_steps=2, batch_size=512):
  rollout = goals.hindsight(
      dataset(), goal_size=1, value_goals=value_goals, policy_goals=policy_goals, discount=0.9,
      waypoint_steps=waypoint_steps, tolerance=0.1, batch_size=batch_size,
  )
  batch, world = rollout({}, {**rollout.begin(jax.random.key(0)), 'data': rollout.data}, jax.random.key(1))
  assert world == {}
  return jax.tree.map(np.asarray, batch)


LAST = np.array([2.5, 2.5, 2.5, 3.5, 7.5, 7.5, 7.5, 7.5])


@pytest.mark.slow
def test_a_batch_of_final_goals():
  batch = drawn({'final': 1.0}, {'current': 0.5, 'final': 0.5})
  places = batch['actions']
  assert set(places) == set(range(8))
  np.testing.assert_allclose(batch['states'], np.stack([places, 100 + places], axis=1))
  np.testing.assert_allclose(batch['policy_goals'][:, 0], LAST[places])
  waypoints = np.array([2, 2.5, 2.5, 3.5, 6, 7, 7.5, 7.5])[places]
  np.testing.assert_allclose(batch['waypoint_goals'][:, 0], waypoints)
  np.testing.assert_allclose(batch['waypoints'], np.stack([waypoints, 100 + waypoints], axis=1))
  np.testing.assert_allclose(batch['next_goals'], batch['next_states'][:, :1])
  there = batch['value_goals'][:, 0] == places
  assert 0.4 < there.mean() < 0.6
  np.testing.assert_array_equal(batch['terminated'], there)
  np.testing.assert_array_equal(batch['rewards'], np.where(there, 0, -1))


@pytest.mark.slow
def test_a_waypoint_is_never_behind_the_goal():
  batch = drawn({'uniform': 1.0}, {'random': 1.0}, waypoint_steps=3)
  places, waypoints, wanted = batch['actions'], batch['waypoint_goals'][:, 0], batch['policy_goals'][:, 0]
  assert (waypoints <= wanted).all() and (wanted <= LAST[places]).all() and (waypoints > places).all()
  far = wanted > places + 3
  np.testing.assert_allclose(waypoints[far], places[far] + 3)
  np.testing.assert_allclose(waypoints[~far], wanted[~far])


def test_a_waypoint_on_the_way_to_somewhere_else_stays_in_the_episode():
  batch = drawn({'random': 1.0}, {'random': 1.0}, waypoint_steps=3)
  waypoints = np.array([2.5, 2.5, 2.5, 3.5, 7, 7.5, 7.5, 7.5])  # 3 ahead, or at the end
  same = batch['policy_goals'][:, 0] == batch['actions']  # the row was drawn as its own goal
  np.testing.assert_allclose(batch['waypoint_goals'][~same, 0], waypoints[batch['actions'][~same]])


def test_bad_numbers_are_refused():
  with pytest.raises(ValueError, match='waypoint_steps=0'):
    drawn({'final': 1.0}, {'final': 1.0}, waypoint_steps=0)
