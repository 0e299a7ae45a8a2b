"""Dr. GRPO: GRPO without its two biases; no division by the group's deviation, nor by the response's length.

Source: Liu et al., 2025, https://arxiv.org/abs/2503.20783, section 3.2.
"""

import functools

from rlx import reductions
from rlx.advantages import groups
from rlx.algorithms.grpo import grpo
from rlx.types import Algorithm, Annotate, Rollout, Score


def dr_grpo(
    rollout: Rollout,
    reward: Annotate,
    score: Score,
    *,
    clip_low: float,
    clip_high: float,
    kl_coef: float,
    entropy_coef: float,
    length: int,
) -> Algorithm:
  """`grpo` with centred advantages and sums over a constant; see there for the other arguments.

  Args:
    length: the constant that token sums are divided by, usually the generation budget in tokens.
  """
  return grpo(
      rollout,
      reward,
      score,
      clip_low=clip_low,
      clip_high=clip_high,
      kl_coef=kl_coef,
      entropy_coef=entropy_coef,
      baseline=groups.centred,
      reduction=functools.partial(reductions.constant_length_sum, length=length),
  )
