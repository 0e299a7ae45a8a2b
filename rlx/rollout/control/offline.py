"""Rows of a fixed data set, or stretches of its episodes: the world is the batch, and nothing is tried."""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.data import transitions as datasets
from rlx.envs.control.environment import Environment
from rlx.models import dynamics
from rlx.models.networks import Network
from rlx.rollout.control.hindsight import steps_left
from rlx.types import Batch, Key, Models, StatefulRollout, World


def offline(data: Batch, *, batch_size: int) -> StatefulRollout:
  """Draws rows uniformly and with replacement.

  Args:
    data: arrays with leading [N]; they go into the compiled step as arguments.
    batch_size: rows that are drawn.
  Returns:
    A `rollout` of batches [batch_size] with the columns of the data set.
  Raises:
    ValueError: there is no row, or `batch_size` is not positive.
  """
  num = jax.tree.leaves(data)[0].shape[0]
  if num < 1 or batch_size < 1:
    raise ValueError(f'batch_size={batch_size} of a data set of {num} rows: at least 1 each')

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    places = jax.random.randint(key, (batch_size,), 0, num)
    rows = world['data']
    return jax.tree.map(lambda x: x[places], rows), {k: v for k, v in world.items() if k != 'data'}

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=data)


def offline_stretches(data: Batch, *, length: int, batch_size: int) -> StatefulRollout:
  """Stretches of episodes from anywhere on, as many steps as there are and at most `length`.

  Args:
    data: with `returns_to_go` [N], undiscounted, the steps of an episode one behind the other.
    length: K.
    batch_size: B.
  Returns:
    A `rollout` of batches with `observations, actions`, `wanted` (the returns to go), `steps` (of the episode
    before each) and `valid`, all [B, K, ...]; what is not valid is at the end of a row.
  Raises:
    ValueError: a number is not positive.
  """
  num = data['rewards'].shape[0]
  if min(length, batch_size, num) < 1:
    raise ValueError(f'length={length}, batch_size={batch_size} of {num} rows: at least 1 each')
  places = jnp.arange(num)
  starts = jax.lax.cummax(jnp.where(datasets.episode_starts(data), places, 0))
  columns = {
      'observations': data['observations'], 'actions': data['actions'], 'wanted': data['returns_to_go'],
      'steps': places - starts,
  }
  kept = {'columns': columns, 'left': steps_left(datasets.episode_ends(data))}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    rows, ahead = world['data'], jnp.arange(length)[None]
    first = jax.random.randint(key, (batch_size,), 0, num)
    along = jnp.minimum(first[:, None] + ahead, num - 1)
    batch = jax.tree.map(lambda x: x[along], rows['columns'])
    batch['valid'] = ahead < rows['left'][first][:, None]
    return batch, {name: x for name, x in world.items() if name != 'data'}

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=kept)


def proxy_actions(data: Batch, env: Environment, inverse: Network, *, batch_size: int) -> StatefulRollout:
  """`offline`, with the actions of `models['inverse']` for rows that have none of their own.

  Args:
    data: with `labelled` [N] bool; what stands for missing actions is never looked at.
    env: says which kind of actions.
    inverse: the action between two observations.
    batch_size: rows that are drawn.
  """
  source = offline(data, batch_size=batch_size)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, world = source.draw(models, world, key)
    guessed = dynamics.inferred_actions(env, inverse, models['inverse'], batch)
    actions = batch['actions']
    labelled = batch['labelled'].reshape(-1, *(1,) * (actions.ndim - 1))
    return {**batch, 'actions': jnp.where(labelled, actions, guessed)}, world

  return dataclasses.replace(source, draw=draw)
