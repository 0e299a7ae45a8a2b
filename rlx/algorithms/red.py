"""RED: demonstrations in the groups, weighed by how entropy changes, and imitated where samples fail.

    w = clip( |ΔH_off / H_off| / |ΔH_on / H_on|, w_min, w_max ),    A_demonstration ← w A_demonstration

H_off is the policy's entropy on demonstrations, H_on that on its own samples, and Δ their change in the last
step: imitation (extending) counts more while it still changes the policy and reinforcement (recalling) does
not. How a demonstration is learnt from depends on its group. Where too few samples are right it is an
expert's: its probability is taken as 1, and rare tokens count more (`losses.policy.luffy`). Else the policy
could have said it, and it is a row as any other, with the ratio π / π_old.

It is `policy_gradient` with another weight and that surrogate. Groups come from `rollout/demonstrated.py`.

Source: Recall-Extend Dynamics, https://arxiv.org/abs/2508.16677; the weight as in the authors' code, where
w is in [1, 7]. That the shift has a threshold, its direction, LUFFY's shaping, means that remember
(`keep`), and -log π of samples for their entropy are our reading.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from rlx.algorithms.policy_gradient import grpo_with
from rlx.controllers.memory import with_memory
from rlx.engine.speaker import Speaker
from rlx.errors import between
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, World

_EPS = 1e-6


def red(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    weight_min: float, weight_max: float, keep: float, accuracy_min: float, gamma: float,
) -> Algorithm:
  """GRPO in groups with a demonstration.

  Args:
    rollout: yields groups with `offline, expert_mask, expert_entropy`, such as `demonstrated.demonstrated`.
    reward: adds `rewards` [B], of demonstrations too; an answer is right above 0.
    policy: scores rows; its parameters are trained.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    weight_min: w_min; equal to `weight_max` it is a fixed mixture.
    weight_max: w_max.
    keep: in [0, 1), how much of the entropies stays from step to step; 0 in the authors' code.
    accuracy_min: of a group's samples, from which on its demonstration is the policy's own; above 1, none is.
    gamma: of the shaping of an expert's rows (0.1 in LUFFY).
  Raises:
    ValueError: `keep` is out of its range, or the weights are no bounds.
  """
  between(0, 1, keep=keep)
  if not 0 <= weight_min <= weight_max:
    raise ValueError(f'weight_min={weight_min}, weight_max={weight_max}: need 0 <= min <= max')

  def annotate(memory: World, batch: Batch) -> Batch:
    weight = jnp.clip(memory['ratio'], weight_min, weight_max)
    weights = jnp.where(batch['offline'], weight, 1)
    return {**batch, 'mixture': weights, 'red/weight': jnp.full(weights.shape, weight)}

  def observe(memory: World, batch: Batch) -> World:
    return entropy_ratio(memory, *entropies(batch), keep=keep)

  parent = grpo_with(
      with_memory(rollout, 'entropies', begin=begin, annotate=annotate, observe=observe), reward, policy, kl,
      weight=lambda mixture: mixture,
      surrogate=functools.partial(_surrogate, gamma=gamma, clip_low=clip_low, clip_high=clip_high),
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    rates = accuracies(batch['rewards'], batch['groups'], batch['offline'])
    imitated = batch['offline'] & (rates < accuracy_min)
    told = jnp.where(batch['offline'], imitated, jnp.nan)
    return parent.advantage(models, {**batch, 'imitated': imitated, 'red/imitated': told}, key)

  return dataclasses.replace(parent, advantage=advantage)


def begin(key: jax.Array) -> World:
  """What is remembered before the first step: no entropies, and a ratio of 1."""
  del key
  return {'before': jnp.zeros(2), 'ratio': jnp.float32(1), 'steps': jnp.int32(0)}


def entropies(batch: Batch) -> tuple[jax.Array, jax.Array]:
  """Nats a token, [] each: of the policy on demonstrations, and on its own samples by their log-probs."""
  shown = batch['offline']
  offline = jnp.where(shown, batch['expert_entropy'], 0).sum() / jnp.maximum(shown.sum(), 1)
  said = batch['action_mask'] & ~batch['offline'][:, None]
  online = -jnp.where(said, batch['sampler_logprobs'], 0).sum() / jnp.maximum(said.sum(), 1)
  return offline, online


def entropy_ratio(memory: World, offline: jax.Array, online: jax.Array, *, keep: float) -> World:
  """The memory behind another step: means of both entropies, and the ratio of their relative changes.

  Args:
    memory: of `begin`.
    offline: [] nats a token.
    online: [] nats a token.
    keep: of the old means.
  """
  before, now = memory['before'], jnp.stack([offline, online])
  known = memory['steps'] > 0
  after = jnp.where(known, keep * before + (1 - keep) * now, now)
  change = jnp.abs(1 - after / jnp.maximum(before, _EPS))
  ratio = change[0] / jnp.maximum(change[1], _EPS)
  return {'before': after, 'ratio': jnp.where(known, ratio, 1.0), 'steps': memory['steps'] + 1}


def accuracies(rewards: jax.Array, groups: jax.Array, offline: jax.Array) -> jax.Array:
  """[B] the share of right rows among the samples of the row's group; 0 where there is none.

  Args:
    rewards: [B], NaN where there is none.
    groups: [B] int32.
    offline: [B] bool, rows that are no samples.
  """
  counts = ~offline & ~jnp.isnan(rewards)
  sums = lambda x: jax.ops.segment_sum(x.astype(jnp.float32), groups, num_segments=groups.shape[0])[groups]
  return sums(counts & (rewards > 0)) / jnp.maximum(sums(counts), 1)


def _surrogate(
    logprobs: jax.Array, sampler_logprobs: jax.Array, advantages: jax.Array, imitated: jax.Array, *,
    gamma: float, clip_low: float, clip_high: float,
) -> jax.Array:
  expert = jnp.broadcast_to(imitated[:, None], logprobs.shape)
  return policy_losses.luffy(
      logprobs, sampler_logprobs, advantages, expert, gamma=gamma, clip_low=clip_low, clip_high=clip_high
  )
