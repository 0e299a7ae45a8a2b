"""MAPO: turns of a dialogue are compared with the same turn of others, and with all turns of the batch.

    A_k = (1 - w) (R_k - mean over turn k of the group) / std + w (R_k - mean over the batch) / std
    R_k = Σ_j γ^(j - k) r_j

The first comparison is fair, between turns that are equally far, and few; the second has many, and sees which
turns are worth more than others. The rewards are of turns, such as a judge's; there is no critic.

Source: MAPO, mixed advantages for long dialogues; known to us by its abstract.
That one weight mixes them is our reading.
"""

from functools import partial

import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages
from rlx.advantages import segments
from rlx.algorithms.policy_gradient import grpo_with
from rlx.engine.speaker import Speaker
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Rollout

_EPS = 1e-6


def mapo(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    discount: float, batch_weight: float,
) -> Algorithm:
  """Mixed-advantage policy optimisation, on rows of `rollout.turns.episodes`.

  Args:
    rollout: yields rows with `turns` and `token_rewards`, dialogues of a problem in groups.
    reward: adds `rewards` [B], such as `of_world`.
    policy: what learns.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    discount: γ from turn to turn.
    batch_weight: w in [0, 1], of the comparison with the batch.
  """

  def baseline(
      groups: jax.Array, turns: jax.Array, token_rewards: jax.Array, mask: jax.Array
  ) -> jax.Array:
    return mixed_advantages(
        token_rewards, turns, groups, mask, discount=discount, batch_weight=batch_weight
    )

  clip = partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high)
  return grpo_with(rollout, reward, policy, kl, baseline=baseline, surrogate=clip)


def mixed_advantages(
    token_rewards: jax.Array, turns: jax.Array, groups: jax.Array, mask: jax.Array, *, discount: float,
    batch_weight: float,
) -> jax.Array:
  """[B, T] float32: both comparisons of each turn's return, at each of its tokens; 0 elsewhere.

  Args:
    token_rewards: [B, T].
    turns: [B, T] int32.
    groups: [B] int32.
    mask: [B, T] bool, True at actions.
    discount: γ.
    batch_weight: w.
  """
  steps = segments.steps(turns, mask)
  returns = segments.returns_to_go(token_rewards, steps, discount=discount)
  spread = groups[:, None].repeat(turns.shape[1], axis=1).reshape(-1)
  peers = group_advantages.join(spread, turns.reshape(-1)).reshape(turns.shape)
  total = jnp.zeros(turns.shape, jnp.float32)
  for keys, weight in ((peers, 1 - batch_weight), (0, batch_weight)):
    total += segments.term(
        returns, steps, baseline=segments.key_mean(returns, steps, keys),
        scale=segments.key_deviation(returns, steps, keys) + _EPS, weight=weight,
    )
  return total
