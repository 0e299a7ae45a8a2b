"""Lagging models beside any algorithm: copies that follow (as the reference of TR-DPO), a league to join."""

from collections.abc import Mapping
import dataclasses

import jax

from rlx import tracking
from rlx.errors import above, between
from rlx.types import Algorithm, Models


def following(
    parent: Algorithm, *, copies: Mapping[str, str], period: int, rate: float = 1.0
) -> Algorithm:
  """The algorithm, whose lagging models are copied anew after every `period` updates, or are drawn nearer.

      ref ← (1 - α) ref + α π

  Around `dpo` (or `kto`, or `dpo` with another loss) with `{'reference': 'policy'}` it is TR-DPO: a rate of 1
  is its hard update, a smaller one its soft one; TRL's `sync_ref_model` is the same, with `rate` its
  `ref_model_mixup_alpha` and `period` its `ref_model_sync_steps`. Behind a hard update DPO's loss is log 2.

  Args:
    parent: what learns; whatever it tracks itself comes first.
    copies: lagging model -> trained model that it copies, e.g. `{'reference': 'policy'}`.
    period: in optimizer updates, at least 1.
    rate: α in (0, 1].
  Raises:
    ValueError: the period is below 1, or the rate is out of its range.
  Source: TR-DPO, Gorbatovski et al., 2024, https://arxiv.org/abs/2404.09656.
  """
  if period < 1:
    raise ValueError(f'period={period} updates; at least 1')
  above(0, rate=rate)
  between(0, 1, rate=rate)
  follow = tracking.periodic(dict(copies), period=period, rate=rate)

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
