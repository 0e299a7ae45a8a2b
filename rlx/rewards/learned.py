"""The reward of a reward model, inside the compiled step."""

from rlx.engine.speaker import Judge
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
