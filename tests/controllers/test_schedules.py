"""Schedules against their formulas, and filters against loops over groups."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.controllers import schedules

RNG = np.random.default_rng(0)
ROWS, KEPT = 24, 4
GROUPS = RNG.permutation([0] * 8 + [5] * 8 + [7] * 5 + [9] * 3).astype(np.int32)  # any order, any size
KEYS = jax.random.split(jax.random.key(0), 4000)


def test_lengths_swing_between_their_bounds():
  steps = np.array([0, 1, 80, 160, 240, 319, 320, 480, 320 * 3_000_000 + 80], np.int32)
  length = jax.jit(jax.vmap(functools.partial(schedules.oscillating, low=8192, high=16384, period=320)))
  expected = 8192 + 8192 * (1 + np.cos(2 * np.pi * (steps % 320) / 320)) / 2
  np.testing.assert_allclose(length(steps), expected, atol=1)
  assert length(steps)[0] == 16384 and length(steps)[3] == 8192 and length(steps).dtype == jnp.int32


HORIZON = jax.jit(functools.partial(schedules.horizon, num_steps=200_000))


@pytest.mark.parametrize(('first', 'last'), [(2, 10), (10, 2), (3, 3), (0, 32768)])
def test_a_horizon_moves_on_a_line_and_stays_at_its_end(first, last):
  steps = np.arange(0, 250_000, 12_500, dtype=np.int32)
  horizon = np.array([HORIZON(step, first=first, last=last) for step in steps])
  expected = first + (last - first) * np.minimum(steps / 200_000, 1)
  np.testing.assert_allclose(horizon, expected, atol=0.51)
  assert horizon[0] == first and horizon[-1] == last and horizon.dtype == jnp.int32


def test_a_stage_begins_at_its_boundary():
  steps = np.array([0, 9, 10, 29, 30, 1000], np.int32)
  every = lambda f, **x: np.asarray(jax.jit(jax.vmap(lambda step: f(step, boundaries=(10, 30), **x)))(steps))
  np.testing.assert_array_equal(every(schedules.stage), [0, 0, 1, 1, 2, 2])
  lengths = every(schedules.of_stage, values=(8, 24, 16))
  np.testing.assert_array_equal(lengths, [8, 8, 24, 24, 16, 16])
  assert lengths.dtype == np.int32
  np.testing.assert_allclose(every(schedules.of_stage, values=(0, 0.5, 1)), [0, 0, 0.5, 0.5, 1, 1])
  assert schedules.stage(5, boundaries=()) == 0


def test_a_cascade_has_one_domain_at_a_time():
  domains = np.array([0, 2, 1, 2, 0], np.int32)
  turn = jax.jit(functools.partial(schedules.domain_cascade, order=(2, 0, 1), boundaries=(10, 30)))
  for step, domain in ((0, 2), (10, 0), (29, 0), (30, 1)):
    np.testing.assert_array_equal(turn(np.int32(step), domains), domains == domain)


@pytest.mark.parametrize(('arguments', 'said'), [
    ({'values': (1, 2), 'boundaries': (10, 30)}, '2 values for 2 boundaries'),
    ({'values': (1, 2, 3), 'boundaries': (30, 10)}, 'do not rise'),
    ({'values': (1, 2, 3), 'boundaries': (10, 10)}, 'do not rise'),
])
def test_stages_that_make_no_order_are_refused(arguments, said):
  with pytest.raises(ValueError, match=said):
    schedules.of_stage(0, **arguments)


def test_one_void_turn_drops_a_trajectory():
  """A turn that was not taken is not void."""
  fruitful = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 0], [0, 0, 0]], bool)
  keep = jax.jit(schedules.without_void_turns)(fruitful, np.array([3, 3, 2, 3, 0]))
  np.testing.assert_array_equal(keep, [True, False, True, False, True])


def test_one_part_that_runs_into_the_limit_drops_all_parts():
  truncated, parts = np.array([0, 1, 0, 0, 0], bool), np.array([0, 4, 4, 2, 0])
  keep = jax.jit(schedules.not_overlong)
  np.testing.assert_array_equal(keep(truncated, parts), [True, False, False, True, True])
  np.testing.assert_array_equal(keep(truncated, np.arange(5)), ~truncated)


def test_groups_that_are_never_solved_go():
  correct, groups = np.array([0, 0, 1, 0, 1], bool), np.array([3, 1, 1, 3, 0])
  np.testing.assert_array_equal(
      jax.jit(schedules.solved_at_all)(correct, groups), [False, True, True, False, True]
  )


BALANCED = jax.jit(functools.partial(schedules.balanced, num_kept=KEPT))
RESAMPLED = jax.jit(functools.partial(schedules.resampled_on_correct, num_kept=KEPT, kind_min=1))


@pytest.mark.parametrize('share', [0.0, 0.1, 0.5, 0.8, 1.0])
def test_kept_rows_have_the_right_numbers_of_both_kinds(share):
  correct = RNG.uniform(size=ROWS) < share
  balanced = np.asarray(BALANCED(correct, GROUPS, KEYS[0]))
  resampled = np.asarray(RESAMPLED(correct, np.ones(ROWS, np.float32), GROUPS, KEYS[0]))
  for group in np.unique(GROUPS):
    inside = group == GROUPS
    right, wrong = np.sum(inside & correct), np.sum(inside & ~correct)
    num = min(KEPT, right + wrong)
    for kept in (balanced, resampled):
      assert np.sum(kept & inside) == num
    halves = min(right, max(KEPT // 2, num - wrong))
    assert np.sum(balanced & inside & correct) == halves
    fair = np.clip(np.round(right * num / (right + wrong)), min(1, right), num - min(1, wrong))
    assert np.sum(resampled & inside & correct) == fair


def test_clean_rows_are_kept_in_inverse_proportion_to_their_penalty():
  """Of two right rows one is kept, of six wrong ones three: whatever their penalties."""
  correct, penalties = jnp.array([1, 1] + [0] * 6, bool), jnp.array([0.25, 0.75, 0, 0, 0, 2, 2, 2])
  draw = lambda key: schedules.resampled_on_correct(
      correct, penalties, jnp.zeros(8, jnp.int32), key, num_kept=4, kind_min=0, eps=0.0
  )
  shares = np.asarray(jax.jit(jax.vmap(draw))(KEYS)).mean(axis=0)
  np.testing.assert_allclose(shares, [0.75, 0.25] + [0.5] * 6, atol=4.5 * 0.5 / np.sqrt(len(KEYS)))


def test_penalties_by_hand():
  """No tool used; one of four calls failed; no answer; three answers in four turns; eight too many in two."""
  counts = np.array([[0, 1, 0, 2, 0], [0, 4, 2, 2, 1], [1, 1, 0, 3, 9], [1, 5, 2, 4, 2]])
  penalties = jax.jit(schedules.tool_penalties)(*counts)
  np.testing.assert_allclose(penalties, [0.5, 0.25, 1, 1.5, 1], rtol=1e-6)


def test_more_of_a_kind_than_fit_are_refused():
  with pytest.raises(ValueError, match='kind_min=3'):
    schedules.resampled_on_correct(
        jnp.ones(4, bool), jnp.ones(4), jnp.zeros(4, jnp.int32), KEYS[0], num_kept=4, kind_min=3
    )
