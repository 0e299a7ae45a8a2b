"""Choosing rows of a batch, with static shapes."""

import jax
import jax.numpy as jnp

from rlx.types import Batch


def first_rows(batch: Batch, preferred: jax.Array, *, num_rows: int) -> Batch:
  """`num_rows` rows of a batch, the preferred ones first, otherwise in order; groups are numbered anew.

  Groups stay whole where their rows are consecutive, agree on `preferred`, and their size divides `num_rows`.

  Args:
    batch: rows with `groups`.
    preferred: [B] bool.
    num_rows: how many rows to keep, at most B.
  Raises:
    ValueError: there are fewer rows.
  """
  if num_rows > preferred.shape[0]:
    raise ValueError(
        f'{num_rows} rows are to be kept of a batch of {preferred.shape[0]}; over-sample '
        '(raise rollout.batch_size) or lower algorithm.train_rows'
    )
  rows = jnp.argsort(~preferred, stable=True)[:num_rows]
  batch = jax.tree.map(lambda array: array[rows], batch)
  _, numbers = jnp.unique(batch['groups'], return_inverse=True, size=num_rows)
  return {**batch, 'groups': numbers.astype(jnp.int32)}
