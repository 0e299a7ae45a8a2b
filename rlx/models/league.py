"""A league: past versions of a model in one stacked tree, with how many there have been.

Parameters are `{'policies': leaves [N, ...], 'count': [] int32}`. It begins with the model as it is, at the
first place; `tracking.into_league` adds versions, the newest in the place of the oldest where it is full.
"""

import jax
import jax.numpy as jnp

from rlx.models.language import LanguageModel
from rlx.models.model import Model
from rlx.types import Key, Models

POLICIES, COUNT = 'policies', 'count'


def league(of: LanguageModel, *, size: int) -> Model:
  """Room for `size` past versions of a model, of which one is there. It belongs into `slow`.

  Args:
    of: the model; `names: {'of': ...}` says which.
    size: N, at least 1: no league is empty.
  Raises:
    ValueError: the league is empty.
  """
  if size < 1:
    raise ValueError(f'size={size}: a league that is empty plays nobody; at least 1')

  def init(key: Key, models: Models):
    del key
    stack = lambda x: jnp.broadcast_to(x[None], (size, *x.shape))
    return {POLICIES: jax.tree.map(stack, models['of']), COUNT: jnp.int32(1)}

  return Model(functions=of, init=init, axes=of.axes)


def size_of(stacked: Models) -> int:
  """N of a league."""
  return jax.tree.leaves(stacked[POLICIES])[0].shape[0]


def member(stacked: Models, place: jax.Array) -> Models:
  """The parameters of one past version, indexed out of the stack: no other is read."""
  pick = lambda x: jax.lax.dynamic_index_in_dim(x, place, keepdims=False)
  return jax.tree.map(pick, stacked[POLICIES])
