"""RECAP: what was known is replayed beside what is learnt, and objectives are weighed by how they go.

    L = Σ_k w_k L_k,    L_0 = GRPO of the samples,    L_k = -log π of the demonstrations of general task k

The weights follow the last losses of each objective (`controllers.objectives.lagging`): they move off what
has converged, onto what stalls or swings. The loss of the samples is the share of wrong ones.

It is `policy_gradient` with demonstrations in its surrogate. Rows come from `rollout/beside.py`.

Source: RECAP, https://arxiv.org/abs/2510.21978, of whose abstract this is a reading: which losses are looked
at, and the formula of the weights, are ours.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from rlx.algorithms.policy_gradient import grpo_with
from rlx.controllers import objectives
from rlx.controllers.memory import with_memory
from rlx.engine.speaker import Speaker
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, World


def recap(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    num_objectives: int, window: int, temperature: float,
) -> Algorithm:
  """GRPO with replay, under weights that move.

  Args:
    rollout: yields samples (`tasks` 0) and demonstrations (`offline`, `tasks` from 1 on), as `beside`.
    reward: adds `rewards` [B] in [0, 1]; those of demonstrations are not looked at.
    policy: scores rows; its parameters are trained.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    num_objectives: K, the samples and each general task.
    window: W, steps whose losses are remembered, at least 2.
    temperature: τ above 0, of the weights; with a high one they stay equal.
  """

  def annotate(seen: jax.Array, batch: Batch) -> Batch:
    weights = objectives.lagging(seen, temperature=temperature)
    told = {f'weight/objective_{k}': jnp.full(batch['tasks'].shape, weights[k]) for k in range(len(weights))}
    return {**batch, **told, 'objective_weights': weights[batch['tasks']]}

  def observe(seen: jax.Array, batch: Batch) -> World:
    return objectives.update_window(seen, losses(batch, num_objectives=num_objectives))

  def rewarded(models: Models, batch: Batch, key: Key) -> Batch:
    """A demonstration is right, and has nobody in its group to be compared with."""
    batch = reward(models, batch, key)
    told = jnp.where(batch['offline'], jnp.nan, batch['rewards'])
    shown = batch['offline'] & ~jnp.isnan(batch['rewards'])
    return {**batch, 'rewards': jnp.where(shown, 1.0, batch['rewards']), 'reward/online': told}

  begin = lambda key: objectives.init_window(num_objectives, size=window)
  parent = grpo_with(
      with_memory(rollout, 'objectives', begin=begin, annotate=annotate, observe=observe), rewarded, policy,
      kl, surrogate=functools.partial(_surrogate, clip_low=clip_low, clip_high=clip_high),
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    logprobs, _ = policy.score(models['policy'], batch)
    mask = batch['action_mask']
    nll = -jnp.mean(logprobs, axis=1, where=mask)  # NaN in a row without an action
    lost = jnp.where(batch['offline'], nll, 1 - batch['rewards'])
    sampled = jnp.where(batch['offline'][:, None], logprobs, batch['sampler_logprobs'])
    return parent.advantage(models, {**batch, 'lost': lost, 'sampler_logprobs': sampled}, key)

  return dataclasses.replace(parent, advantage=advantage)


def losses(batch: Batch, *, num_objectives: int) -> jax.Array:
  """[K] the mean of what was `lost` [B] in the rows of each of the `tasks` [B]; 0 of those without a row."""
  known = ~jnp.isnan(batch['lost'])
  sums = lambda x: jax.ops.segment_sum(x.astype(jnp.float32), batch['tasks'], num_segments=num_objectives)
  return sums(jnp.where(known, batch['lost'], 0)) / jnp.maximum(sums(known), 1)


def _surrogate(
    ratios: jax.Array, logprobs: jax.Array, advantages: jax.Array, offline: jax.Array,
    objective_weights: jax.Array, *, clip_low: float, clip_high: float,
) -> jax.Array:
  learnt = policy_losses.clipped(ratios, advantages, clip_low=clip_low, clip_high=clip_high)
  return objective_weights[:, None] * jnp.where(offline[:, None], -logprobs, learnt)
