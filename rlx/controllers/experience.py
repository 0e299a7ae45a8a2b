"""Lessons that are kept and edited, while no parameter changes: what is learnt is what stands in the prompt.

A lesson is a pair of a key (a situation) and a value (what to do in it), each by its number. Episodes of a
problem are compared with each other, and a pair is worth what the episodes that have it were better than
their group. Then a lesson is *added* where a pair pays and its key has none, *changed* where another value
pays more, and *deleted* where it does harm.

Source: Training-Free GRPO, https://arxiv.org/abs/2510.08191. There a language model compares the episodes and
writes lessons in words; here they are counted.
"""

import jax
import jax.numpy as jnp

from rlx.types import World

EDITS = ('added', 'changed', 'deleted')


def init_lessons(*, num_lessons: int) -> World:
  """K empty places for lessons, and the numbers of edits so far."""
  none = jnp.full(num_lessons, -1, jnp.int32)
  return {'keys': none, 'values': none, 'edits': jnp.zeros(len(EDITS), jnp.int32)}


def pair_values(
    advantages: jax.Array, keys: jax.Array, values: jax.Array, *, sizes: tuple[int, int]
) -> tuple[jax.Array, jax.Array]:
  """What pairs were worth, the mean advantage of the episodes that have them, and in how many they were.

  Args:
    advantages: [B] of episodes.
    keys: [B, T] int32 of pairs, -1 where there is none.
    values: [B, T] int32.
    sizes: numbers of keys and of values.
  Returns:
    [keys, values] float32, 0 where a pair was not seen, and [keys, values] int32.
  """
  rows, (num_keys, num_values) = jnp.arange(keys.shape[0])[:, None], sizes
  there = jnp.zeros((keys.shape[0], num_keys + 1, num_values), bool)
  there = there.at[rows, jnp.where(keys >= 0, keys, num_keys), jnp.maximum(values, 0)].set(True)[:, :-1]
  counts = there.sum(axis=0)
  total = jnp.where(there, advantages[:, None, None], 0).sum(axis=0)
  return (total / jnp.maximum(counts, 1)).astype(jnp.float32), counts


def edit_lessons(
    memory: World, worth: jax.Array, counts: jax.Array, *, margin: float, least: int
) -> World:
  """The lessons after they were added to, changed and deleted from.

  Args:
    memory: of `init_lessons`.
    worth: [keys, values] of pairs.
    counts: [keys, values] in how many episodes they were.
    margin: what a pair has to be worth to become a lesson, and less than nothing to be deleted.
    least: episodes that a pair has to be in before anything is said of it.
  """
  keys, values = memory['keys'], memory['values']
  known = counts >= least
  best = jnp.argmax(jnp.where(known, worth, -jnp.inf), axis=1)
  pays = jnp.max(jnp.where(known, worth, -jnp.inf), axis=1)
  there, at = keys >= 0, jnp.maximum(keys, 0)
  mine = jnp.where(known, worth, 0)[at, values]
  changed = there & (pays[at] > jnp.maximum(mine, margin)) & (best[at] != values)
  deleted = there & ~changed & (mine < -margin)
  values = jnp.where(changed, best[at], values)
  keys = jnp.where(deleted, -1, keys)

  num_keys = worth.shape[0]
  without = jnp.ones(num_keys, bool).at[jnp.where(there, keys, num_keys)].set(False, mode='drop')
  without = without.at[jnp.where(deleted, at, num_keys)].set(False, mode='drop')  # not at once again
  new = without & (pays > margin)
  order = jnp.argsort(jnp.where(new, -pays, jnp.inf))  # of keys, those that pay most first
  free = jnp.argsort(keys >= 0, stable=True)  # of places, the empty ones first
  num = min(num_keys, keys.shape[0])
  key, place = order[:num], free[:num]
  added = new[key] & (keys[place] < 0)
  place = jnp.where(added, place, keys.shape[0])
  keys = keys.at[place].set(key, mode='drop').astype(jnp.int32)
  values = values.at[place].set(best[key], mode='drop').astype(jnp.int32)
  edits = jnp.stack([x.sum() for x in (added, changed, deleted)])
  return {
      'keys': keys, 'values': jnp.where(keys >= 0, values, -1), 'edits': memory['edits'] + edits
  }
