"""A store of rows on the device, written as a ring: a tree of arrays with a leading [capacity].

It lives in `world`, so it is saved and resumed with the run, and it is updated in place.
"""

import jax
import jax.numpy as jnp

from rlx.types import Batch, Key, World


def empty(like: Batch, capacity: int) -> World:
  """A store with room for `capacity` rows of the shapes and dtypes of `like` (leading [N])."""
  rows = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), like)
  return {'rows': rows, 'size': jnp.int32(0), 'next': jnp.int32(0)}


def write(store: World, batch: Batch) -> World:
  """The store with N more rows, which take the places of the oldest ones when it is full.

  Raises:
    ValueError: N does not divide the capacity; a block of rows is written at once, and never wraps.
  """
  num, capacity = num_rows(batch), num_rows(store['rows'])
  if capacity % num:
    raise ValueError(f'capacity={capacity} is no multiple of the {num} transitions that a step writes')
  put = lambda rows, new: jax.lax.dynamic_update_slice_in_dim(rows, new, store['next'], axis=0)
  return {
      **store,
      'rows': jax.tree.map(put, store['rows'], batch),
      'size': jnp.minimum(store['size'] + num, capacity),
      'next': (store['next'] + num) % capacity,
  }


def sample(store: World, key: Key, num: int) -> Batch:
  """`num` rows, uniformly and with replacement."""
  return rows_at(store, uniform_places(store, key, num))


def rows_at(store: World, places: jax.Array) -> Batch:
  """The rows at some places [B] or [B, n], numbers below the capacity.

  They are read in a loop of two rounds. Without a loop, XLA fuses what was just written into what reads it;
  the reader then needs the store as it was before, and all of it is copied at each step.
  """
  num = places.shape[0]
  halves = jnp.concatenate([places, places[: num % 2]]).reshape(2, -1, *places.shape[1:])
  rows = jax.lax.map(lambda half: jax.tree.map(lambda rows: rows[half], store['rows']), halves)
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:num], rows)


def write_where(store: World, batch: Batch, wanted: jax.Array) -> World:
  """The store with those of N rows that are wanted [N], one behind the other; N is at most the capacity."""
  capacity = num_rows(store['rows'])
  nth = jnp.cumsum(wanted) - 1
  places = jnp.where(wanted, (store['next'] + nth) % capacity, capacity)  # out of range: dropped
  put = lambda rows, new: rows.at[places].set(new, mode='drop')
  num = wanted.sum(dtype=jnp.int32)
  return {
      **store,
      'rows': jax.tree.map(put, store['rows'], batch),
      'size': jnp.minimum(store['size'] + num, capacity),
      'next': (store['next'] + num) % capacity,
  }


def uniform_places(store: World, key: Key, num: int) -> jax.Array:
  """[num] places that have been written, uniformly and with replacement."""
  return jax.random.randint(key, (num,), 0, jnp.maximum(store['size'], 1))


def num_rows(batch: Batch) -> int:
  """The leading size of a tree of arrays."""
  return jax.tree.leaves(batch)[0].shape[0]
