"""SCoRe: what is said first can be held in place, and each attempt is compared with the same of others.

https://arxiv.org/abs/2409.12917
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.score import score
from rlx.envs.sorting import sorting
from rlx.envs.worlds.attempts import attempts
from rlx.losses.anchors import kl_in_loss, no_kl
from rlx.rewards.of_world import of_world

TURNS = jnp.array([[-1, 0, 0, 1, 1]] * 4)
MASK = TURNS >= 0
BATCH = {
    'action_mask': MASK, 'turns': TURNS, 'groups': jnp.zeros(4, int), 'prompt_lengths': jnp.ones(4, int),
    'tokens': jnp.zeros((4, 5), jnp.int32), 'sampler_logprobs': jnp.zeros((4, 5)), 'rewards': jnp.ones(4),
    # First and second verdict: right right, right wrong, wrong right, wrong wrong; the last one is paid.
    'token_rewards': jnp.array([[0, 0, 1, 0, 1], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0.0]]),
}
# A policy that is a table of log-probs.
TABLE = types.SimpleNamespace(score=lambda params, batch: (params, jnp.zeros_like(params)))


def method(kl, discount):
  return score(None, of_world(), TABLE, kl, clip_low=0.2, clip_high=0.2, discount=discount)


def advantages(discount):
  advantage = method(no_kl(), discount).advantage
  return jax.jit(lambda batch: advantage({'policy': jnp.zeros((4, 5))}, batch, None)['advantages'])(BATCH)


@pytest.mark.slow
def test_an_attempt_answers_for_itself_or_for_what_follows():
  deviation = np.std([1, 1, 0, 0], ddof=1)
  own = np.array([1, 1, -1, -1]) * 0.5 / deviation
  found = np.asarray(advantages(0.0))
  np.testing.assert_allclose(found[:, 1:3], np.stack([own, own], axis=1), rtol=1e-4)
  np.testing.assert_allclose(found[:, 3], own[[0, 2, 0, 2]], rtol=1e-4)
  returns = np.array([2, 1, 1, 0.0])  # of both attempts, behind the first
  expected = (returns - 1) / np.std(returns, ddof=1)
  np.testing.assert_allclose(np.asarray(advantages(1.0))[:, 1], expected, rtol=1e-4, atol=1e-6)


def test_only_the_first_attempt_is_held():
  """The gradient of the KL, for a policy that has moved at every token."""
  moved = {'policy': jnp.full((4, 5), 0.3), 'reference': jnp.zeros((4, 5))}
  silent = {**BATCH, 'token_rewards': jnp.zeros((4, 5))}

  def slope(kl):
    algorithm = method(kl, 0.0)
    batch = algorithm.advantage(moved, silent, None)
    return jax.grad(lambda models: algorithm.loss(models, batch, None)[0])(moved)['policy']

  held = jax.jit(lambda: slope(kl_in_loss(TABLE, coef=1.0)))()
  assert (held[:, 1:3] > 0).all() and not held[:, 3:].any() and not held[:, 0].any()
  assert not jax.jit(lambda: slope(no_kl()))().any(), 'the mechanism is off'


@pytest.mark.parametrize(('early', 'bonus', 'expected'), [(0.0, 0.0, 1.0), (1.0, 10.0, 11.0)])
def test_what_two_attempts_are_paid(early, bonus, expected):
  """A wrong attempt and then a right one: the second is worth `expected`; the other way round it costs."""
  world = attempts(
      task=lambda: sorting(length=2, held_out_share=0.2), num_attempts=2, stop_when_right=False, early=early,
      bonus=bonus,
  )
  problem = jax.tree.map(lambda x: x[0], world.sample(jax.random.key(0), 1, False))
  right, length = world.expert(world.start(problem))
  wrong = right.at[0].set(2 + (right[0] - 1) % 10)

  def play(*actions):
    state, paid = world.start(problem), []
    for action in actions:
      reply = world.act(state, action, length, jax.random.key(0))
      state = reply.state
      paid.append(float(reply.reward))
    return paid, float(reply.info['gain'])

  assert play(wrong, right) == ([0.0, expected], 1.0)
  assert play(right, wrong) == ([early, -bonus], -1.0)
  assert play(right, right) == ([early, 1.0], 0.0)
