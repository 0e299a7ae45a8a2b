"""PRIME: each token has the implicit reward of a model that learns online which rows end right.

    r_t = β log( π_φ(y_t | ..) / π_ref(y_t | ..) )
    A_t = Σ_{s >= t} γ^(s - t) [ r_s - mean reward of a token of the others ]  +  r_o - mean r_o of the others
    π_φ:  -r_o log σ(Σ_t r_t) - (1 - r_o) log σ(-Σ_t r_t)

The model π_φ (`models.heads.implicit_reward`) begins as the policy and is a learner of its own: `pointwise`,
on the same rows with the verdict of each (`rewards.of_learners.verdicts`), before the policy takes its step.
The two returns are found apart and added, as the paper has it. The parent is `grpo_with`: the clipped
surrogate, averaged over tokens. Where `istar` learns from pairs of episodes and compares with the policy
before its update, this learns from single verdicts and compares with a fixed reference.

Source: Cui et al., 2025, https://arxiv.org/abs/2502.01456, eq. 3 to 5, of which the equations were at hand.
Its filter, which leaves out prompts of which nearly all rows or nearly none are right, is a rollout:
`rollout.rounds.within_band`.
"""

import dataclasses
from functools import partial

import jax

from rlx import reductions
from rlx.advantages import groups as group_advantages
from rlx.advantages import process as process_advantages
from rlx.algorithms.policy_gradient import grpo_with
from rlx.engine.speaker import ImplicitJudge, Speaker
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def prime(
    rollout: Rollout, reward: Annotate, policy: Speaker, process: ImplicitJudge, kl: Anchor, *,
    clip_low: float, clip_high: float, discount: float, process_weight: float,
) -> Algorithm:
  """The clipped policy gradient with outcomes and implicit rewards of tokens, each beside the group's others.

  Metric: `process/reward`, the sum of a row's rewards of tokens, which are the log-odds that it is right.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`, in groups.
    reward: adds `rewards` [B], the outcomes r_o.
    policy: what learns.
    process: π_φ and π_ref, which another learner trains.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    discount: γ from token to token (1 in the paper).
    process_weight: of the rewards of tokens (1 in the paper); with 0 it is RLOO with a clip.
  """

  def baseline(
      rewards: jax.Array, groups: jax.Array, token_rewards: jax.Array, mask: jax.Array
  ) -> jax.Array:
    of_rows = group_advantages.leave_one_out(rewards, groups)[:, None]
    of_tokens = process_advantages.returns_beside_others(token_rewards, groups, mask, discount=discount)
    return of_rows + process_weight * of_tokens

  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  parent = grpo_with(
      rollout, reward, policy, kl, baseline=baseline, surrogate=clip, reduction=reductions.token_mean
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    rewards = process.of_tokens(models['process'], batch)
    told = {'token_rewards': rewards, 'process/reward': rewards.sum(axis=1)}
    return parent.advantage(models, {**batch, **told}, key)

  return dataclasses.replace(parent, advantage=advantage)
