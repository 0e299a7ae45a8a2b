"""RLOO: REINFORCE whose baseline is the mean reward of the *other* samples of the prompt.

Source: Ahmadian et al., 2024, https://arxiv.org/abs/2402.14740, eq. 8.
"""

from rlx.advantages import groups
from rlx.algorithms.reinforce import reinforce
from rlx.types import Algorithm, Annotate, Rollout, Score


def rloo(
    rollout: Rollout, reward: Annotate, score: Score, *, kl_coef: float, entropy_coef: float
) -> Algorithm:
  """`reinforce` with the leave-one-out baseline; see there for the arguments."""
  return reinforce(
      rollout, reward, score, kl_coef=kl_coef, entropy_coef=entropy_coef, baseline=groups.leave_one_out
  )
