"""Rows for several learners by their names: from a rollout each, or the same rows for all of them."""

import dataclasses
import zlib

import jax

from rlx.types import Batch, Key, Models, Rollout, Rows, StatefulRollout, World, go_on, keep_world, stateful


def each(**rollouts: Rollout) -> StatefulRollout:
  """Rows of a rollout for each learner; each has its own memory, data and noise.

  Args:
    **rollouts: learner -> rollout, a section each.
  """
  inner = {name: stateful(rollout) for name, rollout in rollouts.items()}
  key_of = lambda name, key: jax.random.fold_in(key, zlib.crc32(name.encode()) % 2**31)

  def begin(key: Key) -> World:
    return {name: rollout.begin(key_of(name, key)) for name, rollout in inner.items()}

  def draw(models: Models, world: World, key: Key) -> tuple[Rows, World]:
    rows, after = {}, {}
    for name, rollout in inner.items():
      own = world[name]
      own = own if rollout.data is None else {**own, 'data': world['data'][name]}
      rows[name], after[name] = rollout(models, own, key_of(name, key))
    return rows, after

  def observe(world: World, rows: Rows) -> World:
    return {name: rollout.observe(world[name], rows[name]) for name, rollout in inner.items()}

  def warm_up(models: Models, world: World, key: Key) -> World:
    return {name: rollout.warm_up(models, world[name], key_of(name, key)) for name, rollout in inner.items()}

  def absorb(slow: Models, rows: Rows) -> Models:
    for name, rollout in inner.items():
      slow = rollout.absorb(slow, rows[name])
    return slow

  def anew(world: World, key: Key) -> World:
    return {name: rollout.anew(world[name], key_of(name, key)) for name, rollout in inner.items()}

  data = {name: rollout.data for name, rollout in inner.items()}
  remembers = any(rollout.observe is not keep_world for rollout in inner.values())
  return StatefulRollout(
      begin=begin, draw=draw, data=data if any(x is not None for x in data.values()) else None,
      observe=observe if remembers else keep_world, warm_up=warm_up,
      ahead=all(rollout.ahead for rollout in inner.values()), absorb=absorb,
      anew=anew if any(rollout.begins_anew for rollout in inner.values()) else go_on,
  )


def for_all(rollout: Rollout, *, learners: tuple[str, ...]) -> StatefulRollout:
  """The rows of one rollout, for several learners.

  Args:
    rollout: a section of its own; what it remembers, it remembers of the rows of the first learner.
    learners: their names.
  """
  inner = stateful(rollout)

  def draw(models: Models, world: World, key: Key) -> tuple[Rows, World]:
    batch, world = inner(models, world, key)
    return dict.fromkeys(learners, batch), world

  def observe(world: World, rows: dict[str, Batch]) -> World:
    return inner.observe(world, rows[learners[0]])

  return dataclasses.replace(
      inner, draw=draw, observe=keep_world if inner.observe is keep_world else observe,
      absorb=lambda slow, rows: inner.absorb(slow, rows[learners[0]]),
  )
