"""Numbered problems without a network: each has its own logits over a few answers, of which one is right.

What controllers claim is about which problems are tried and how often; here a step costs a millisecond, so it
can be tried over many seeds. The choosing is that of `rollout/curriculum.py` itself.
"""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rlx.algorithms.grpo import grpo
from rlx.controllers import allocation, prompts
from rlx.losses.anchors import no_kl
from rlx.rollout import curriculum
from rlx.step import make_train_step, repeat
from rlx.types import State, StatefulRollout

VOCAB = 8


def logits_of(rates):
  """[N, V] logits under which problem n is solved with probability rates[n]; the right answer is n mod V."""
  rates = jnp.asarray(rates, jnp.float32)
  right = jax.nn.one_hot(jnp.arange(len(rates)) % VOCAB, VOCAB, dtype=bool)
  return jnp.where(right, jnp.log(rates)[:, None], jnp.log((1 - rates) / (VOCAB - 1))[:, None])


def rates_of(logits):
  """[N] success rates."""
  right = jnp.arange(logits.shape[-2]) % VOCAB
  return jnp.take_along_axis(jax.nn.softmax(logits), right[:, None], axis=-1)[:, 0]


def rollout(
    num_problems, *, num_prompts, num_rows, scores=prompts.everywhere, draw=prompts.highest,
    allocate=allocation.uniform, keep=0.9, prior_rate=0.5, prior_strength=2.0,
):
  """Samples one answer a row: the token in column 1, behind a prompt of one token."""
  deal = functools.partial(
      curriculum.deal, scores=scores, draw=draw, allocate=allocate, num_prompts=num_prompts,
      num_rows=num_rows, prior_rate=prior_rate, prior_strength=prior_strength,
  )

  def sample(models, world, key):
    deal_key, sample_key = jax.random.split(key)
    rows, place, _ = deal({}, world, deal_key)
    logits = models['policy'][rows[place]]
    answers = jax.random.categorical(sample_key, logits)
    logprobs = jnp.take_along_axis(jax.nn.log_softmax(logits), answers[:, None], axis=-1)
    first = lambda x: jnp.pad(x, ((0, 0), (1, 0)))
    mask = first(jnp.ones((num_rows, 1), bool))
    return {
        'tokens': first(answers[:, None]), 'valid': mask, 'action_mask': mask,
        'sampler_logprobs': first(logprobs), 'groups': place, 'rows': rows[place],
        'prompt_lengths': jnp.ones(num_rows, jnp.int32),
    }, world

  return StatefulRollout(
      begin=lambda key: curriculum.begin(num_problems), draw=sample, data=None,
      observe=functools.partial(curriculum.observe, keep=keep),
  )


def reward(models, batch, key):
  right = batch['tokens'][:, 1] == batch['rows'] % VOCAB
  return {**batch, 'rewards': right.astype(jnp.float32)}


def score(params, batch):
  logprobs = jax.nn.log_softmax(params[batch['rows']])
  taken = jnp.take_along_axis(logprobs, batch['tokens'][:, 1:], axis=-1)
  entropy = -jnp.sum(jnp.exp(logprobs) * logprobs, axis=-1, keepdims=True)
  first = lambda x: jnp.where(batch['action_mask'], jnp.pad(x, ((0, 0), (1, 0))), 0)
  return first(taken), first(entropy)


POLICY = types.SimpleNamespace(score=score)  # all that is asked of a speaker here


def grpo_on(rollout, **parts):
  clip = dict(clip_low=0.2, clip_high=0.2)
  return grpo(rollout, reward, POLICY, no_kl(), **clip, entropy_coef=0.0, **parts)


def train(algorithm, logits, *, steps, seeds, learning_rate, worlds=None):
  """Some seeds side by side: states and metrics, [seeds, ...] each.

  Args:
    logits: [N, V] to begin with, or [seeds, N, V].
    worlds: memories to go on from, [seeds, ...] each; fresh ones if not given.
  """
  optimizer = optax.sgd(learning_rate)
  step = repeat(make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1), steps)
  fresh = algorithm.rollout.begin(jax.random.key(0))
  every = lambda x: jnp.broadcast_to(x, (seeds, *x.shape))

  def one(seed, logits, world):
    params = {'policy': logits}
    return step(State(
        step=jnp.int32(0), params=params, slow={}, opt_state=optimizer.init(params), world=world,
        key=jax.random.fold_in(jax.random.key(7), seed),
    ))

  logits = logits if logits.ndim == 3 else every(logits)
  worlds = jax.tree.map(every, fresh) if worlds is None else worlds
  states, metrics = jax.jit(jax.vmap(one))(jnp.arange(seeds), logits, worlds)
  return states, jax.tree.map(np.asarray, metrics)
