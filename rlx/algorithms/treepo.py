"""TreePO: rows that branch while they are decoded, compared within every subtree that they are in.

    A_i = 1/J Σ_j ( r_i - mean(r over the subtree G_j) ) / std(A over the batch)

Source: Li et al., 2025, https://arxiv.org/abs/2508.17445, sections 2.2 and 2.3. The scale is that of the
whole batch, as in REINFORCE++; unlike there the mean is left alone, so that a group without a difference
stays zero: our reading.
"""

import dataclasses

import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import tree
from rlx.algorithms.grpo import grpo
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, Score


def treepo(
    rollout: Rollout, reward: Annotate, score: Score, *, clip_low: float, clip_high: float
) -> Algorithm:
  """`grpo` with the advantage of nested subtrees, a mean over tokens and no KL.

  Args:
    rollout: yields rows of samples with `sampler_logprobs` and `nodes`, such as `rollout.tree.segments`.
    reward: adds `rewards` [B].
    score: `(params, batch) -> (logprobs, entropy)`, each [B, T].
    clip_low: the ratio counts down to 1 - clip_low (0.2 in the paper).
    clip_high: the ratio counts up to 1 + clip_high (0.28 in the paper).
  """
  parent = grpo(
      rollout, reward, score,
      clip_low=clip_low, clip_high=clip_high, kl_coef=0.0, entropy_coef=0.0, reduction=reductions.token_mean,
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    mask = batch['action_mask']
    advantages = tree.subgroups(batch['rewards'], batch['nodes'], batch['groups'])[:, None] * mask
    scale = jnp.sqrt(jnp.sum(jnp.square(advantages)) / jnp.maximum(mask.sum(), 1))
    return {**batch, 'advantages': advantages / (scale + 1e-6)}

  return dataclasses.replace(parent, advantage=advantage)
