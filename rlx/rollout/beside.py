"""Rows of one rollout behind those of another, in one batch: what is known is shown beside what is learnt."""

import jax
import jax.numpy as jnp

from rlx.engine.columns import as_wide
from rlx.types import Batch, Key, Models, Rollout, StatefulRollout, World, stateful


def beside(first: Rollout, second: Rollout) -> StatefulRollout:
  """The rows of both; those of the second are `offline`.

  Args:
    first: a section of its own, of samples, whose outcomes teach; what it remembers of outcomes, it does not
      learn here.
    second: a section of its own, of rows that are shown, such as `solutions` of another task. Columns of the
      first that it lacks are 0 there, and columns that only it has are dropped.
  Returns:
    A `rollout` function. Its batches have `offline` [B] bool and `tasks` [B] int32: 0 for the rows of the
    first, and for those of the second 1, or 1 + k where its own column says k. Groups have numbers of their
    own.
  """
  parts = {'first': stateful(first), 'second': stateful(second)}
  data = {name: part.data for name, part in parts.items()}

  def begin(key: Key) -> World:
    keys = jax.random.split(key)
    return {name: part.begin(key) for (name, part), key in zip(parts.items(), keys, strict=True)}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    rows, after = [], {}
    for (name, part), own in zip(parts.items(), jax.random.split(key), strict=True):
      seen = world[name] if part.data is None else {**world[name], 'data': world['data'][name]}
      batch, after[name] = part.draw(models, seen, own)
      rows.append(batch)
    return _joined(*rows), after

  return StatefulRollout(
      begin=begin, draw=draw, data=data if any(x is not None for x in data.values()) else None
  )


def _joined(first: Batch, second: Batch) -> Batch:
  """Both as one batch, with `offline` and `tasks`; see `beside`."""
  num, more = first['tokens'].shape[0], second['tokens'].shape[0]
  second = {**second, 'groups': second['groups'] + num}

  def column(name: str, x: jax.Array) -> jax.Array:
    if name in second:
      return jnp.concatenate(as_wide(x, second[name]))
    if '/' in name:  # a measurement of samples, which does not apply to the others
      return jnp.concatenate([x.astype(jnp.float32), jnp.full((more, *x.shape[1:]), jnp.nan)])
    return jnp.concatenate([x, jnp.zeros((more, *x.shape[1:]), x.dtype)])

  of_second = second['tasks'] if 'tasks' in second else jnp.zeros(more, jnp.int32)
  return {
      **{name: column(name, x) for name, x in first.items()},
      'offline': jnp.arange(num + more) >= num,
      'tasks': jnp.concatenate([jnp.zeros(num, jnp.int32), 1 + of_second]),
  }
