"""Which turn each token is of."""

import dataclasses

import jax.numpy as jnp

from rlx.types import Batch, Key, Models, Rollout, StatefulRollout, World, stateful


def tokens_as_turns(rollout: Rollout, *, num_turns: int) -> StatefulRollout:
  """The rows of a rollout, in which every action is a turn of its own, and the last turn has what is left.

  Args:
    rollout: a section of its own.
    num_turns: K.
  """
  inner = stateful(rollout)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, world = inner(models, world, key)
    nth = jnp.cumsum(batch['action_mask'], axis=1, dtype=jnp.int32) - 1
    return {**batch, 'turns': jnp.minimum(nth, num_turns - 1)}, world

  return dataclasses.replace(inner, draw=draw)
