"""Baselines of seats: by hand, and that each seat's mean is 0."""

import jax.numpy as jnp
import numpy as np

from rlx.advantages import seats

MASK = jnp.array([[0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 0, 0], [0, 1, 0, 0]], bool)
TURNS = jnp.array([[-1, 0, 0, 1], [-1, 0, 0, 1], [-1, 0, 0, 0], [-1, 0, 0, 0]])
REWARDS = jnp.array([[0, 0, 9, 4], [0, 2, 9, 0], [0, -1, 0, 0], [0, -3, 0, 0]], jnp.float32)
SEATS = jnp.array([0, 0, 1, 1])


def test_turns_are_compared_with_those_of_their_seat():
  found = np.asarray(seats.by_seat(REWARDS, TURNS, MASK, SEATS, discount=0.5))
  returns = np.array([2.0, 4.0, 2.0, 0.0])  # 0 + 4 / 2 and 4; 2 + 0 and 0
  first = (returns - 2) / returns.std(ddof=1)
  np.testing.assert_allclose(found[[0, 0, 1, 1], [1, 3, 1, 3]], first, atol=1e-5)
  np.testing.assert_allclose(found[2:, 1], [2**-0.5, -(2**-0.5)], atol=1e-5)
  assert not found[~np.asarray(MASK)].any()
  for seat in (0, 1):
    np.testing.assert_allclose(found[np.asarray(SEATS) == seat].sum(), 0, atol=1e-5)


def test_pooled_a_seat_that_is_worth_less_is_all_bad():
  found = np.asarray(seats.of_all_seats(REWARDS, TURNS, MASK, discount=0.5))
  assert (found[2:, 1] < 0).all()
  np.testing.assert_allclose(found.sum(), 0, atol=1e-5)


def test_one_seat_is_all_seats():
  same = jnp.zeros(4, jnp.int32)
  np.testing.assert_array_equal(
      seats.by_seat(REWARDS, TURNS, MASK, same, discount=0.9),
      seats.of_all_seats(REWARDS, TURNS, MASK, discount=0.9),
  )
