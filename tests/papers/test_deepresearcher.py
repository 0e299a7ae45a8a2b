"""DeepResearcher: answers in a noisy web are paid by F1, and what tools said has no gradient.

https://arxiv.org/abs/2504.03160
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.grpo import grpo
from rlx.envs.worlds.noisy_web import noisy_web
from rlx.losses.anchors import no_kl
from rlx.rewards.of_world import of_world
from rlx.types import keep_world

PROBLEM = {'asked': jnp.int32(0), 'facts': jnp.array([[4, 7], [5, 5], [0, 1]])}


def world(dropped=0.0, distracting=0.0):
  return noisy_web(subjects=3, digits=8, dropped=dropped, distracting=distracting, held_out_share=0.3)


CLEAN, NOISY = world(), world(dropped=0.5, distracting=0.9)


def played(web, calls, key):
  """What is read behind each call, and the rewards."""
  state, heard, rewards = web.start(PROBLEM), [], []
  for i, call in enumerate(calls):
    action = jnp.pad(jnp.asarray(web.encode(call)), (0, 4 - len(call)))
    reply = ACT[web](state, action, jnp.int32(len(call)), jax.random.fold_in(key, i))
    state = reply.state
    heard.append(web.decode(reply.observation[: reply.length]))
    rewards.append(float(reply.reward))
  return heard, rewards


ACT = {id_: jax.jit(id_.act) for id_ in (CLEAN, NOISY)}


@pytest.mark.parametrize('answer, f1', [
    ('=47', 1), ('=74', 1),  # a bag of digits
    ('=4', 2 / 3), ('=44', 1 / 2), ('=40', 1 / 2), ('=0', 0), ('=', 0), ('47', 0),
])
def test_an_answer_is_paid_by_its_f1(answer, f1):
  assert played(CLEAN, (answer,), jax.random.key(0))[1] == [pytest.approx(f1)]


def test_the_web_fails_where_it_is_noisy_alone():
  calls = ('r1', 'sa', 'r1', 'sc', 'r2', '=47')  # nothing is found yet that could be read
  for seed in range(2):
    assert played(CLEAN, calls, jax.random.key(seed)) == (
        ['!', ':aa', ':a47', ':cc', ':c01', '!'], [0, 0, 0, 0, 0, 1])
  seen = [played(NOISY, ('sa', 'r1'), jax.random.key(seed))[0] for seed in range(12)]
  found = [titles for titles, _ in seen if titles != '!']
  assert 0 < len(found) < len(seen) and any('a' not in titles for titles in found)
  assert all(note[1] == titles[1] for titles, note in seen if titles != '!' and note != '!')
  assert all(note == '!' for titles, note in seen if titles == '!')


# --- tool text and the loss ---------------------------------------------------------------------------------

# Two episodes of a question: prompt, a call, what came back, an answer; P prompt, A action, O observation.
KINDS = np.array([list('PPAAAOOOAAA'), list('PPAAOAAOAAA')])


def gradient(action_mask):
  """Of GRPO's loss with respect to the log-probability of each token; a policy that masks nothing itself."""
  logprobs = jnp.log(jnp.linspace(0.1, 0.9, KINDS.size).reshape(KINDS.shape))
  policy = types.SimpleNamespace(score=lambda params, batch: (params, jnp.zeros_like(params)))
  algorithm = grpo(keep_world, of_world(), policy, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0)
  batch = {
      'action_mask': jnp.asarray(action_mask), 'valid': jnp.ones(KINDS.shape, bool),
      'tokens': jnp.ones(KINDS.shape, jnp.int32), 'groups': jnp.zeros(2, jnp.int32),
      'prompt_lengths': jnp.full(2, 2), 'rewards': jnp.array([1.0, 0.5]), 'sampler_logprobs': logprobs,
  }

  def slope(logprobs):
    models, key = {'policy': logprobs}, jax.random.key(0)
    scored = algorithm.advantage(models, batch, key)
    return jax.grad(lambda models: algorithm.loss(models, scored, key)[0])(models)['policy']

  return np.asarray(jax.jit(slope)(logprobs))


def test_tool_text_has_no_gradient():
  masked, unmasked = gradient(KINDS == 'A'), gradient(KINDS != 'P')
  assert not masked[KINDS != 'A'].any() and masked[KINDS == 'A'].all()
  assert unmasked[KINDS == 'O'].all(), 'without the mask, what tools said would be learnt'
  # At ratio 1 a token's slope is -A / |its episode's actions| / 2 episodes; of two, A is ±1 / sqrt(2).
  for row, sign in zip(range(2), (-1, 1), strict=True):
    own = masked[row][KINDS[row] == 'A']
    np.testing.assert_allclose(own, sign / 2**0.5 / own.size / 2, rtol=1e-3)
