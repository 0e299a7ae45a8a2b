"""SimpleTIR is GRPO with `rollout.kept.without_void_turns`: void turns are rare, and their gradients large.

https://arxiv.org/abs/2509.02479
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.grpo import grpo
from rlx.losses.anchors import no_kl
from rlx.rewards.of_world import of_world
from rlx.rollout.kept import without_void_turns
from rlx.types import stateful
from rlx.unscored import leave_out
from tests.cases import cases

SEEDS, ROWS, GROUP, TURNS, VOCAB = 5, 16, 4, 3, 6
VOID = VOCAB - 1  # a token that no world understands, and that the policy hardly ever says


def score(params, batch):
  """A policy that is sure: a table of logits for each turn, and one token a turn."""
  logprobs = jax.nn.log_softmax(params)
  said = jnp.take_along_axis(logprobs[None], batch['tokens'][:, 1:, None], axis=2)[..., 0]
  first = lambda x: jnp.where(batch['action_mask'], jnp.pad(x, ((0, 0), (1, 0))), 0)
  entropy = -jnp.sum(jnp.exp(logprobs) * logprobs, axis=-1)
  return first(said), first(jnp.broadcast_to(entropy, said.shape))


POLICY = types.SimpleNamespace(score=score)


def tables():
  """[SEEDS, TURNS, VOCAB]: one token in ten is another than the likeliest, a void one is one in 20,000."""
  likely = jax.random.randint(jax.random.key(0), (SEEDS, TURNS), 0, VOID)
  logits = 4.0 * jax.nn.one_hot(likely, VOCAB)
  return logits.at[..., VOID].set(-6.0)


def episodes(injected):
  """A rollout of three turns; the first one of every eighth row is void, and such an episode fails."""

  def rollout(models, world, key):
    said = jax.random.categorical(key, models['policy'], shape=(ROWS, TURNS))
    broken = (jnp.arange(ROWS) % 8 == 0) & injected
    said = said.at[:, 0].set(jnp.where(broken, VOID, said[:, 0]))
    mask = jnp.broadcast_to(jnp.arange(TURNS + 1) > 0, (ROWS, TURNS + 1))
    batch = {
        'tokens': jnp.pad(said, ((0, 0), (1, 0))), 'action_mask': mask, 'valid': mask,
        'turns': jnp.broadcast_to(jnp.arange(TURNS + 1) - 1, mask.shape), 'groups': jnp.arange(ROWS) // GROUP,
        'prompt_lengths': jnp.ones(ROWS, jnp.int32),
    }
    likeliest = jnp.argmax(models['policy'], axis=1)
    right = (said == likeliest[None]).all(axis=1)
    batch |= {'understood': batch['tokens'] != VOID, 'rewards': right.astype(jnp.float32)}
    return {**batch, 'sampler_logprobs': score(models['policy'], batch)[0]}, world

  return rollout


def norms(rollout):
  """[SEEDS] the largest norm of a gradient of GRPO over 50 batches, and the mean share that counts."""
  algorithm = grpo(rollout, of_world(), POLICY, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0)

  def one(params, key):
    models = {'policy': params}
    batch, _ = stateful(algorithm.rollout)(models, {}, key)
    batch = algorithm.advantage(models, leave_out(batch), None)
    slope = jax.grad(lambda models: algorithm.loss(models, batch, None)[0])(models)['policy']
    # What a gradient says of a token that was hardly ever said is what spikes.
    return optax.tree.norm(slope[:, VOID]), batch['scored'].mean()

  keys = jax.random.split(jax.random.key(1), 50)
  over = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
  norm, counted = jax.jit(over)(tables(), keys)
  return np.asarray(norm.max(axis=1)), float(counted.mean())


@pytest.mark.parametrize('injected', cases([False, True], at_once=[True]))
def test_void_turns_make_gradients_spike_and_the_filter_bounds_them(injected):
  """Five seeds, fifty batches each; a void turn in every second group of four episodes, or none."""
  (as_is, whole), (filtered, counted) = (
      norms(wrap(episodes(injected))) for wrap in (stateful, without_void_turns)
  )
  assert whole == 1 and abs(counted - (1 - injected / 8)) < 0.01, 'chance makes one more now and then'
  print(as_is, filtered)
  if injected:
    assert (as_is > 10 * filtered).all(), (as_is, filtered)
