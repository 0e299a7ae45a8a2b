"""One success of each problem comes back where all of its group have failed, and nowhere else."""

import functools

import algorithms_table as toy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.controllers import schedules
from rlx.errors import ConfigError
from rlx.rollout.successes import _exchanged, replayed_episodes

GROUP_SIZE = 2


def batch_of(rewards):
  """Three groups of two, whose rows are told apart by their log-probs."""
  rewards = jnp.array(rewards, jnp.float32)
  return {'rewards': rewards, 'sampler_logprobs': -jnp.arange(6.0)[:, None] - 10 * rewards[:, None]}


def memory(known):
  return {
      'known': jnp.array(known), 'rows': {
          'rewards': jnp.ones(4), 'sampler_logprobs': -100 * (1 + jnp.arange(4.0))[:, None],
      },
  }


def exchanged(rewards, known, which=(2, 0, 3)):
  return _exchanged(
      batch_of(rewards), jnp.array(which), memory(known), group_size=GROUP_SIZE, success=1.0
  )


def test_a_success_takes_the_place_of_one_failure_where_all_failed():
  batch, _ = exchanged([0, 0, 0, 1, 0, 0], [True, True, True, False])
  assert batch['reused'].tolist() == [True, False, False, False, False, False]
  assert batch['rewards'].tolist() == [1, 0, 0, 1, 0, 0]
  assert batch['sampler_logprobs'][0, 0] == -300, 'the log-probs it was sampled with'
  np.testing.assert_array_equal(batch['sampler_logprobs'][1:, 0], [-1, -2, -13, -4, -5])
  assert batch['rows'].tolist() == [2, 2, 0, 0, 3, 3]


def test_the_newest_success_is_remembered_and_others_stay():
  _, after = exchanged([0, 0, 0, 1, 1, 1], [False, True, False, False])
  assert after['known'].tolist() == [True, True, False, True]
  np.testing.assert_array_equal(after['rows']['sampler_logprobs'][:, 0], [-13, -200, -300, -14])


@functools.cache
def rollout():
  return replayed_episodes(
      toy.WORLD, toy.WORLD_POLICY, num_problems=4, batch_size=8, group_size=GROUP_SIZE, num_slots=4,
      turn_tokens=1, max_turns=functools.partial(schedules.constant, value=4), success=1.0,
  )


@pytest.mark.slow
def test_episodes_come_back_as_they_were():
  inner, models = rollout(), {'policy': toy.WALKER.init(jax.random.key(0))}
  world, draw = inner.begin(jax.random.key(0)), jax.jit(inner.draw)
  shapes = jax.tree.map(jnp.shape, world)
  # A success is put in by hand: for chance it is rare.
  world['known'] = world['known'].at[1].set(True)
  world['rows']['rewards'] = world['rows']['rewards'].at[1].set(7.0)
  batch, after = draw(models, {**world, 'data': inner.data}, jax.random.key(1))
  failed = np.asarray(batch['rows'] == 1)[::GROUP_SIZE]
  assert failed.sum() == 1, 'all four problems are drawn'
  assert batch['reused'].sum() == 1 and batch['rewards'][np.argmax(batch['reused'])] == 7
  assert jax.tree.map(jnp.shape, after) == shapes


def test_fewer_problems_than_groups_are_refused():
  with pytest.raises(ConfigError, match='num_problems=3 are fewer than the 4 groups'):
    replayed_episodes(
        toy.WORLD, toy.WORLD_POLICY, num_problems=3, batch_size=8, group_size=2, num_slots=4, turn_tokens=1,
        max_turns=None, success=1.0,
    )
