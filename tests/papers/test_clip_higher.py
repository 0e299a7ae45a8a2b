"""Clip-higher: a bound that is wider upward keeps the entropy up, at no cost in what is learned.

Open-AgentRL (https://arxiv.org/abs/2510.11701) finds so for agents, with the bounds of DAPO: 0.2 and 0.28.
"""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.grpo import grpo
from rlx.losses import policy
from rlx.losses.anchors import no_kl
from rlx.step import make_train_step, repeat
from rlx.types import State

COLUMNS, VOCAB, GROUP, PROMPTS, SEEDS = 3, 12, 16, 8, 8
GOOD = 4  # tokens, of which any is right


def rollout(models, world, key):
  """A policy without a network: a table of logits for each prompt and place."""
  groups = jnp.repeat(jnp.arange(PROMPTS), GROUP)
  tokens = jnp.pad(jax.random.categorical(key, models['policy'][groups]), ((0, 0), (1, 0)))
  mask = jnp.broadcast_to(jnp.arange(COLUMNS + 1)[None] > 0, tokens.shape)
  batch = {
      'tokens': tokens, 'action_mask': mask, 'valid': mask, 'groups': groups,
      'prompt_lengths': jnp.ones_like(groups),
  }
  return {**batch, 'sampler_logprobs': score(models['policy'], batch)[0]}, world


def reward(models, batch, key):
  return {**batch, 'rewards': jnp.all(batch['tokens'] < GOOD, axis=1).astype(jnp.float32)}


def score(params, batch):
  distributions = jax.nn.log_softmax(params[batch['groups']])
  taken = jnp.take_along_axis(distributions, batch['tokens'][:, 1:, None], axis=-1)[..., 0]
  entropy = -jnp.sum(jnp.exp(distributions) * distributions, axis=-1)
  return tuple(jnp.pad(x, ((0, 0), (1, 0))) for x in (taken, entropy))


POLICY = types.SimpleNamespace(score=score)  # all that is asked of a speaker here


def run(clip_high):
  """Eight seeds of 150 steps of 8 updates: rewards and entropies of the last 20 steps, [seeds] each."""
  algorithm = grpo(rollout, reward, POLICY, no_kl(), clip_low=0.2, clip_high=clip_high, entropy_coef=0.0)
  sgd = optax.sgd(30.0)
  dispatch = repeat(make_train_step(algorithm, sgd, epochs=8, minibatches=1, microbatches=1), 150)

  def one(seed):
    key = jax.random.key(seed)
    params = {'policy': jax.random.normal(key, (PROMPTS, COLUMNS, VOCAB))}
    return dispatch(State(
        step=jnp.int32(0), params=params, slow={}, opt_state=sgd.init(params), world={}, key=key,
    ))[1]

  metrics = jax.jit(jax.vmap(one))(jnp.arange(SEEDS))
  return [np.asarray(metrics[name])[:, -20:].mean(axis=1) for name in ('reward/mean', 'policy/entropy')]


def test_a_rare_token_may_rise_further_before_it_is_held():
  """From 1 % a right token may rise to 1.28 % in a step instead of 1.2 %; what falls is held alike."""
  advantages, ratios = jnp.array([1.0, 1.0, -1.0]), jnp.array([1.25, 1.3, 0.7])
  held = functools.partial(policy.is_held, ratios, advantages, clip_low=0.2)
  assert [x.tolist() for x in held(clip_high=0.2)] == [[False, False, True], [True, True, False]]
  assert [x.tolist() for x in held(clip_high=0.28)] == [[False, False, True], [False, True, False]]


@pytest.mark.slow
def test_the_entropy_is_higher_and_the_accuracy_is_not_lower():
  """Eight seeds, 150 steps of 8 updates a batch; any of 4 of 12 tokens is right in each of three places.

  Measured in the last 20 steps: 0.29 nats (worst seed 0.17), with the symmetric bound 0.24 (0.08), higher on
  all eight seeds; rewards 99.3 % and 99.3 %. It depends on what the clip has to do: with a tenth of the
  learning rate few tokens are held, and with Adam the entropy was higher for four of eight seeds only.
  """
  (plain, plain_entropy), (wide, wide_entropy) = run(0.2), run(0.28)
  assert np.median(wide_entropy - plain_entropy) > 0.02 and (wide_entropy > plain_entropy).sum() >= 7
  assert np.median(wide) > np.median(plain) - 0.005
