"""TLT: GRPO whose drafter for speculative decoding learns from every batch that the policy samples.

    L = L_GRPO - c 1/|y_i| Σ_t log q(y_t | y_<t),   q the drafter

The rollout (`prompts.drafted_completions`) says the same with any drafter, so the drafter is a matter of
speed alone; what makes it slow is a policy that moves away from it. Here the tokens that the policy drew are
the drafter's targets, in the same update: the cross-entropy on them is, in expectation, KL(π_old || q) and a
constant. The loss of each model has no gradient in the other, so the policy's is GRPO's; only a bound on the
norm of all gradients together ties the two.

Removed: the drafter sees tokens, not the policy's hidden states; it is trained with the policy, not on idle
devices; and it drafts a chain of tokens, not a tree.

Source: Hu et al., 2025, https://arxiv.org/abs/2511.16665.
"""

import dataclasses

from rlx import reductions
from rlx.algorithms.grpo import grpo
from rlx.engine.speaker import Speaker
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def tlt(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    drafter: Speaker,
    kl: Anchor,
    *,
    clip_low: float,
    clip_high: float,
    entropy_coef: float,
    draft_coef: float,
) -> Algorithm:
  """GRPO with a drafter that keeps up; trains `models['policy']` and `models['drafter']`.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B].
    policy: what learns.
    drafter: guesses in the rollout, and learns too.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    entropy_coef: weight of an entropy bonus.
    draft_coef: c, weight of the drafter's cross-entropy; at 0 it stays as it began.
  """
  parent = grpo(
      rollout, reward, policy, kl, clip_low=clip_low, clip_high=clip_high, entropy_coef=entropy_coef
  )

  def loss(models: Models, batch: Batch, key: Key):
    total, metrics = parent.loss(models, batch, key)
    logprobs, _ = drafter.score(models['drafter'], batch)
    cross_entropy = reductions.weighted_mean(-logprobs, batch['weights'])
    return total + draft_coef * cross_entropy, {**metrics, 'loss/drafter': cross_entropy}

  return dataclasses.replace(parent, loss=loss)
