"""CalibRL: an expert is the measure of how sure to be, and not what is imitated.

    L = clipped GRPO + λ |A_i| LeakyReLU( ∓(log π(y_t) - log π_old(e_t)) ),   - for a right y_i, + for a wrong

where e is the expert's answer to the same prompt, and π_old(e_t) how sure the policy was of its token there.
A right answer is made likelier while it is less likely than the expert's, and only by the slope of the
LeakyReLU beyond that; a wrong one is made less likely in the same way. |A_i| of a normalised group is the
rarity of its outcome. The expert is in no baseline, and nobody is trained on what it says.

It is `policy_gradient` with one more term in the surrogate (`losses.policy.calibrl`). Groups come from
`rollout/demonstrated.py`. The paper's task has images, which nothing here needs.

Source: https://arxiv.org/abs/2602.20197; baseline, weights and slope as in the authors' code.
"""

import functools

import jax
import jax.numpy as jnp

from rlx.algorithms.policy_gradient import grpo_with
from rlx.engine.speaker import Speaker
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Rollout


def calibrl(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    guided_coef: float, slope: float,
) -> Algorithm:
  """Exploration that an expert calibrates.

  Args:
    rollout: yields groups with `expert_logprobs, expert_mask`, such as `demonstrated.measured`.
    reward: adds `rewards` [B]; an answer is right above 0.
    policy: scores rows; its parameters are trained.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    guided_coef: λ; with 0 it is GRPO.
    slope: of the LeakyReLU below 0 (0.5 in the authors' code).
  """
  clip = functools.partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)

  def surrogate(
      ratios: jax.Array, logprobs: jax.Array, advantages: jax.Array, expert_logprobs: jax.Array,
      expert_mask: jax.Array, rewards: jax.Array,
  ) -> jax.Array:
    right = jnp.broadcast_to(rewards[:, None] > 0, logprobs.shape)
    guided = policy_losses.calibrl(logprobs, expert_logprobs, advantages, right, slope=slope)
    return clip(ratios, advantages) + guided_coef * jnp.where(expert_mask, guided, 0)

  return grpo_with(rollout, reward, policy, kl, surrogate=surrogate)
