"""iStar: each step of an episode has the reward of a model that learns from pairs of episodes, online.

    r_k = β Σ_{t in step k} log( π_φ(a_t) / π_old(a_t) )
    A_t = A^E(episode) + w (r_k - mean r) / std r,    over all steps of the group's episodes
    π_φ:  -log σ( Σ_k r_k of the better episode - Σ_k r_k of the worse one )

The model π_φ begins as the policy, and says what better episodes say more often than the policy does: nobody
labels a step, no state has to be met twice, no episode is sampled for it. That its rewards sum to the
log-odds of a pair is what it is trained for: it is a learner of its own, `dpo` with the same β, whose
reference is the policy before its update and whose pairs are the best and the worst episode of each group
(`rewards.of_learners.pairs`). Where a group has failed altogether steps still have rewards.

The parent is `grpo`; beside `gigpo` it is the reward of steps that differs, not a return to go.

Source: iStar (OPRL), https://arxiv.org/abs/2509.19199. That steps are compared with those of their group, and
that a step's reward is the sum over its tokens, is our reading.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages
from rlx.advantages import segments
from rlx.algorithms.policy_gradient import grpo_with
from rlx.engine.speaker import Speaker
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.losses.ratios import log_ratio
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout

_EPS = 1e-4  # above rounding: at first both models are the same, and what is left must not be blown up


def istar(
    rollout: Rollout, reward: Annotate, policy: Speaker, process: Speaker, kl: Anchor, *, clip_low: float,
    clip_high: float, beta: float, step_weight: float,
) -> Algorithm:
  """GRPO with implicit rewards of steps, on rows of `rollout.turns.episodes`.

  Metric: `step/reward`, the sum of an episode's rewards of steps.

  Args:
    rollout: yields rows with `turns`, episodes of a problem in groups.
    reward: adds `rewards` [B], such as `of_world`.
    policy: what learns.
    process: π_φ, which another learner trains; it has the policy's vocabulary.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    beta: β; that of the learner of `process`, or the sums are no log-odds.
    step_weight: w; with 0 it is GRPO.
  """

  def baseline(
      rewards: jax.Array, groups: jax.Array, turns: jax.Array, token_logits: jax.Array, mask: jax.Array
  ) -> jax.Array:
    of_episodes = group_advantages.normalised(rewards, groups)[:, None]
    return of_episodes + step_weight * step_advantages(token_logits, turns, groups, mask)

  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  parent = grpo_with(rollout, reward, policy, kl, baseline=baseline, surrogate=clip)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    logprobs, _ = process.score(models['process'], batch)
    logits = beta * log_ratio(logprobs, batch['sampler_logprobs'])
    total = jnp.where(batch['action_mask'], logits, 0).sum(axis=1)
    return parent.advantage(models, {**batch, 'token_logits': logits, 'step/reward': total}, key)

  return dataclasses.replace(parent, advantage=advantage)


def step_advantages(
    token_logits: jax.Array, turns: jax.Array, groups: jax.Array, mask: jax.Array
) -> jax.Array:
  """[B, T] float32: the reward of each step beside those of all steps of its group, at each of its tokens.

  Args:
    token_logits: [B, T] β log(π_φ / π_old) of the tokens.
    turns: [B, T] int32.
    groups: [B] int32.
    mask: [B, T] bool, True at actions.
  """
  steps = segments.steps(turns, mask)
  rewards, keys = segments.segment_sum(token_logits, steps), groups[:, None]
  scale = segments.key_deviation(rewards, steps, keys) + _EPS
  return segments.term(rewards, steps, baseline=segments.key_mean(rewards, steps, keys), scale=scale)
