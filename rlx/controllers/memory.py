"""What an algorithm remembers from step to step: running baselines, targets that are followed, statistics.

A memory is three pure functions: `begin` makes it, `annotate` writes what is read off it into the batch as
columns, before anything is scored, and `observe` takes in what became of the batch. It lives in `world` under
a name, beside the memory of the rollout that it is wrapped around, so it is saved, resumed and mapped over
with the rest of the state.
"""

from collections.abc import Callable
import dataclasses

from rlx.types import Batch, Key, Models, Rollout, StatefulRollout, World, stateful


def with_memory(
    rollout: Rollout,
    name: str,
    *,
    begin: Callable[[Key], World],
    annotate: Callable[[World, Batch], Batch],
    observe: Callable[[World, Batch], World],
) -> StatefulRollout:
  """A rollout that carries one more memory.

  Args:
    rollout: any, with a memory of its own or none.
    name: of the memory in `world`; nobody else's.
    begin: `key -> memory`.
    annotate: `(memory, batch) -> batch`, adds columns.
    observe: `(memory, batch) -> memory`, with the batch as the advantage slot left it.
  Raises:
    ValueError: the rollout has a memory of this name (when the run begins).
  """
  inner = stateful(rollout)

  def begin_all(key: Key) -> World:
    world = inner.begin(key)
    if name in world:
      raise ValueError(f'there is a memory {name!r} already, of {sorted(world)}; give this one another name')
    return {**world, name: begin(key)}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    memory = world[name]
    batch, world = inner(models, _without(world, name), key)
    return annotate(memory, batch), {**world, name: memory}

  def observe_all(world: World, batch: Batch) -> World:
    return {**inner.observe(_without(world, name), batch), name: observe(world[name], batch)}

  def warm_up(models: Models, world: World, key: Key) -> World:
    return {**inner.warm_up(models, _without(world, name), key), name: world[name]}

  return dataclasses.replace(
      inner, begin=begin_all, draw=draw, observe=observe_all, warm_up=warm_up, anew=anew_beside(inner, name)
  )


def anew_beside(inner: StatefulRollout, name: str) -> Callable[[World, Key], World]:
  """`anew` of a rollout whose world has one memory more than that of `inner`, which stays as it is."""
  if not inner.begins_anew:
    return inner.anew
  return lambda world, key: {**inner.anew(_without(world, name), key), name: world[name]}


def _without(world: World, name: str) -> World:
  return {key: value for key, value in world.items() if key != name}
