"""CLPO: GRPO on problems and their rewritten forms, held less tightly to the reference where it is hard.

    L = L_GRPO + 1/B Σ_i β(q_i) 1/|y_i| Σ_t KL(π || ref),   β(q) = β s where q is hard, β elsewhere

s = 1 is GRPO. Problems are graded, and rewritten, by the rollout (`rollout/restructure.py`), which is where
the paper's gain comes from.

Source: Zhang et al., 2025, https://arxiv.org/abs/2509.25004, version 1; numbers and the KL as in the authors'
code. Version 2 also trains the rewriting itself, which is left out: forms are the task's.
"""

from functools import partial

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import groups
from rlx.algorithms.policy_gradient import policy_gradient
from rlx.engine.speaker import Speaker
from rlx.losses import corrections, ratios, regularizers, weights
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Rollout


def clpo(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    kl: Anchor,
    *,
    clip_low: float,
    clip_high: float,
    hard_scale: float,
    entropy_coef: float,
) -> Algorithm:
  """GRPO whose KL counts less for hard problems.

  Args:
    rollout: yields rows of samples with `sampler_logprobs, hard`, such as `restructure.restructured`.
    reward: adds `rewards` [B].
    policy: what learns.
    kl: what holds the policy; β is its `coef`, in the loss.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    hard_scale: s, at least 0.
    entropy_coef: weight of an entropy bonus (0 in the paper).
  Raises:
    ValueError: `hard_scale` is negative.
  """
  if hard_scale < 0:
    raise ValueError(f'hard_scale={hard_scale} would drive the policy from the reference; take 0 or more')

  def estimator(logprobs: jax.Array, reference_logprobs: jax.Array, hard: jax.Array) -> jax.Array:
    scales = jnp.where(hard, hard_scale, 1)
    return scales[:, None] * regularizers.kl_k3(logprobs, reference_logprobs)

  return policy_gradient(
      rollout, reward, policy, kl, baseline=groups.normalised, weight=weights.equal, level=ratios.ratio,
      surrogate=partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high),
      reduction=reductions.sequence_mean, kl_estimator=estimator, entropy_coef=entropy_coef,
      correction=corrections.none, correction_level=ratios.ratio,
  )
