"""A rollout that counts the train steps for policies that explore less and less."""

import dataclasses

from rlx.models.exploration import EXPLORATION, counted
from rlx.types import Batch, Models, StatefulRollout


def annealing(inner: StatefulRollout) -> StatefulRollout:
  """The rollout, behind whose train steps the model `exploration` is a step further.

  Args:
    inner: of control, any; its policy is `annealed`.
  Raises:
    ValueError: when it is traced, the stage holds no model `exploration`.
  """

  def absorb(slow: Models, batch: Batch) -> Models:
    if EXPLORATION not in slow:
      raise ValueError(f'annealing counts for {EXPLORATION!r}: hold it in slow, which has {sorted(slow)}')
    return {**inner.absorb(slow, batch), EXPLORATION: counted(slow[EXPLORATION])}

  return dataclasses.replace(inner, absorb=absorb)
