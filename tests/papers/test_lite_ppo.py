"""Lite PPO and the grid around it: every combination of the parts is one call.

Tricks or Traps (S182), https://arxiv.org/abs/2508.08221. Whether Lite PPO is better than GRPO was tried over
the grid with five seeds on arithmetic (docs/studies/tricks.md): no difference shows there.
"""

import functools
import itertools

import bandits
import jax
import numpy as np
import pytest

from rlx import reductions
from rlx.advantages import groups
from rlx.algorithms import presets
from rlx.algorithms.policy_gradient import policy_gradient
from rlx.losses import corrections, policy, ratios, regularizers, weights
from rlx.losses.anchors import no_kl
from rlx.step import collect
from rlx.types import State

SCALES = (groups.normalised, groups.centred, groups.batch_scaled)
MEANS = (reductions.sequence_mean, reductions.token_mean, reductions.prompt_mean)
CLIPS = (0.2, 0.28)
RATES = np.linspace(0.05, 0.9, 8)


def made_of(scale, mean, clip_high):
  return policy_gradient(
      bandits.rollout(8, num_prompts=8, num_rows=64), bandits.reward, bandits.POLICY, no_kl(),
      baseline=scale, weight=weights.equal, level=ratios.ratio,
      surrogate=functools.partial(policy.clipped, clip_low=0.2, clip_high=clip_high), reduction=mean,
      kl_estimator=regularizers.kl_k3, entropy_coef=0.0, correction=corrections.none,
      correction_level=ratios.ratio,
  )


@pytest.mark.slow
def test_lite_ppo_is_two_choices():
  """The group's mean with the batch's deviation, and a mean over tokens, by hand."""
  algorithm = presets.lite_ppo(
      bandits.rollout(8, num_prompts=8, num_rows=64), bandits.reward, bandits.POLICY, clip_low=0.2,
      clip_high=0.2,
  )
  logits = bandits.logits_of(RATES)
  state = State(
      step=np.int32(0), params={'policy': logits}, slow={}, opt_state=(),
      world=algorithm.rollout.begin(None), key=jax.random.key(3),
  )
  batch = jax.device_get(collect(algorithm, state))
  rewards = batch['rewards'].astype(np.float64)
  centred = rewards - np.array([rewards[batch['groups'] == g].mean() for g in batch['groups']])
  np.testing.assert_allclose(batch['advantages'][:, 1], centred / rewards.std(ddof=1), rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(batch['weights'][batch['action_mask']], 1)


@pytest.mark.slow
def test_the_whole_grid_learns():
  """18 combinations, five seeds each: success rates rise from 0.48 on average in all of them."""
  for choice in itertools.product(SCALES, MEANS, CLIPS):
    states, _ = bandits.train(
        made_of(*choice), bandits.logits_of(RATES), steps=60, seeds=5, learning_rate=4.0
    )
    rates = np.asarray(jax.vmap(bandits.rates_of)(states.params['policy'])).mean(axis=1)
    assert rates.min() > RATES.mean() + 0.1, (choice, rates)
