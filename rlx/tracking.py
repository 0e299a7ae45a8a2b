"""Functions for the `track` slot: how lagging models follow the trained ones."""

import jax
import jax.numpy as jnp
import optax

from rlx.errors import between
from rlx.types import Models, Track


def polyak(names: dict[str, str], *, rate: float) -> Track:
  """Exponential moving averages: slow ← (1 - rate) slow + rate params.

  Args:
    names: lagging model -> trained model that it follows, e.g. `{'target': 'critic'}`.
    rate: in [0, 1]; 1 copies.
  Returns:
    A `track` function.
  """
  between(0, 1, rate=rate)

  def track(slow: Models, params: Models, update: jax.Array) -> Models:
    del update
    followed = {
        name: optax.incremental_update(params[source], slow[name], rate)
        for name, source in names.items()
    }
    return {**slow, **followed}

  return track


def periodic(names: dict[str, str], *, period: int, rate: float = 1.0) -> Track:
  """Copies: slow ← params after every `period` optimizer updates, unchanged between them.

  Args:
    names: lagging model -> trained model that it copies, e.g. `{'reference': 'policy'}`.
    period: in optimizer updates, at least 1.
    rate: of what is copied, as in `polyak`; 1 copies all.
  Returns:
    A `track` function.
  """

  def track(slow: Models, params: Models, update: jax.Array) -> Models:
    due = (update + 1) % period == 0
    copied = {
        name: jax.tree.map(
            lambda new, old: jnp.where(due, new if rate == 1 else old + rate * (new - old), old),
            params[source], slow[name],
        )
        for name, source in names.items()
    }
    return {**slow, **copied}

  return track


def extrapolated(name: str, *, of: str, last: str, momentum: float, period: int) -> Track:
  """slow ← params + α (params - last) after every `period` optimizer updates, and last ← params.

  With α = 0 this is `periodic`, to the bit.

  Args:
    name: lagging model that is set ahead.
    of: trained model.
    last: lagging model, what the trained one was a period ago.
    momentum: α.
    period: in optimizer updates, at least 1.
  """

  def track(slow: Models, params: Models, update: jax.Array) -> Models:
    due = (update + 1) % period == 0
    ahead = jax.tree.map(lambda new, old: new + momentum * (new - old), params[of], slow[last])
    pick = lambda new, old: jax.tree.map(lambda a, b: jnp.where(due, a, b), new, old)
    return {**slow, name: pick(ahead, slow[name]), last: pick(params[of], slow[last])}

  return track


def into_league(name: str, *, of: str, period: int) -> Track:
  """A league (`models/league.py`) that a trained model joins after every `period` optimizer updates.

  Where it is full the newest version takes the place of the oldest.

  Args:
    name: of the league among the lagging models.
    of: trained model.
    period: in optimizer updates, at least 1.
  """

  def track(slow: Models, params: Models, update: jax.Array) -> Models:
    joins, stacked = (update + 1) % period == 0, slow[name]
    size = jax.tree.leaves(stacked['policies'])[0].shape[0]
    place = stacked['count'] % size
    put = lambda stack, x: stack.at[jnp.where(joins, place, size)].set(x, mode='drop')
    joined = {
        'policies': jax.tree.map(put, stacked['policies'], params[of]), 'count': stacked['count'] + joins
    }
    return {**slow, name: joined}

  return track
