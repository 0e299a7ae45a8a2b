"""Batches of two sources: a fixed data set, and the store of what is tried online.

`with_dataset` puts a data set beside any rollout of transitions; every batch says in `offline` [B] which rows
are of the data set. The other functions are its faces for a config, where the data set and the online
rollout are sections of their own: `mixed` draws from both in each batch, `alternating` from one of them at a
time, and in `simulated` the environment that is tried is not the one that the data set is of.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.data.transitions import COLUMNS
from rlx.envs.control.environment import Environment
from rlx.models.networks import Policy
from rlx.types import Batch, Key, Models, StatefulRollout, World

Online = Callable[[Environment, Policy], StatefulRollout]
Choose = Callable[[Key, int, float], jax.Array]  # (key, rows B, share) -> [B] bool, True for the data set


def share_of_rows(key: Key, num_rows: int, share: float) -> jax.Array:
  """The first rows of each batch are of the data set, as many as the share says."""
  del key
  return jnp.arange(num_rows) < round(share * num_rows)


def share_of_batches(key: Key, num_rows: int, share: float) -> jax.Array:
  """A batch is of the data set or is not, by chance."""
  return jnp.broadcast_to(jax.random.bernoulli(key, share), num_rows)


def with_dataset(
    online: StatefulRollout, data: Batch, *, share: float, choose: Choose = share_of_rows
) -> StatefulRollout:
  """Replaces a share of the rows by rows of a data set, drawn uniformly with replacement.

  Args:
    online: yields transitions; it has no data of its own.
    data: arrays with leading [N], of which the columns of a transition are taken
      (`datasets.COLUMNS`). Other columns of the online batch, such as what is reported of episodes, stay as
      they are.
    share: in [0, 1], of what is of the data set.
    choose: which rows are: a share of each batch, or of the batches.
  Returns:
    A `rollout` whose batches have also `offline` [B] bool.
  Raises:
    ValueError: `share` is not in [0, 1], `online` has data, or the data set lacks a column.
  """
  if not 0 <= share <= 1:
    raise ValueError(f'share={share} of a batch that is of the data set: it is in [0, 1]')
  if online.data is not None:
    raise ValueError('the online rollout has a data set already; give one that has none')
  if missing := [name for name in COLUMNS if name not in data]:
    raise ValueError(f'the data set has no {missing}; it has {sorted(data)}')
  num = data['rewards'].shape[0]

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    online_key, places_key, source_key = jax.random.split(key, 3)
    kept = world['data']
    batch, world = online(models, {k: v for k, v in world.items() if k != 'data'}, online_key)
    num_rows = batch['rewards'].shape[0]
    offline = choose(source_key, num_rows, share)
    places = jax.random.randint(places_key, (num_rows,), 0, num)
    pick = lambda old, new: jnp.where(offline.reshape(-1, *[1] * (old.ndim - 1)), old[places], new)
    rows = {name: pick(old, batch[name]) for name, old in kept.items()}
    return {**batch, **rows, 'offline': offline}, world

  return dataclasses.replace(online, draw=draw, data={name: data[name] for name in COLUMNS})


def mixed(
    env: Environment, policy: Policy, data: Batch, *, online: Online, share: float
) -> StatefulRollout:
  """`share` of the rows of each batch are of a data set.

  Args:
    env: one environment.
    policy: how actions are drawn.
    data: transitions.
    online: `(env, policy) -> rollout` of transitions.
    share: in [0, 1].
  """
  return with_dataset(online(env, policy), data, share=share)


def alternating(
    env: Environment, policy: Policy, data: Batch, *, online: Online, share: float
) -> StatefulRollout:
  """`share` of the batches are of a data set, the others of what is tried; arguments as those of `mixed`."""
  return with_dataset(online(env, policy), data, share=share, choose=share_of_batches)


def simulated(
    policy: Policy, data: Batch, *, simulator: Callable[[], Environment], online: Online, share: float
) -> StatefulRollout:
  """`mixed`, where what is tried is tried in a simulator of the world that the data set is of.

  Args:
    policy: how actions are drawn.
    data: transitions of the real environment, where nothing is tried.
    simulator: makes the environment that stands for it, with its observations and actions.
    online: `(env, policy) -> rollout` of transitions; it gets the simulator.
    share: in [0, 1].
  """
  return with_dataset(online(simulator(), policy), data, share=share)
