"""ReMax: the baseline of a sample is the reward of the policy's own greedy answer to the same prompt.

    L = -mean_i (r_i - r(greedy answer)) Σ_t log π(y_t)

One more answer a prompt, no critic and no group. The greedy answers are made and rewarded in the reward slot,
beside the samples; they are not trained on.

Source: Li et al., 2023, https://arxiv.org/abs/2310.10505, algorithm 1. There a KL to the reference is part of
the reward; here it is not.
"""

import dataclasses

import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import groups
from rlx.algorithms.policy_gradient import policy_gradient
from rlx.engine import sample as engine
from rlx.engine.sample import Decoding
from rlx.losses import corrections, policy, regularizers, weights
from rlx.models.transformer import TransformerConfig
from rlx.rewards.host import check_compiles
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, Score


def remax(
    rollout: Rollout, reward: Annotate, score: Score, config: TransformerConfig, decoding: Decoding, *,
    group_size: int,
) -> Algorithm:
  """REINFORCE against greedy answers.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`, `group_size` consecutive ones a prompt.
    reward: adds `rewards` [B]; it is asked twice, and has to compile.
    score: `(params, batch) -> (logprobs, entropy)`, each [B, T].
    config: shape of the policy.
    decoding: as the samples'; its chance is taken out.
    group_size: samples that share a greedy answer (1 in the paper).
  """
  check_compiles(reward)
  parent = policy_gradient(
      rollout, reward, score, baseline=groups.against, weight=weights.equal, level=policy.ratio,
      surrogate=policy.reinforce, reduction=reductions.sequence_sum, kl=regularizers.kl_k3, kl_coef=0.0,
      kl_reward_coef=0.0, entropy_coef=0.0, correction=corrections.none, correction_level=policy.ratio,
  )

  def greedy_rewards(models: Models, batch: Batch, key: Key):
    first = {name: x[::group_size] for name, x in batch.items()}
    room = batch['tokens'].shape[1] - decoding.max_tokens
    inside = jnp.arange(room)[None] < first['prompt_lengths'][:, None]
    prompts = jnp.where(inside, first['tokens'][:, :room], decoding.pad_id)
    answers = engine.sample(
        models['policy'], config, prompts, first['prompt_lengths'], key, group_size=1,
        decoding=decoding.greedy,
    )
    return reward(models, {**first, **answers}, key)['rewards']

  def with_baselines(models: Models, batch: Batch, key: Key) -> Batch:
    baselines = jnp.repeat(greedy_rewards(models, batch, key), group_size)
    return {**reward(models, batch, key), 'baselines': baselines, 'reward/greedy': baselines}

  return dataclasses.replace(parent, reward=with_baselines)
