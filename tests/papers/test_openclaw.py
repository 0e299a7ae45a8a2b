"""OpenClaw-RL: the advantage of a token is its log-prob with the hint less that without.

https://arxiv.org/abs/2603.10165
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.openclaw import openclaw
from rlx.envs.worlds.corrected import corrected
from rlx.envs.worlds.playbook import playbook
from rlx.errors import ConfigError

INNER = playbook(situations=3, replies=3, turns=3, one_rule=True, told=0.0, each=1.0, held_out_share=0.2)
WORLD = corrected(task=lambda: INNER, says=1.0)
EMPTY = '______>'

# To `a` it was u, and should have been v; to `b` it was w, and right; to `c` it was u, and that was the end.
TEXTS = [EMPTY + 'auvbwcu', EMPTY + 'bwbwcu_']
SAID = [[8, 11, 13], [8, 10, 12]]


def rows():
  tokens = np.array([WORLD.encode(x) for x in TEXTS])
  valid = np.array([[True] * 14, [True] * 13 + [False]])
  said = np.zeros_like(valid)
  for row, columns in enumerate(SAID):
    said[row, columns] = True
  return {
      'tokens': jnp.asarray(np.where(valid, tokens, 0)), 'valid': jnp.asarray(valid),
      'action_mask': jnp.asarray(said),
      'turns': jnp.asarray(np.where(np.arange(14) < 8, -1, 0) * np.ones((2, 1), int)),
      'groups': jnp.array([0, 0]), 'rewards': jnp.array([1.0, 0.0]),
      'sampler_logprobs': jnp.zeros((2, 14)),
  }


def score(params, batch):
  """A policy that says v with log-prob -0.1 and others with -2 where its prompt begins with `av`, else -1."""
  v, told = WORLD.encode('v')[0], np.array(WORLD.encode('av'))[None]
  follows = jnp.all(batch['tokens'][:, :2] == told, axis=1)[:, None]
  said = jnp.where(batch['tokens'] == v, -0.1, -2.0)
  return jnp.where(follows, said, -1.0) * batch['action_mask'] * params, jnp.zeros(said.shape)


def advantages(**weights):
  algorithm = openclaw(
      lambda *_: None, lambda models, batch, key: batch, types.SimpleNamespace(score=score), WORLD,
      clip_low=0.2, clip_high=0.2, gap_max=5.0, **weights,
  )
  return algorithm.advantage({'policy': jnp.float32(1)}, rows(), None)


def test_what_the_user_said_is_read_off_the_episode():
  np.testing.assert_array_equal(WORLD.corrections_of(rows()), [[1, -1, -1], [-1, -1, -1]])


def test_the_advantage_of_a_token_is_teacher_minus_student():
  batch = advantages(reward_weight=0.0, hint_weight=1.0)
  expected = np.zeros((2, 14))
  expected[0, 8] = -2.0 - -1.0  # not of `b` and `c`, of which the hint says nothing; row 1 was not corrected
  np.testing.assert_allclose(batch['advantages'], expected, atol=1e-6)
  np.testing.assert_allclose(batch['hint/given'], [1, 0])


def test_both_are_added_and_without_hints_it_is_grpo():
  alone = advantages(reward_weight=1.0, hint_weight=0.0)['advantages']
  np.testing.assert_allclose(alone[:, 8], [0.5**0.5, -(0.5**0.5)], rtol=1e-4)  # by the deviation of two
  both = advantages(reward_weight=1.0, hint_weight=0.5)['advantages']
  np.testing.assert_allclose(both[0, SAID[0]], 0.5**0.5 - np.array([0.5, 0.0, 0.0]), rtol=1e-3)
  np.testing.assert_allclose(both[1], alone[1])


def test_the_user_says_what_was_wanted_behind_what_was_not():
  problem = jax.tree.map(lambda x: x[0], WORLD.sample(jax.random.key(0), 1, False))
  state = WORLD.start(problem)
  right = int(problem['rule'][problem['met'][0]])
  for number, reply in enumerate('uvw'):
    answer = WORLD.act(state, jnp.asarray(WORLD.encode(reply)), jnp.int32(1), jax.random.key(0))
    told = WORLD.decode(answer.observation[: int(answer.length)])
    following = 'abc'[int(problem['met'][1])]
    assert told == (following if number == right else 'uvw'[right] + following)


@pytest.mark.slow
def test_the_user_says_it_so_often():
  problem = jax.tree.map(lambda x: x[0], WORLD.sample(jax.random.key(0), 1, False))
  state = WORLD.start(problem)
  wrong = next(x for x in range(3) if x != int(problem['rule'][problem['met'][0]]))
  action, some = jnp.asarray(WORLD.encode('uvw'[wrong])), corrected(task=lambda: INNER, says=0.25)
  lengths = jax.vmap(lambda key: some.act(state, action, jnp.int32(1), key).length)
  heard = np.asarray(lengths(jax.random.split(jax.random.key(1), 1000)))
  assert set(heard.tolist()) == {1, 2}
  assert abs(np.mean(heard == 2) - 0.25) < 0.05  # three and a half standard errors


def test_a_world_without_corrections_is_refused():
  with pytest.raises(ConfigError, match='corrects nobody'):
    openclaw(
        None, None, None, INNER, clip_low=0.2, clip_high=0.2, reward_weight=1.0, hint_weight=1.0, gap_max=1.0
    )
