"""ReMax: the baseline of a sample is the reward of the policy's own greedy answer to the same prompt.

    L = -mean_i (r_i - r(greedy answer)) Σ_t log π(y_t)

One more answer a prompt, no critic and no group. The greedy answers are made and rewarded in the reward slot,
beside the samples; they are not trained on.

Source: Li et al., 2023, https://arxiv.org/abs/2310.10505, algorithm 1. A KL in the reward, as there, is that
of the whole row here, and no part of the baseline.
"""

import dataclasses

import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import groups
from rlx.algorithms.policy_gradient import grpo_with
from rlx.engine.speaker import Speaker
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.rewards.host import check_compiles
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def remax(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, group_size: int
) -> Algorithm:
  """REINFORCE against greedy answers.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`, `group_size` consecutive ones a prompt.
    reward: adds `rewards` [B]; it is asked twice, and has to compile.
    policy: says the greedy answers and scores rows; its parameters are trained.
    kl: what holds the policy to `models['reference']`, in the reward or in the loss; with `no_kl` there need
      not be one.
    group_size: samples that share a greedy answer (1 in the paper).
  """
  check_compiles(reward)
  parent = grpo_with(
      rollout, reward, policy, kl, baseline=groups.against, surrogate=policy_losses.reinforce,
      reduction=reductions.sequence_sum,
  )

  def greedy_rewards(models: Models, batch: Batch, key: Key):
    first = {name: x[::group_size] for name, x in batch.items()}
    room = batch['tokens'].shape[1] - policy.decoding.max_tokens
    inside = jnp.arange(room)[None] < first['prompt_lengths'][:, None]
    prompts = jnp.where(inside, first['tokens'][:, :room], policy.decoding.pad_id)
    answers = policy.mode(models['policy'], prompts, first['prompt_lengths'])
    return reward(models, {**first, **answers}, key)['rewards']

  def with_baselines(models: Models, batch: Batch, key: Key) -> Batch:
    baselines = jnp.repeat(greedy_rewards(models, batch, key), group_size)
    return {**reward(models, batch, key), 'baselines': baselines, 'reward/greedy': baselines}

  return dataclasses.replace(parent, reward=with_baselines)
