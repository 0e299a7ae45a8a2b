"""Cog-Rethinker: GRPO on attempts that were helped, and SFT on their successes as if they had not been.

    L = L_GRPO - c 1/B Σ_i 1[i is a success of a later attempt] 1/|y_i| Σ_t log π(y_it | x_i, y_i<t)

with x the prompt of the problem itself, whatever the row was sampled from (`inject.rethought`): so what was
found by decomposing or mending is learnt where it will be asked.

Source: Sun et al., 2025, https://arxiv.org/abs/2510.15979. That the two terms share an update, and rows the
normalisation, is our reading.
"""

import dataclasses

from rlx import reductions
from rlx.algorithms.grpo import grpo
from rlx.engine.speaker import Speaker
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout
from rlx.unscored import scored_rows


def cog_rethinker(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    kl: Anchor,
    *,
    clip_low: float,
    clip_high: float,
    sft_coef: float,
) -> Algorithm:
  """GRPO with a supervised term on the rows that are to be transferred.

  Args:
    rollout: yields rows of samples with `sampler_logprobs, transferred` and the columns `direct_..`, such as
      `inject.rethought`.
    reward: adds `rewards` [B].
    policy: what learns.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    sft_coef: c.
  """
  parent = grpo(
      rollout, reward, policy, kl, clip_low=clip_low, clip_high=clip_high, entropy_coef=0.0
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    mask = batch['direct_mask']
    lengths = mask.sum(axis=-1, keepdims=True).clip(1)
    shares = reductions.sequence_sum(mask & batch['transferred'][:, None], scored_rows(batch)) / lengths
    return {**parent.advantage(models, batch, key), 'direct_weights': shares}

  def loss(models: Models, batch: Batch, key: Key):
    total, metrics = parent.loss(models, batch, key)
    direct = {
        **batch, 'tokens': batch['direct_tokens'], 'valid': batch['direct_valid'],
        'action_mask': batch['direct_mask'], 'prompt_lengths': batch['direct_lengths'],
    }
    logprobs, _ = policy.score(models['policy'], direct)
    nll = reductions.weighted_mean(-logprobs, batch['direct_weights'])
    return total + sft_coef * nll, {**metrics, 'loss/transfer': nll}

  return dataclasses.replace(parent, advantage=advantage, loss=loss)
