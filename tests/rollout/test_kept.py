"""Which episodes are trained on: without void turns, and of the right ones those with few errors."""

import functools

import algorithms_table as toy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.controllers import schedules
from rlx.errors import ConfigError
from rlx.rollout import kept, turns
from rlx.types import check, stateful

# Rows of three turns of two tokens behind a prompt of one, with an observation between them.
TURNS = jnp.array([-1, 0, 0, 0, 1, 1, 1, 2, 2])
SAID = jnp.array([0, 1, 1, 0, 1, 1, 0, 1, 1], bool)


def episodes(understood, rewards, ended=None):
  """A rollout that has these episodes: what was understood [B, 3], two rows a group."""
  understood = jnp.array(understood, bool)
  num = len(understood)
  batch = {
      'tokens': jnp.zeros((num, 9), jnp.int32), 'action_mask': jnp.broadcast_to(SAID, (num, 9)),
      'turns': jnp.broadcast_to(TURNS, (num, 9)), 'groups': jnp.arange(num) // 4,
      'understood': jnp.where(TURNS >= 0, understood[:, jnp.maximum(TURNS, 0)], False),
      'rewards': jnp.array(rewards, jnp.float32), 'truncated': ~jnp.array(ended or [True] * num),
      'trajectories': jnp.arange(num),
  }
  return lambda models, world, key: (batch, world)


def drawn(rollout, seed=0):
  return jax.device_get(stateful(rollout)({}, {}, jax.random.key(seed))[0])


def test_one_void_turn_drops_the_whole_row():
  batch = drawn(kept.without_void_turns(episodes([[1, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 1]], [1, 1, 0, 0])))
  assert batch['scored'].tolist() == [True, False, False, True]
  assert batch['turns/void'].tolist() == [0, 1, 1, 0]
  batch = drawn(kept.without_void_turns(lambda *x: ({**drawn(episodes([[1, 1, 1]], [1])), 'scored': jnp.array(
      [False])}, {})))
  assert not batch['scored'].any(), 'what was not scored before is not now'


ERRORS = [[1, 1, 1], [1, 0, 1], [0, 0, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 0, 1], [1, 1, 0]]


@pytest.mark.slow
def test_right_rows_with_few_errors_are_kept_and_wrong_ones_any():
  """Of three right rows and a wrong one, and of one and three, two each; 200 draws."""
  rewards = [1, 1, 1, 0, 0, 0, 0, 1]
  rollout = kept.resampled_on_correct(
      episodes(ERRORS, rewards), group_size=4, kept_rows=2, kind_min=1, success=1.0
  )
  clean, wrong = 0, np.zeros(3)
  for seed in range(200):
    batch = drawn(rollout, seed)
    check(batch)
    assert batch['groups'].tolist() == [0, 0, 1, 1] and batch['rewards'].tolist().count(1) == 2
    understood = batch['understood'][:, SAID].reshape(4, 3, 2)[..., 0]
    right = understood[:2][batch['rewards'][:2] == 1][0]
    clean += right.all()
    failed = understood[2:][batch['rewards'][2:] == 0][0]
    wrong[{3: 0, 0: 1, 2: 2}[int(failed.sum())]] += 1
    np.testing.assert_allclose(batch['roc/errors_pool'], np.mean([0, 1 / 3, 2 / 3, 1 / 3]), rtol=1e-6)
  assert clean > 190, 'penalty 0 against 1/3 and 2/3'
  assert wrong.min() > 40, 'all ways to fail are seen'


def test_an_episode_without_an_answer_is_as_bad_as_errors():
  rollout = kept.resampled_on_correct(
      episodes([[1, 1, 1]] * 4, [1, 1, 0, 0], ended=[True, False, True, True]), group_size=4, kept_rows=2,
      kind_min=1, success=1.0,
  )
  first = [drawn(rollout, seed) for seed in range(30)]
  assert all(not batch['truncated'][batch['rewards'] == 1].any() for batch in first)


@functools.cache
def walked(wrap):
  inner = turns.episodes(
      toy.WORLD, toy.WORLD_POLICY, batch_size=16, group_size=4, num_slots=8, turn_tokens=1,
      max_turns=functools.partial(schedules.constant, value=4),
  )
  rollout = wrap(inner)
  models = {'policy': toy.WALKER.init(jax.random.key(0))}
  key = jax.random.key(1)
  return jax.device_get(jax.jit(rollout.draw)(models, rollout.begin(key), key)[0])


def resampled(rollout):
  return kept.resampled_on_correct(rollout, group_size=4, kept_rows=2, kind_min=1, success=0.5)


@pytest.mark.slow
def test_real_episodes_of_chance_go_through():
  whole, half = walked(kept.without_void_turns), walked(resampled)
  check(whole)
  check(half)
  assert whole['turns/void'].sum() > 0 and len(half['tokens']) == 8
  void = (whole['action_mask'] & ~whole['understood']).any(axis=1)
  np.testing.assert_array_equal(whole['turns/void'], void)
  assert half['groups'].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize('wrong', [{'kept_rows': 5}, {'kind_min': 2}])
def test_numbers_that_do_not_fit_are_refused(wrong):
  with pytest.raises(ConfigError, match='keep no more than there are'):
    kept.resampled_on_correct(
        episodes(ERRORS, [1] * 8), **{'group_size': 4, 'kept_rows': 2, 'kind_min': 1, 'success': 1.0, **wrong}
    )


def test_episodes_of_several_rows_are_refused():
  rows = lambda *x: ({**drawn(episodes(ERRORS, [1] * 8)), 'turns/rows': jnp.ones(8)}, {})
  with pytest.raises(ConfigError, match='several rows'):
    drawn(kept.resampled_on_correct(rows, group_size=4, kept_rows=2, kind_min=1, success=1.0))
