"""AEPO: tasks weigh the same whatever their rewards are worth; rows below zero rest by the entropy."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.aepo import aepo
from rlx.algorithms.presets import lite_ppo
from rlx.step import make_train_step, repeat
from rlx.types import State, check, stateful

COLUMNS, VOCAB, GROUP, PROMPTS, SEEDS = 2, 16, 8, 8, 5
WORTH = jnp.array([1.0, 20.0])  # of a right answer, by task
CLIP = dict(clip_low=0.2, clip_high=0.2)
LOW, HIGH = 0.5, 1.0


def rollout(models, world, key):
  """A policy without a network: a table of logits for each prompt and place. Prompts take turns in tasks."""
  groups = jnp.repeat(jnp.arange(PROMPTS), GROUP)
  tokens = jax.random.categorical(key, models['policy'][groups])
  mask = first(jnp.ones_like(tokens, bool))
  batch = {
      'tokens': first(tokens), 'action_mask': mask, 'valid': mask, 'groups': groups, 'tasks': groups % 2,
      'prompt_lengths': jnp.ones_like(groups),
  }
  return {**batch, 'sampler_logprobs': score(models['policy'], batch)[0]}, world


def first(x):
  """The prompt, one column, in front."""
  return jnp.pad(x, ((0, 0), (1, 0)))


def reward(models, batch, key):
  """Zeros in all places are right."""
  right = jnp.all(batch['tokens'] == 0, axis=1).astype(jnp.float32)
  return {**batch, 'rewards': right * WORTH[batch['tasks']], 'reward/right': right}


def score(params, batch):
  distributions = jax.nn.log_softmax(params[batch['groups']])
  taken = jnp.take_along_axis(distributions, batch['tokens'][:, 1:, None], axis=-1)[..., 0]
  return first(taken), first(-jnp.sum(jnp.exp(distributions) * distributions, axis=-1))


POLICY = types.SimpleNamespace(score=score)  # all that is asked of a speaker here


def made(entropy_low, entropy_high):
  return aepo(rollout, reward, POLICY, **CLIP, entropy_low=entropy_low, entropy_high=entropy_high)


@pytest.mark.slow
def test_tasks_have_the_same_share_of_the_gradient():
  """All prompts say the same, and half of them pay 20 for it: by the deviation of the batch they are heard
  twenty times as loud."""
  params = jnp.zeros((PROMPTS, COLUMNS, VOCAB)).at[..., 0].set(2.0)
  batch, _ = rollout({'policy': params}, {}, jax.random.key(3))
  said = jnp.tile(batch['tokens'][:GROUP].at[:3].set(0), (PROMPTS, 1))  # three are right, or more
  batch = {**batch, 'tokens': said, 'masking': jnp.zeros(PROMPTS * GROUP, bool)}
  batch = {**reward({}, batch, None), 'sampler_logprobs': score(params, batch)[0]}

  def ratio(algorithm):
    whole = algorithm.advantage({'policy': params}, batch, jax.random.key(4))
    check(whole)
    loss = lambda params: algorithm.loss({'policy': params}, whole, jax.random.key(5))[0]
    norms = jnp.linalg.norm(jax.grad(loss)(params).reshape(PROMPTS, -1), axis=1)
    assert norms.min() > 1e-4
    return norms[1::2].sum() / norms[::2].sum()

  assert 0 < batch['reward/right'].mean() < 1
  np.testing.assert_allclose(ratio(made(0.0, 9.0)), 1, rtol=1e-4)
  np.testing.assert_allclose(ratio(lite_ppo(rollout, reward, POLICY, **CLIP)), 20, rtol=1e-4)


def annotated(entropy_low, entropy_high, masking):
  """A batch whose mean entropy is that of uniform tokens, log 16 = 2.77."""
  models = {'policy': jnp.zeros((PROMPTS, COLUMNS, VOCAB))}
  algorithm = made(entropy_low, entropy_high)
  batch, world = algorithm.rollout(models, {'masking': jnp.array(masking)}, jax.random.key(3))
  batch = {**reward({}, batch, None), 'rewards': (jnp.arange(PROMPTS * GROUP) % 3 == 0).astype(jnp.float32)}
  batch = algorithm.advantage(models, batch, jax.random.key(4))
  return batch, algorithm.rollout.observe(world, batch)


@pytest.mark.slow
@pytest.mark.parametrize('band, before, rests', [
    ((1.0, 2.7), False, True),  # above it
    ((1.0, 2.8), False, False),  # in it, from below
    ((1.0, 2.8), True, True),  # in it, from above
    ((2.8, 3.0), True, False),  # below it
])
def test_negative_rows_rest_and_come_back(band, before, rests):
  batch, world = annotated(*band, before)
  below = np.asarray(batch['advantages']) < 0
  plain = np.asarray(annotated(0.0, 9.0, False)[0]['advantages'])
  assert below.any() != rests and (plain < 0).any()
  np.testing.assert_array_equal(np.asarray(batch['advantages']), np.where(rests, np.maximum(plain, 0), plain))
  assert bool(world['masking']) == rests


def stuck(key):
  """Sure of a wrong answer, with 4 % left for the right token in each place."""
  noise = 0.1 * jax.random.normal(key, (PROMPTS, COLUMNS, VOCAB))
  return noise.at[..., 1].add(3.5).at[..., 0].add(1.0)


def run(algorithm, steps):
  """Five seeds: metrics [seeds, steps]."""
  sgd, remembering = optax.sgd(4.0), stateful(algorithm.rollout)
  dispatch = repeat(make_train_step(algorithm, sgd, epochs=1, minibatches=1, microbatches=1), steps)

  def one(seed):
    key = jax.random.key(seed)
    params = {'policy': stuck(key)}
    return dispatch(State(
        step=jnp.int32(0), params=params, slow={}, opt_state=sgd.init(params), world=remembering.begin(key),
        key=key,
    ))[1]

  return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(jnp.arange(SEEDS)))


@pytest.mark.slow
def test_the_entropy_goes_through_the_band_more_slowly():
  """Five seeds, 800 steps from a policy that is sure of a wrong answer, with the band 0.5 to 1 nats.

  Rows rest exactly when the rule says so. What follows from it is less than the paper's claim: where every
  problem has one answer the entropy ends at 0 whoever learns, and nothing is left to hold it. Measured,
  steps in the band: median 112 (97 to 119), without the rule 84 (49 to 243).
  """
  found = {name: run(made(*band), 800) for name, band in (('band', (LOW, HIGH)), ('always', (0.0, 9.0)))}
  entropy, masking = found['band']['policy/entropy'], found['band']['policy/masking']
  for curve, rested in zip(entropy, masking, strict=True):
    state = False
    for now, rests in zip(curve, rested, strict=True):
      state = now >= LOW if state else now > HIGH
      assert state == bool(rests)
    assert 20 < rested.sum() < 780
  inside = lambda x: ((x >= LOW) & (x <= HIGH)).sum(axis=1)
  steps = {name: inside(x['policy/entropy']) for name, x in found.items()}
  assert np.median(steps['band']) > np.median(steps['always']) + 10
  assert np.median(found['band']['reward/right'][:, -20:]) > 0.95
