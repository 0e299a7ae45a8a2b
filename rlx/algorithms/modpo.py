"""MODPO: comparisons of one objective, and a reward model of the others, in one loss of DPO's form.

    L = -log σ((β h - (1 - w) Δr') / w),    Δr' = r'(y_w) - r'(y_l)

What the chosen answer is ahead by in the other objectives is taken off its margin, so that the optimum is
that of w r + (1 - w) r' though nobody compares answers by the sum. A policy for each w is a run of this loss;
no policy samples. At w = 1 it is DPO.

Source: Zhou et al., 2023, https://arxiv.org/abs/2310.03708.
"""

import dataclasses
import functools

from rlx.algorithms.dpo import dpo
from rlx.engine.speaker import Judge, Speaker
from rlx.losses import comparisons, preference
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def modpo(
    rollout: Rollout, policy: Speaker, reference: Speaker, judge: Judge, *, beta: float, weight: float
) -> Algorithm:
  """Multi-objective direct preference optimisation.

  Args:
    rollout: yields pairs, compared by the one objective.
    policy: its parameters are trained.
    reference: what holds it: `models['reference']`.
    judge: r', what the others are worth together: `models['judge']`.
    beta: β, above 0.
    weight: w in (0, 1], of the objective that is compared.
  """
  parent = dpo(
      rollout, policy, reference, loss=functools.partial(preference.modpo, beta=beta, weight=weight)
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    rewards = judge.apply(models['judge'], batch)
    margin = rewards[0::2] - rewards[1::2]
    return {**batch, 'pair_other_margin': comparisons.both(margin, margin)}

  return dataclasses.replace(parent, advantage=advantage)
