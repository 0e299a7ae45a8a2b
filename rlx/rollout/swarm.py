"""Members of a population learn from each other's rows.

Every member samples groups of its own and takes some from the others, whole groups with their rewards to
come. Rows are exchanged inside the program, over the axis of the population; no weights are.

Source: SAPO, Amico et al., 2025, https://arxiv.org/abs/2509.08721: a swarm of nodes that share decoded
rollouts; which external samples a node takes is its own affair, here uniform among the others.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.types import Batch, Key, Models, Rollout, StatefulRollout, World, keep_world, stateful

AXIS = 'population'


def swarm(rollout: Rollout, *, taken_groups: int, group_size: int) -> StatefulRollout:
  """Rows of which some groups are of other members of the population.

  Args:
    rollout: a section of its own; it samples all rows, of which the last groups make room.
    taken_groups: how many groups are taken from others; 0 exchanges nothing.
    group_size: rows of a group, which stand together.
  Returns:
    A `rollout`. `swarm/taken` [B] is 1 for the rows of others.
  Raises:
    ValueError: when it is traced, there are fewer groups than are taken.
  """
  inner = stateful(rollout)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    draw_key, choice_key = jax.random.split(key)
    batch, world = inner(models, world, draw_key)
    num = batch['groups'].shape[0] // group_size
    if taken_groups > num:
      raise ValueError(f'taken_groups={taken_groups} of the {num} groups of a batch')
    if not taken_groups:
      return {**batch, 'swarm/taken': jnp.zeros(batch['groups'].shape)}, world
    everyone = jax.lax.all_gather(batch, AXIS)
    members, me = jax.lax.axis_size(AXIS), jax.lax.axis_index(AXIS)
    whom_key, which_key = jax.random.split(jax.random.fold_in(choice_key, me))
    others = (me + jax.random.randint(whom_key, (taken_groups,), 1, members)) % members
    which = jax.random.randint(which_key, (taken_groups,), 0, num)
    rows = (which[:, None] * group_size + jnp.arange(group_size)[None]).reshape(-1)
    pick = lambda x: x[jnp.repeat(others, group_size), rows]
    kept = (num - taken_groups) * group_size
    joined = {name: jnp.concatenate([x[:kept], pick(everyone[name])]) for name, x in batch.items()}
    groups = jnp.arange(num * group_size, dtype=jnp.int32) // group_size
    taken = (groups >= num - taken_groups).astype(jnp.float32)
    return {**joined, 'groups': groups, 'swarm/taken': taken}, world

  return dataclasses.replace(inner, draw=draw, observe=keep_world)
