"""Log-probs that a model has given the rows of a data set, looked up: what `run/stored.py` makes."""

import dataclasses

import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.types import Batch

AXES = {'logprobs': ('rows', None), 'tokens': ('rows', None), 'begins': ('rows',)}


@dataclasses.dataclass(frozen=True)
class StoredScores:
  """What a model says of the rows of a data set; its parameters are `{'logprobs', 'tokens', 'begins'}`.

  Attributes:
    num_rows: N, training rows.
    num_answers: of a training row, and of a held-out one.
  """

  num_rows: int
  num_answers: tuple[int, int]

  def score(self, params: dict, batch: Batch) -> tuple[jax.Array, None]:
    """[B, T] log-probs of actions, 0 elsewhere; entropies are not stored.

    An action that is not the token which stands there in the data set is NaN.

    Args:
      params: `logprobs` [M, A], `tokens` [M, A] and `begins` [M], the column of the first of them.
      batch: rows of the data set, with `rows` [B], and `preferred` where they are pairs.
    Raises:
      ValueError: rows do not say which ones of the data set they are.
    """
    if 'rows' not in batch:
      raise ValueError('rows that are not of the data set have no stored log-probs; take a live reference')
    rows, (train, held_out) = batch['rows'], self.num_answers
    later = rows >= self.num_rows
    place = jnp.where(later, self.num_rows * train + (rows - self.num_rows) * held_out, rows * train)
    if 'preferred' in batch:
      place += (jnp.where(later, held_out, train) == 2) & ~batch['preferred']  # the second of two
    stored = sharding.looked_up(params, place)
    columns = jnp.arange(batch['tokens'].shape[1])[None] - stored['begins'][:, None]
    known = (columns >= 0) & (columns < stored['tokens'].shape[1])
    at = lambda x: jnp.take_along_axis(x, jnp.where(known, columns, 0), axis=1)
    same = known & (at(stored['tokens']) == batch['tokens'])
    return jnp.where(batch['action_mask'], jnp.where(same, at(stored['logprobs']), jnp.nan), 0), None
