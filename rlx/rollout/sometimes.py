"""Rows of one rollout or of another, by chance: on-policy samples mixed with recorded ones, step by step."""

import jax

from rlx.engine.columns import as_wide
from rlx.errors import between
from rlx.types import Batch, Key, Models, Rollout, StatefulRollout, World, stateful


def sometimes(first: Rollout, second: Rollout, *, chance: float) -> StatefulRollout:
  """The first rollout's rows with a chance, otherwise the second's; both draw, so that neither falls behind.

  Args:
    first: a section of its own.
    second: a section of its own, with as many rows; the shorter ones are padded, and columns that only one
      of the two has are dropped.
    chance: in [0, 1], of the first: λ of GKD.
  Raises:
    ValueError: when it is traced: the two have not as many rows.
  """
  between(0, 1, chance=chance)
  parts = {'first': stateful(first), 'second': stateful(second)}

  def begin(key: Key) -> World:
    keys = dict(zip(parts, jax.random.split(key), strict=True))
    return {name: part.begin(keys[name]) for name, part in parts.items()}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    choice_key, *keys = jax.random.split(key, 3)
    drawn, after = [], {}
    for (name, part), own in zip(parts.items(), keys, strict=True):
      seen = world[name] if part.data is None else {**world[name], 'data': world['data'][name]}
      batch, after[name] = part.draw(models, seen, own)
      drawn.append(batch)
    counts = [len(batch['tokens']) for batch in drawn]
    if counts[0] != counts[1]:
      raise ValueError(f'{counts[0]} rows cannot stand for {counts[1]}; make batch_size the same')
    takes_first = jax.random.bernoulli(choice_key, chance)
    pick = lambda a, b: jax.lax.select(takes_first, *as_wide(a, b))
    return {name: pick(*(batch[name] for batch in drawn)) for name in drawn[0] if name in drawn[1]}, after

  data = {name: part.data for name, part in parts.items()}
  return StatefulRollout(
      begin=begin, draw=draw, data=data if any(x is not None for x in data.values()) else None
  )
