"""B-Coder: a Q-function that starts as its language model, and targets within what that one would say.

https://arxiv.org/abs/2310.03173
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.bcoder import bcoder, bellman_targets
from rlx.engine import token_q
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.programs import programs
from rlx.types import check

SCALE = 0.2
DECODING = Decoding(
    max_tokens=3, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,), pad_id=0,
)
# A language model whose parameters are its logits [T, V]: what is said at column t has those of column t - 1.
TABLE = types.SimpleNamespace(
    vocab_size=4, axes={}, dtype='float32', width=4,
    forward=lambda logits, tokens: (jnp.broadcast_to(logits, (*tokens.shape, 4)), None),
    logits=lambda logits, hidden: hidden,
)
ROWS = {'tokens': jnp.array([[2, 3, 2, 1]]), 'action_mask': jnp.array([[False, True, True, True]])}
ROWS = {**ROWS, 'prompt_lengths': jnp.array([1])}


def critic(values):
  return types.SimpleNamespace(apply=lambda params, batch: jnp.asarray(values, jnp.float32)[None])


POLICY = Speaker(model=TABLE, decoding=DECODING, scoring=Scoring(chunk_tokens=8, packing=None))


def test_at_the_start_q_is_the_language_model_whatever_the_critic_says():
  logits = jax.random.normal(jax.random.key(0), (4, 4))
  models = {'policy': logits, 'value': None}
  value = critic([9.0, -3.0, 0.5, 7.0])  # column 0 is of no action
  said = lambda token: {**ROWS, 'tokens': ROWS['tokens'].at[0, 1].set(token)}
  q = [token_q.chosen_q(POLICY, value, models, said(token), scale=SCALE)[0, 1] for token in range(4)]
  np.testing.assert_allclose(jax.nn.softmax(jnp.stack(q) / SCALE), jax.nn.softmax(logits[0]), atol=1e-6)
  np.testing.assert_allclose(max(q), -3.0, atol=1e-6)  # V is what the likeliest token is worth


# Chances before the three actions of one row, of the policy and of the behaviour.
OURS = np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.4, 0.4, 0.1, 0.1], [0.25] * 4])
BEHAVIOUR = np.array([[0.25] * 4, [0.01, 0.5, 0.3, 0.19], [0.02, 0.2, 0.7, 0.08], [0.25] * 4])
VALUES = [0.0, 0.3, 0.6, 0.8]


def learnt(support):
  algorithm = bcoder(
      None, None, POLICY, POLICY, critic(VALUES), scale=SCALE, support=support, discount=0.9
  )
  models = {'policy': jnp.log(OURS), 'behaviour': jnp.log(BEHAVIOUR), 'value': None}
  batch = algorithm.advantage(models, {**ROWS, 'rewards': jnp.array([1.0])}, None)
  check(batch)
  return algorithm, models, batch


@pytest.mark.parametrize('support, below', [
    (0.0, (0.0, 0.0)),  # all tokens: max Q is V, of a token that the behaviour hardly ever says
    (0.25, (np.log(0.1 / 0.7), 0.0)),  # {1, 2, 3} and {1, 2}; the second holds one of our likeliest
    (1.0, (np.log(0.1 / 0.7), np.log(0.1 / 0.4))),  # what the behaviour finds likeliest alone
])
def test_targets_of_a_chain_of_three_tokens_by_hand(support, below):
  """y_1 = 0.9 (0.6 + α log ..), y_2 = 0.9 (0.8 + α log ..), and y_3 is the outcome."""
  expected = [0, 0.9 * (0.6 + SCALE * below[0]), 0.9 * (0.8 + SCALE * below[1]), 1.0]
  np.testing.assert_allclose(learnt(support)[2]['returns'][0], expected, rtol=1e-5, atol=1e-7)


def test_the_loss_is_half_the_squared_distance_to_the_targets_and_moves_no_target():
  algorithm, models, batch = learnt(0.25)
  said = np.log([0.4 / 0.4, 0.1 / 0.7, 0.4 / 0.4])  # of tokens 3, 2, 1 against the likeliest
  missed = np.array(VALUES[1:]) + SCALE * said - np.asarray(batch['returns'])[0, 1:]
  loss = lambda policy: algorithm.loss({**models, 'policy': policy}, batch, None)[0]
  np.testing.assert_allclose(loss(models['policy']), np.mean(missed**2) / 2, rtol=1e-5)
  slopes = np.asarray(jax.grad(loss)(models['policy']))
  np.testing.assert_allclose(slopes[1, 2], SCALE * missed[1] / 3, rtol=1e-5)  # the token up,
  np.testing.assert_allclose(slopes[1, 0], -SCALE * missed[1] / 3, rtol=1e-5)  # and the likeliest down


def test_behind_the_last_token_there_is_the_outcome_alone():
  mask = jnp.array([[False, True, True, False], [False, True, False, False]])
  found = bellman_targets(jnp.array([1.0, 2.0]), jnp.full((2, 4), 5.0), mask, discount=0.5)
  np.testing.assert_allclose(found, [[0, 2.5, 1, 0], [0, 2, 0, 0]])


def test_a_program_is_right_where_all_tests_pass():
  """Modulo 5: 1 -> 4 and 3 -> 2, which is 4 times, or -1 times."""
  task = programs(operations=2, modulus=5, tests=2, held_out_share=0.25)
  token = {'$': 1, '_': 0}
  said = ['dd$', 'nh$', 'd+$', 'd$_', '$__', 'ddd', 'd>$', 'dd_', 'd_$']
  tokens = jnp.array([[token[c] if c in token else task.encode(c)[0] for c in row] for row in said])
  problems = {'inputs': jnp.array([[1, 3]] * 9), 'outputs': jnp.array([[4, 2]] * 9)}
  assert task.verify(problems, tokens).tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0]
