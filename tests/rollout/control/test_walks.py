"""Walks through a maze that tend to their goals."""

import numpy as np
import pytest

from rlx.envs.control import maze
from rlx.rollout.control.walks import tending

ENV = maze.grid_maze(layout='corridor', starts='S', goals='G', max_steps=40)
NUMBERS = dict(layout='corridor', num_envs=20, num_steps=75, discount=1.0, seed=0)


def test_who_always_tends_takes_the_shortest_way():
  rows = tending(ENV, tendency=1.0, **NUMBERS)
  ends = np.flatnonzero(np.asarray(rows['terminated'])[:75])
  np.testing.assert_array_equal(ends, [14, 29, 44, 59, 74])  # G is 15 cells from S
  assert set(np.asarray(rows['actions'])) == {0}
  np.testing.assert_array_equal(rows['returns_to_go'], 1)


@pytest.mark.slow
def test_a_part_of_the_moves_is_the_best_one_and_the_others_are_any():
  def moves(tendency):
    actions = tending(ENV, tendency=tendency, **NUMBERS)['actions']
    return np.bincount(actions, minlength=4) / actions.shape[0]

  np.testing.assert_allclose(moves(0.0), [0.25] * 4, atol=0.05)
  np.testing.assert_allclose(moves(0.4), [0.55, 0.15, 0.15, 0.15], atol=0.05)


def test_what_is_no_share_is_refused():
  with pytest.raises(ValueError, match='tendency=2'):
    tending(ENV, tendency=2.0, **NUMBERS)
