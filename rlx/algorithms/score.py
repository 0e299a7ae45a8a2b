"""SCoRe: attempts are compared with the same attempt of others, and what is said first can be held in place.

    A_k = (R_k - mean over attempt k of the group) / std,    R_k = Σ_j γ^(j - k) r_j
    L = -min(ρ A, clip(ρ) A) + β KL(π || ref) at the tokens of the first attempt alone

A policy that is paid for two attempts learns to make the first one right and to say it again. So it is
trained in two stages of this one algorithm. In the first, the last attempt alone is paid and β holds the
first one where it was, so that the second learns to be another. In the second stage β is 0, all attempts are
paid, and the world adds what the last one is better than the first (`envs/worlds/attempts.py`, `bonus`).

Source: Kumar et al., 2024, https://arxiv.org/abs/2409.12917, eq. 3 and 4. There the baseline is that of
REINFORCE and a small KL stays at all tokens; that an attempt is compared with those of a group is ours.
"""

from functools import partial

import jax

from rlx.algorithms.mapo import mixed_advantages
from rlx.algorithms.policy_gradient import grpo_with
from rlx.engine.speaker import Speaker
from rlx.losses import policy as policy_losses
from rlx.losses import regularizers
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Rollout


def score(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    discount: float,
) -> Algorithm:
  """One stage of self-correction, on rows of `rollout.turns.episodes`.

  Args:
    rollout: yields rows with `turns` and `token_rewards`, episodes of a problem in groups.
    reward: adds `rewards` [B], such as `of_world`.
    policy: what learns.
    kl: what holds the first turn, in the loss; `no_kl` in the second stage.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    discount: γ from turn to turn. With 0 an attempt answers for itself: with more of it, and a bonus, a wrong
      first attempt pays.
  """

  def baseline(
      groups: jax.Array, turns: jax.Array, token_rewards: jax.Array, mask: jax.Array
  ) -> jax.Array:
    return mixed_advantages(token_rewards, turns, groups, mask, discount=discount, batch_weight=0.0)

  return grpo_with(
      rollout, reward, policy, kl, baseline=baseline, kl_estimator=regularizers.kl_of_first_turn,
      surrogate=partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high),
  )
