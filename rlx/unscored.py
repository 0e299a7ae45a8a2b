"""Rows without a reward: nobody knows what they are worth, so they count for nothing.

A reward function says `None` or fails, and the row's reward is NaN: never 0, which would be a verdict.
Whoever takes a statistic of rewards leaves NaN out (`advantages/groups.py` and its neighbours do); the train
step takes the actions of such rows out of the batch before the advantage slot, so that no mean over tokens
has them either. What is learnt is then the same as without the row: `tests/test_unscored.py` holds every
baseline, weight and reduction to it, the conformance tables every algorithm.
"""

import jax
import jax.numpy as jnp

from rlx.types import Batch


def scored_rows(batch: Batch) -> jax.Array:
  """[B] bool: True for the rows that have a reward.

  Args:
    batch: rows with `rewards` [B]; where there is a column `scored`, it has to agree.
  """
  scored = ~jnp.isnan(batch['rewards'])
  return scored & batch['scored'] if 'scored' in batch else scored


def leave_out(batch: Batch) -> Batch:
  """A batch in which rows without a reward count for nothing.

  Args:
    batch: rows; only those with an outcome each (`rewards` [B]) and tokens (`action_mask`) are looked at.
  Returns:
    The same rows, with `scored` [B], False where there is no reward: there `rewards` is NaN, and
    `action_mask` False.
  """
  if 'action_mask' not in batch or 'rewards' not in batch or batch['rewards'].ndim != 1:
    return batch
  scored = scored_rows(batch)
  return {
      **batch, 'scored': scored, 'rewards': jnp.where(scored, batch['rewards'], jnp.nan),
      'action_mask': batch['action_mask'] & scored[:, None],
  }
