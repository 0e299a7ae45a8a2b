"""TEMPO: GRPO, and at tokens where the samples of a prompt part, the change in value that the token made.

    A_t = [ r - mean(r) + V(s_t+1) - V(s_t) ] / std(r)

V is the mean outcome of the samples that begin alike (`advantages/tree.py`): no critic, and no samples beyond
those of the group.

Source: Tran et al., 2025, https://arxiv.org/abs/2509.18314.
"""

import dataclasses

from rlx.advantages import tree
from rlx.algorithms.grpo import grpo
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, Score


def tempo(
    rollout: Rollout,
    reward: Annotate,
    score: Score,
    *,
    clip_low: float,
    clip_high: float,
    kl_coef: float,
) -> Algorithm:
  """`grpo` with an advantage for each token.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B].
    score: `(params, batch) -> (logprobs, entropy)`, each [B, T].
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    kl_coef: weight of the KL to `models['reference']`; at 0 that need not exist.
  """
  parent = grpo(
      rollout, reward, score, clip_low=clip_low, clip_high=clip_high, kl_coef=kl_coef, entropy_coef=0.0
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    nodes = tree.prefix_nodes(batch['tokens'], batch['action_mask'], batch['groups'])
    return {**batch, 'advantages': tree.prefix_td(batch['rewards'], nodes, batch['groups'])}

  return dataclasses.replace(parent, advantage=advantage)
