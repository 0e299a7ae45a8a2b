"""The push grid: what moves, what blocks, and that the scripted policy knows its way."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.data import transitions as datasets
from rlx.envs.control import push_grid
from rlx.evaluation import episodes as evaluation

SIZE = 5
RIGHT, DOWN, LEFT, UP = range(4)
ENV = push_grid.push_grid(size=SIZE, num_blocks=2, max_steps=40)
MOVED = jax.jit(functools.partial(push_grid.moved, size=SIZE))
ACT = jax.jit(push_grid.pusher(SIZE))


@pytest.mark.parametrize(
    ('before', 'action', 'after'),
    [
        ([[0, 0], [1, 1], [3, 3]], RIGHT, [[1, 0], [1, 1], [3, 3]]),  # nothing in the way
        ([[0, 0], [1, 1], [3, 3]], LEFT, [[0, 0], [1, 1], [3, 3]]),  # the border
        ([[0, 1], [1, 1], [3, 3]], RIGHT, [[1, 1], [2, 1], [3, 3]]),  # a block that gives way
        ([[2, 1], [1, 1], [3, 3]], LEFT, [[2, 1], [1, 1], [3, 3]]),  # one at the ring, which does not
        ([[1, 1], [2, 1], [3, 1]], RIGHT, [[1, 1], [2, 1], [3, 1]]),  # nor does one behind another
        ([[3, 2], [1, 1], [3, 3]], DOWN, [[3, 2], [1, 1], [3, 3]]),
        ([[3, 4], [1, 1], [3, 3]], UP, [[3, 3], [1, 1], [3, 2]]),
    ],
)
def test_moves_by_hand(before, action, after):
  np.testing.assert_array_equal(MOVED(jnp.array(before), action), after)


def state_of(cells, goals):
  return (jnp.array(cells), jnp.array(goals)), jnp.int32(0)


def test_the_last_entity_in_place_ends_an_episode():
  goals = [[1, 1], [2, 1], [3, 3]]
  step = jax.jit(ENV.step)
  new = step(state_of([[0, 1], [1, 1], [3, 3]], goals), jnp.int32(RIGHT), jax.random.key(0))
  assert new.terminated and new.reward == 1 and new.info == {'success': 1, 'placed': 1}
  places = (np.array([*goals, *goals]) - 2) * push_grid.CELL
  np.testing.assert_allclose(new.observation, places.reshape(-1))
  new = step(state_of([[0, 1], [1, 1], [3, 2]], goals), jnp.int32(RIGHT), jax.random.key(0))
  assert not new.ended and new.reward == 0 and new.info['placed'] == 0.5


def test_blocks_begin_apart_and_within_the_ring():
  begin = jax.jit(lambda: jax.vmap(ENV.reset)(jax.random.split(jax.random.key(1), 200)))
  (cells, goals), _ = begin()[0]
  for x in (np.asarray(cells), np.asarray(goals)):
    assert x[:, 1:].min() == 1 and x[:, 1:].max() == SIZE - 2
    assert x[:, 0].min() == 0 and x[:, 0].max() == SIZE - 1
    numbers = np.sort(x[..., 0] + SIZE * x[..., 1], axis=1)
    assert (np.diff(numbers, axis=1) > 0).all()
  with pytest.raises(ValueError, match='num_blocks=5 on a grid of size=5'):
    push_grid.push_grid(size=SIZE, num_blocks=5, max_steps=40)


def test_the_pusher_goes_behind_a_block_and_then_home():
  goals = [[4, 4], [3, 1], [3, 3]]
  cases = [
      ([[0, 1], [2, 1], [3, 3]], RIGHT),  # behind it: push
      ([[3, 1], [2, 1], [3, 3]], None),  # on the wrong side: round it, up or down
      ([[1, 2], [3, 1], [2, 3]], DOWN),  # the first is in place: to the second's left
      ([[4, 3], [3, 1], [3, 3]], DOWN),  # all in place: home
  ]
  seen = jnp.stack([observed(cells, goals) for cells, _ in cases])
  actions = np.asarray(ACT(seen, jax.random.key(0))).tolist()
  assert actions[1] in (UP, DOWN)
  assert [actions[i] for i in (0, 2, 3)] == [RIGHT, DOWN, DOWN]


def observed(cells, goals):
  return push_grid.CELL * (jnp.array([*cells, *goals], jnp.float32).reshape(-1) - (SIZE - 1) / 2)


@pytest.mark.slow
def test_the_pusher_mostly_arrives_and_random_moves_hardly_ever():
  """256 episodes of 2 blocks on 5 x 5 cells: 0.87 and 0.01."""
  env = push_grid.push_grid(size=SIZE, num_blocks=2, max_steps=60)
  for act, least, most in ((push_grid.pusher(SIZE), 0.8, 1.0), (datasets.random_actions(env), 0.0, 0.05)):
    play = lambda key, act=act: evaluation.play(
        env, lambda params, seen, key: act(seen, key), None, key, 256, 60
    )
    share = jax.jit(play)(jax.random.key(1))['success'].mean()
    assert least <= share <= most, share
