"""Rows of a fixed data set: the world is the batch, and nothing is ever tried."""

import jax

from rlx.types import Batch, Key, Models, StatefulRollout, World


def offline(dataset: Batch, *, batch_size: int) -> StatefulRollout:
  """Draws rows uniformly and with replacement.

  Args:
    dataset: arrays with leading [N]; they go into the compiled step as arguments.
    batch_size: rows that are drawn.
  Returns:
    A `rollout` of batches [batch_size] with the columns of the data set.
  Raises:
    ValueError: there is no row, or `batch_size` is not positive.
  """
  num = jax.tree.leaves(dataset)[0].shape[0]
  if num < 1 or batch_size < 1:
    raise ValueError(f'batch_size={batch_size} of a data set of {num} rows: at least 1 each')

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    places = jax.random.randint(key, (batch_size,), 0, num)
    data = world['data']
    return jax.tree.map(lambda x: x[places], data), {k: v for k, v in world.items() if k != 'data'}

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=dataset)
