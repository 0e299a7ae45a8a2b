"""AEPO: GRPO by task whose negative rows rest while the policy is too unsure, and learn again when it is not.

    A_i = (r_i - mean(r of the group)) / std(r of the task),    0 where A_i < 0 and the rows below zero rest
    they rest from the batch whose entropy exceeds H_high until one is below H_low

Where negative rows raise the entropy and right ones lower it, as the paper finds, this holds it between the
two. The deviation is that of the task, not of the group: one of a few rows is noise; and not of the batch:
there a task with large rewards would drown the others. Batches should hold as many problems of each task
(`envs/mixture.py`).

It is the reinforcement learning of QwenLong-L1.5; the agent that reads ever longer texts in chunks and
writes itself notes, and the synthesis of its problems, are not part of it.

Source: https://arxiv.org/abs/2512.12967, sections 4.2 to 4.4. The mean over tokens, and that rows which rest
still count in it, are our reading.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import groups as group_advantages
from rlx.algorithms.policy_gradient import grpo_with
from rlx.controllers.memory import with_memory
from rlx.engine.speaker import Speaker
from rlx.losses import entropy as entropy_control
from rlx.losses import policy as policy_losses
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def aepo(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    *,
    clip_low: float,
    clip_high: float,
    entropy_low: float,
    entropy_high: float,
) -> Algorithm:
  """Adaptive entropy-controlled policy optimisation.

  Args:
    rollout: yields rows of samples with `sampler_logprobs` and `tasks`.
    reward: adds `rewards` [B], in the units of each task.
    policy: scores rows; its parameters are trained.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    entropy_low: H_low in nats a token, of the mean over rows; below it negative rows learn again.
    entropy_high: H_high, above which they rest.
  Raises:
    ValueError: the band is empty.
  """
  if not entropy_low <= entropy_high:
    raise ValueError(f'entropy_low={entropy_low} is above entropy_high={entropy_high}; exchange them')
  parent = grpo_with(
      with_memory(
          rollout, 'masking', begin=lambda key: entropy_control.init_masking(), annotate=_annotate,
          observe=lambda masking, batch: batch['masking'][0],
      ),
      reward, policy, baseline=_by_task, reduction=reductions.token_mean,
      surrogate=functools.partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high),
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    mask = batch['action_mask']
    _, entropy = policy.score(models['policy'], batch)
    mean = reductions.weighted_mean(entropy, reductions.sequence_mean(mask))
    masking = entropy_control.update_masking(
        batch['masking'][0], mean, entropy_low=entropy_low, entropy_high=entropy_high
    )
    kept = entropy_control.negatives_kept(batch['advantages'], masking)
    everywhere = lambda x: jnp.broadcast_to(x, mask.shape[:1])
    return {
        **batch,
        'advantages': jnp.where(kept, batch['advantages'], 0),
        'masking': everywhere(masking),
        'policy/masking': everywhere(masking),
    }

  return dataclasses.replace(parent, advantage=advantage)


def _annotate(masking: jax.Array, batch: Batch) -> Batch:
  return {**batch, 'masking': jnp.broadcast_to(masking, batch['groups'].shape)}


def _by_task(rewards: jax.Array, groups: jax.Array, tasks: jax.Array) -> jax.Array:
  return group_advantages.pool_scaled(rewards, groups, tasks)
