"""Lagging models beside any algorithm: copies brought up to date every so often, a league that is joined."""

from collections.abc import Mapping
import dataclasses

import jax

from rlx import tracking
from rlx.types import Algorithm, Models


def following(parent: Algorithm, *, copies: Mapping[str, str], period: int) -> Algorithm:
  """The algorithm, whose lagging models are copied anew after every `period` updates.

  Args:
    parent: what learns; whatever it tracks itself comes first.
    copies: lagging model -> trained model that it copies, e.g. `{'reference': 'policy'}`.
    period: in optimizer updates, at least 1.
  Raises:
    ValueError: the period is below 1.
  """
  if period < 1:
    raise ValueError(f'period={period} updates; at least 1')
  follow = tracking.periodic(dict(copies), period=period)

  def track(slow: Models, params: Models, update: jax.Array) -> Models:
    return follow(parent.track(slow, params, update), params, update)

  return dataclasses.replace(parent, track=track)


def joining(parent: Algorithm, *, league: str, of: str, period: int) -> Algorithm:
  """The algorithm, whose model joins a league of its past versions after every `period` updates.

  Args:
    parent: what learns; whatever it tracks itself comes first.
    league: lagging model, of `models.league`.
    of: the trained model.
    period: in optimizer updates, at least 1.
  Raises:
    ValueError: the period is below 1.
  """
  if period < 1:
    raise ValueError(f'period={period} updates; at least 1')
  join = tracking.into_league(league, of=of, period=period)

  def track(slow: Models, params: Models, update: jax.Array) -> Models:
    return join(parent.track(slow, params, update), params, update)

  return dataclasses.replace(parent, track=track)
