"""Rows that are gathered before the first step, and rows that a memory keeps for later stages."""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.controllers.memory import anew_beside
from rlx.rollout import store as stores
from rlx.types import Annotate, Batch, Key, Models, Rollout, StatefulRollout, World, stateful


def gathered(rollout: Rollout, reward: Annotate, *, steps: int) -> StatefulRollout:
  """A rollout that has drawn and observed some batches before the first train step.

  Args:
    rollout: a section of its own, with a memory.
    reward: that of the run; it has to compile.
    steps: batches, at least 1.
  Raises:
    ValueError: there are none.
  """
  if steps < 1:
    raise ValueError(f'steps={steps} batches before the first; at least 1')
  inner = stateful(rollout)

  def warm_up(models: Models, world: World, key: Key) -> World:
    first_key, *keys = jax.random.split(key, steps + 1)
    given = {} if inner.data is None else {'data': inner.data}

    def one(world: World, key: Key):
      draw_key, reward_key = jax.random.split(key)
      batch, world = inner(models, {**world, **given}, draw_key)
      return inner.observe(world, reward(models, batch, reward_key)), None

    return jax.lax.scan(one, inner.warm_up(models, world, first_key), jnp.stack(keys))[0]

  return dataclasses.replace(inner, warm_up=warm_up)


def remembered(rollout: Rollout, *, memory: str, capacity: int, min_reward: float) -> StatefulRollout:
  """A rollout whose good rows are kept, the newest ones of them, with their rewards.

  A later stage takes the memory (`takes`) and draws from it with `from_memory`.

  Args:
    rollout: a section of its own.
    memory: its name in the world.
    capacity: rows that are kept, at least as many as a batch has.
    min_reward: rows whose `rewards` [B] are lower are not kept.
  Raises:
    ValueError: when the run begins, the memory is smaller than a batch.
  """
  inner = stateful(rollout)
  own = lambda world: {name: x for name, x in world.items() if name != memory}

  def warm_up(models: Models, world: World, key: Key) -> World:
    world = inner.warm_up(models, world, key)
    given = world if inner.data is None else {**world, 'data': inner.data}
    rows = _columns(jax.eval_shape(inner.draw, models, given, key)[0])
    num = len(next(iter(rows.values())))
    if capacity < num:
      raise ValueError(f'capacity={capacity} of memory {memory!r} is less than the {num} rows of a batch')
    return {**world, memory: stores.empty(rows, capacity)}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, after = inner(models, own(world), key)
    return batch, {**after, memory: world[memory]}

  def observe(world: World, batch: Batch) -> World:
    store = world[memory]
    rows = {name: batch[name] for name in store['rows']}
    kept = stores.write_where(store, rows, batch['rewards'] >= min_reward)
    return {**inner.observe(own(world), batch), memory: kept}

  return dataclasses.replace(
      inner, draw=draw, observe=observe, warm_up=warm_up, anew=anew_beside(inner, memory)
  )


def from_memory(*, memory: str, batch_size: int) -> StatefulRollout:
  """Rows of a memory that the stage before has kept, drawn uniformly and with replacement.

  While it is empty, rows have no action and count for nothing.

  Args:
    memory: its name; the stage has it in `takes`.
    batch_size: rows B.
  """

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    if memory not in world:
      raise ValueError(f'there is no memory {memory!r}; name it in takes, and keep it in the stage before')
    store = world[memory]
    batch = stores.sample(store, key, batch_size)
    full = store['size'] > 0
    mask = {'action_mask': batch['action_mask'] & full} if 'action_mask' in batch else {}
    return {**batch, **mask}, world

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=None)


def _columns(batch: Batch) -> Batch:
  """What is kept of a row: what was drawn, and its reward; no measurements."""
  drawn = {name: x for name, x in batch.items() if '/' not in name}
  num = next(iter(drawn.values())).shape[0]
  return {**drawn, 'rewards': jax.ShapeDtypeStruct((num,), jnp.float32)}
