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
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, Score


def tlt(
    rollout: Rollout,
    reward: Annotate,
    score: Score,
    draft_score: Score,
    *,
    clip_low: float,
    clip_high: float,
    kl_coef: float,
    entropy_coef: float,
    draft_coef: float,
) -> Algorithm:
  """GRPO with a drafter that keeps up; trains `models['policy']` and `models['drafter']`.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B].
    score: `(params, batch) -> (logprobs, entropy)`, each [B, T], of the policy.
    draft_score: the same of the drafter.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    kl_coef: β; above 0 `models['reference']` is asked, at 0 it need not exist.
    entropy_coef: weight of an entropy bonus.
    draft_coef: c, weight of the drafter's cross-entropy; at 0 it stays as it began.
  """
  parent = grpo(
      rollout, reward, score, clip_low=clip_low, clip_high=clip_high, kl_coef=kl_coef,
      entropy_coef=entropy_coef,
  )

  def loss(models: Models, batch: Batch, key: Key):
    total, metrics = parent.loss(models, batch, key)
    logprobs, _ = draft_score(models['drafter'], batch)
    cross_entropy = reductions.weighted_mean(-logprobs, batch['weights'])
    return total + draft_coef * cross_entropy, {**metrics, 'loss/drafter': cross_entropy}

  return dataclasses.replace(parent, loss=loss)
