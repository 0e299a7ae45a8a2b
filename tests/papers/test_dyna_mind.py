"""Dyna-Mind: the next state that the policy says is held against the one that comes, and paid if they agree.

https://arxiv.org/abs/2510.09577
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.turns import SUCCESS, Reply, TurnTask
from rlx.envs.worlds.foreseen import foreseen

ALPHABET = '.+xyz'


def counting():
  """A world that answers `.` and how often it was asked, `x`, `y`, `z`; `+` asks, three times are enough."""
  tokens = jnp.arange(len(ALPHABET)) + 2
  blank = {'prompts': jnp.zeros((1, 1), jnp.int32), 'prompt_lengths': jnp.ones(1, jnp.int32)}

  def act(state, action, length, key):
    del key
    fine = (action[0] == tokens[1]) & (length == 1)
    after = state + fine
    observation = jnp.stack([tokens[0], tokens[1 + after]])
    solved = (after == 3).astype(jnp.float32)
    return Reply(after, observation, jnp.int32(2), solved, after == 3, fine, {SUCCESS: solved})

  return TurnTask(
      alphabet=ALPHABET, prompt_columns=1, answer_columns=2, sample=lambda key, num, held_out: blank,
      observation_columns=2, start=lambda problem: jnp.int32(0), act=act,
      expert=lambda state: (jnp.stack([tokens[1], jnp.int32(1)]), jnp.int32(2)), expert_return=1.0,
  )


def played(actions, *, bonus=0.6):
  """Rewards and shares foreseen of the turns of an episode."""
  world = foreseen(task=counting, action_tokens=1, bonus=bonus)
  state, rewards, shares = world.start({}), [], []
  for action in actions:
    tokens = jnp.asarray(world.encode(action))
    reply = world.act(state, tokens, jnp.int32(len(action)), jax.random.key(0))
    state = reply.state
    rewards.append(float(reply.reward))
    shares.append(float(reply.info['foreseen']))
  return rewards, shares, reply


def test_a_turn_is_paid_what_it_adds_to_the_share_that_was_foreseen():
  rewards, shares, reply = played(['+.x', '+.x', '+.z'])  # the second says what was, not what comes
  np.testing.assert_allclose(shares, [1, 1 / 2, 2 / 3], rtol=1e-6)
  np.testing.assert_allclose(rewards, [0.6, -0.3, 0.1 + 1], rtol=1e-5)
  np.testing.assert_allclose(sum(rewards), 1 + 0.6 * 2 / 3, rtol=1e-6)
  assert bool(reply.ended) and float(reply.info[SUCCESS]) == 1


def test_without_the_bonus_success_alone_is_paid_whatever_was_foreseen():
  assert played(['+.x', '+.x', '+.z'], bonus=0.0)[0] == [0, 0, 1]
  assert played(['+yy', '+', '+.z'], bonus=0.0)[0] == [0, 0, 1]


def test_what_is_not_said_or_not_understood_is_not_foreseen():
  assert played(['+', '+.', 'x.x'])[1] == [0, 0, 0]
  assert not bool(played(['x.x'])[2].understood)


def test_the_expert_foresees_every_turn():
  world = foreseen(task=counting, action_tokens=1, bonus=0.6)
  state, total = world.start({}), 0.0
  for _ in range(3):
    action, length = world.expert(state)
    reply = world.act(state, action, length, jax.random.key(0))
    state, total = reply.state, total + float(reply.reward)
  np.testing.assert_allclose(total, world.expert_return, rtol=1e-6)
