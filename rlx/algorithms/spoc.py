"""SPOC: one completion in which proposals and verdicts alternate; each turn is rewarded for its role.

    A_k = ( r_k - mean(r of the turns with the same prompt and role) ) / std(r of the same)

Proposer and verifier are one model, and one pass: a verdict that passes ends the row. A turn's reward is its
own, and not that of later turns: a first proposal is not worth more because it can be corrected.

Source: SPOC, https://arxiv.org/abs/2506.06923, the rewards of messages; that they are normalised by prompt
and role is our reading.
"""

import dataclasses

from rlx import reductions
from rlx.advantages import groups, segments
from rlx.algorithms.grpo import grpo
from rlx.engine.speaker import Speaker
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def spoc(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    kl: Anchor,
    *,
    clip_low: float,
    clip_high: float,
) -> Algorithm:
  """`grpo` with an advantage for each turn, by role, and a mean over tokens.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`, such as `prompts.completions`.
    reward: adds `rewards` [B], `token_rewards`, `turns` and `roles` [B, T], such as `rewards.toys.by_role`.
    policy: what learns.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
  """
  parent = grpo(
      rollout, reward, policy, kl, clip_low=clip_low, clip_high=clip_high, entropy_coef=0.0,
      reduction=reductions.token_mean,
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    turns = segments.steps(batch['turns'], batch['action_mask'])
    earned = segments.segment_sum(batch['token_rewards'], turns)
    shape = turns.shape
    prompts = batch['groups'][:, None].repeat(shape[1], axis=1).reshape(-1)
    peers = groups.join(prompts, batch['roles'].reshape(-1)).reshape(shape)
    advantages = segments.term(
        earned, turns, baseline=segments.key_mean(earned, turns, peers),
        scale=segments.key_deviation(earned, turns, peers) + 1e-6,
    )
    return {**batch, 'advantages': advantages}

  return dataclasses.replace(parent, advantage=advantage)
