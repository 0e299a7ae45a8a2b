"""ROSE: new rows from where others could have meant something else; segments credited, long right ones less.

    A = V(end of the segment) - V(its beginning),    then    A - |A| (1 - (l_short / l)^power)

Source: Zhao et al., 2026, https://arxiv.org/abs/2601.05053, sections 3.2 and 3.3. Segments are those of the
prefix tree: rows that began alike by chance share a node too, where the paper knows of its own branches only.
"""

import dataclasses
import functools

from rlx import reductions
from rlx.advantages import tree
from rlx.algorithms.grpo import grpo
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, Score


def rose(
    rollout: Rollout,
    reward: Annotate,
    score: Score,
    *,
    clip_low: float,
    clip_high: float,
    kl_coef: float,
    length_power: float,
    length: int,
) -> Algorithm:
  """`grpo` with the advantage of segments, and sums over a constant.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`, such as `rollout.tree.explore`.
    reward: adds `rewards` [B]; above 0 is right.
    score: `(params, batch) -> (logprobs, entropy)`, each [B, T].
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    kl_coef: weight of the KL to `models['reference']` (0.001 in the paper); at 0 that need not exist.
    length_power: how much less a right row that is longer than need be is worth; 0 leaves lengths alone.
    length: the constant that token sums are divided by, usually the generation budget in tokens.
  """
  parent = grpo(
      rollout, reward, score, clip_low=clip_low, clip_high=clip_high, kl_coef=kl_coef, entropy_coef=0.0,
      reduction=functools.partial(reductions.constant_length_sum, length=length),
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    nodes = tree.prefix_nodes(batch['tokens'], batch['action_mask'], batch['groups'])
    advantages = tree.segment_td(batch['rewards'], nodes, batch['groups'], length_power=length_power)
    return {**batch, 'advantages': advantages}

  return dataclasses.replace(parent, advantage=advantage)
