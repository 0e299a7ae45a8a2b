"""Pictures of states: shapes where they belong, and wrappers that show what is inside."""

import jax
import numpy as np
import pytest

from rlx.envs.control import connect, drawing, noisy_rooms, pointmass, preferences, recall, turns, wrappers
from rlx.envs.control.drawing import Canvas
from tests.envs import pilots

BLACK, WHITE = (0, 0, 0), (255, 255, 255)


def dark(canvas) -> np.ndarray:
  """[H, W] how much of each pixel is black."""
  return 1 - canvas.image.mean(axis=-1) / 255


def test_shapes_cover_their_area_at_their_place():
  size = drawing.PIXELS
  for draw, area in [
      (lambda c: c.disc((0.5, 0.5), 0.25, BLACK), np.pi / 16),
      (lambda c: c.box((0.25, 0.75), (0.75, 0.25), BLACK), 0.25),
      (lambda c: c.line((0.25, 0.5), (0.75, 0.5), 0.1, BLACK), 0.05 + np.pi * 0.05**2),
  ]:
    canvas = Canvas((0, 0), (1, 1), color=WHITE)
    draw(canvas)
    covered = dark(canvas)
    np.testing.assert_allclose(covered.sum() / size**2, area, rtol=0.02)
    np.testing.assert_allclose(covered, covered[::-1], atol=0.01)  # all of them lie in the middle
    assert covered[0, 0] == 0 and covered[size // 2, size // 2] == 1


def test_y_is_up_and_x_to_the_right():
  canvas = Canvas((-2, 0), (2, 1), color=WHITE)
  canvas.disc((1.5, 0.75), 0.1, BLACK)
  rows, columns = np.nonzero(dark(canvas))
  assert canvas.image.shape == (drawing.PIXELS // 4, drawing.PIXELS, 3)
  assert rows.max() < drawing.PIXELS // 8 and columns.min() > drawing.PIXELS // 2


def test_what_is_outside_or_nowhere_is_left_out():
  canvas = Canvas((0, 0), (1, 1), color=WHITE)
  canvas.disc((5, 5), 1, BLACK)
  canvas.line((-3, 0.5), (-2, 0.5), 0.1, BLACK)
  canvas.disc((np.nan, 0), 1, BLACK)
  assert dark(canvas).max() == 0
  canvas.box((-5, -5), (5, 5), BLACK)
  assert dark(canvas).min() == 1


MASS = pointmass.pointmass(**pilots.MASS)
ROOMS = noisy_rooms.noisy_rooms(num_rooms=2, hall=1, noise=2, max_steps=9)
WRAPPED = {
    'delayed': (wrappers.delayed(MASS, steps=2), MASS),
    'disturbed': (wrappers.disturbed(MASS, std=0.1, persistence=0.5), MASS),
    'noisy_observations': (wrappers.noisy_observations(MASS, std=0.1), MASS),
    'tripping': (wrappers.tripping(wrappers.constrained(MASS, lambda o, a: 1.0, limit=2), fine=1.0), MASS),
    'scaled_reward': (wrappers.scaled_reward(MASS, scale=2.0), MASS),
    'chunked': (wrappers.chunked(inner=lambda: MASS, chunk=2), MASS),
    'commanded': (wrappers.commanded(env=lambda: MASS, target=1.0), MASS),
    'with_preferences': (
        preferences.with_preferences(
            MASS, vector_rewards=lambda o: o[:2], scales=(1.0, 1.0), concentration=1.0
        ), MASS
    ),
    'taking_turns': (
        turns.taking_turns(env=lambda: ROOMS, explore_steps=1, control_steps=1, rounds=1), ROOMS
    ),
}


@pytest.mark.parametrize('name', WRAPPED)
def test_a_wrapper_shows_what_is_inside(name):
  outer, inner = WRAPPED[name]
  state = jax.device_get(outer.reset(jax.random.key(0))[0])
  inside, depth = jax.tree.structure(inner.reset(jax.random.key(0))[0]), 0
  innermost = state
  while jax.tree.structure(innermost) != inside:
    innermost, depth = innermost[0], depth + 1
  picture = outer.draw(state)
  np.testing.assert_array_equal(picture, inner.draw(innermost))
  assert picture.dtype == np.uint8 and len(np.unique(picture.reshape(-1, 3), axis=0)) > 2


def test_pictures_of_games_by_hand():
  board = connect.connect(rows=3, columns=4, length=3, sight=0.0)
  stones = np.zeros((3, 4, 2))
  stones[0, 1, connect.OWN] = 1  # the lowest row
  picture = board.draw(stones)
  rows, columns = np.nonzero((picture == drawing.BLUE).all(axis=-1))
  cell = drawing.PIXELS // 4
  assert rows.min() > 2 * cell and cell < columns.min() and columns.max() < 2 * cell
  cue = recall.recall(num_steps=3)
  assert (cue.draw((np.float32(1), np.int32(0))) == drawing.BLUE).all(axis=-1).any()
  assert not (cue.draw((np.float32(1), np.int32(1))) == drawing.BLUE).all(axis=-1).any()
