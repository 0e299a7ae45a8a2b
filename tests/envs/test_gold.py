"""The world of known rewards: closed forms, labels, and algorithms of language models in it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import gold

WORLD = gold.gold_world(
    jax.random.key(0), num_prompts=8, num_answers=6, width=5, hump=1.0, hidden=0.2, spread=1.0
)
POLICY = gold.LogLinear()


def test_gains_and_divergences_are_sums_over_answers():
  params = {**POLICY.init(WORLD), 'theta': jnp.array([1.0, 0, -1, 0, 0.5])}
  logprobs = np.asarray(POLICY.logprobs(params), float)
  probs, base = np.exp(logprobs), np.asarray(WORLD.base, float)
  np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-5)
  kl = np.mean([sum(probs[x, y] * (logprobs[x, y] - base[x, y]) for y in range(6)) for x in range(8)])
  np.testing.assert_allclose(gold.divergence(WORLD, jnp.asarray(logprobs)), kl, rtol=1e-4)
  more = np.mean(((probs - np.exp(base)) * np.asarray(WORLD.gold)).sum(axis=1))
  np.testing.assert_allclose(gold.gain(WORLD, jnp.asarray(logprobs)), more, rtol=1e-4)
  assert gold.gain(WORLD, POLICY.logprobs(POLICY.init(WORLD))) == pytest.approx(0, abs=1e-6)


def test_the_best_policy_gains_most_at_its_divergence():
  """No policy near it has a larger gain minus β KL; of the gold reward itself gain rises with KL."""
  best = gold.best(WORLD, WORLD.gold, beta=0.5)
  value = lambda x: float(gold.gain(WORLD, x) - 0.5 * gold.divergence(WORLD, x))
  for seed in range(5):
    near = jax.nn.log_softmax(best + 0.1 * jax.random.normal(jax.random.key(seed), best.shape))
    assert value(near) < value(best)
  gains = [float(gold.gain(WORLD, gold.best(WORLD, WORLD.gold, beta=b))) for b in (4.0, 1.0, 0.25, 0.05)]
  assert gains == sorted(gains)


def test_labels_are_those_of_the_gold_reward():
  sure = gold.labelled(WORLD, jax.random.key(1), num=64, sharpness=float('inf'))
  rewards = WORLD.gold[sure['tokens'][:, 0], sure['tokens'][:, 1]]
  assert (rewards[0::2] > rewards[1::2]).all() and sure['preferred'][:4].tolist() == [True, False] * 2
  assert (sure['tokens'][0::2, 0] == sure['tokens'][1::2, 0]).all(), 'one prompt'
  assert (sure['tokens'][0::2, 1] != sure['tokens'][1::2, 1]).all(), 'two answers'
  noisy = jax.jit(functools.partial(gold.labelled, num=4000, sharpness=1.0))(WORLD, jax.random.key(2))
  rewards = WORLD.gold[noisy['tokens'][:, 0], noisy['tokens'][:, 1]]
  margins = np.asarray(rewards[0::2] - rewards[1::2])
  right, sizes = margins > 0, np.abs(margins)
  expected = np.mean(1 / (1 + np.exp(-sizes)))
  assert abs(right.mean() - expected) < 0.02


def test_a_proxy_that_is_linear_is_overdone():
  """It gains at first, and loses it all when it is followed to the end; the gold reward does not."""
  world = gold.gold_world(
      jax.random.key(3), num_prompts=64, num_answers=32, width=4, hump=4.0, hidden=0.0, spread=1.0
  )
  proxy = world.features[..., 0]  # what is good to have, up to a point
  gains = [float(gold.gain(world, gold.best(world, proxy, beta=beta))) for beta in (2.0, 0.5, 0.05)]
  assert gains[0] > 0.1 and gains[2] < min(gains[0], 0), gains
  true = [float(gold.gain(world, gold.best(world, world.gold, beta=beta))) for beta in (2.0, 0.5, 0.05)]
  assert true == sorted(true)


@pytest.mark.slow
def test_rows_are_scored_as_those_of_a_language_model():
  rows = gold.labelled(WORLD, jax.random.key(4), num=8, sharpness=1.0)
  params = POLICY.init(WORLD)
  logprobs, entropy = POLICY.score(params, rows)
  expected = WORLD.base[rows['tokens'][:, 0], rows['tokens'][:, 1]]
  np.testing.assert_allclose(logprobs[:, 1], expected, rtol=1e-6)
  assert not logprobs[:, 0].any() and (entropy[:, 1] > 0).all()
  drawn = POLICY.sample(
      params, jnp.zeros((1, 1), jnp.int32), jnp.ones(1, jnp.int32), jax.random.key(5), group_size=2000
  )
  share = jnp.bincount(drawn['tokens'][:, 1], length=6) / 2000
  np.testing.assert_allclose(share, jnp.exp(WORLD.base[0]), atol=0.04)
  np.testing.assert_allclose(POLICY.score(params, drawn)[0], drawn['sampler_logprobs'], rtol=1e-5)
