"""The reward of a reward model, inside the compiled step."""

import jax

from rlx.engine.speaker import Judge
from rlx.errors import above
from rlx.types import Annotate, Batch, Key, Models


def learned(judge: Judge) -> Annotate:
  """Adds `rewards` [B]: what `models['judge']` says of each row.

  Args:
    judge: a reward model, such as `heads.reward_head` or `classifier.classifier`.
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    return {**batch, 'rewards': judge.apply(models['judge'], batch)}

  return reward


def probable(judge: Judge, *, scale: float) -> Annotate:
  """Adds `rewards` [B]: σ(s r), the chance that the row is right, as a verifier gives it.

  Args:
    judge: a verifier, whose r are log-odds.
    scale: s, above 0: 1 believes it; more is surer than it should be, less is less so. The order of answers,
      and so which is the best of n, is the same for all.
  """
  above(0, scale=scale)
  parent = learned(judge)

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent(models, batch, key)
    return {**batch, 'rewards': jax.nn.sigmoid(scale * batch['rewards'])}

  return reward
