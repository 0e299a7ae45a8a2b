"""Following: any algorithm, with lagging models that are brought up to the trained ones every so often."""

from collections.abc import Mapping
import dataclasses

import jax

from rlx import tracking
from rlx.types import Algorithm, Models


def following(parent: Algorithm, *, names: Mapping[str, str], period: int) -> Algorithm:
  """The algorithm, whose lagging models are copied anew after every `period` updates.

  Args:
    parent: what learns; whatever it tracks itself comes first.
    names: lagging model -> trained model that it copies, e.g. `{'reference': 'policy'}`.
    period: in optimizer updates, at least 1.
  Raises:
    ValueError: the period is below 1.
  """
  if period < 1:
    raise ValueError(f'period={period} updates; at least 1')
  follow = tracking.periodic(dict(names), period=period)

  def track(slow: Models, params: Models, update: jax.Array) -> Models:
    return follow(parent.track(slow, params, update), params, update)

  return dataclasses.replace(parent, track=track)
