"""What `packed_attention` computes, said plainly: a mask over all pairs of columns, gradients by autodiff."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.kernels.decode_attention_reference import grouped_heads, softcapped

_MASKED = -1e30  # finite, so that a row with nothing to attend to is not NaN


class Sight(NamedTuple):
  """What each query may see; int32 [..., T]."""

  columns: jax.Array  # where it stands in its row
  positions: jax.Array  # where it stands in its sequence
  starts: jax.Array  # the first column of what its sequence shares with others
  shared_ends: jax.Array | None  # the column behind that; None where no sequence shares anything
  own_starts: jax.Array  # the first column of its own

  def sees(self, columns: jax.Array, positions: jax.Array, window: int | jax.Array) -> jax.Array:
    """[..., Tq, Tk] bool, of keys at `columns` and `positions` [..., Tk]."""
    own = jax.tree.map(lambda x: x[..., :, None], self)
    columns, distance = columns[..., None, :], own.positions - positions[..., None, :]
    sequence = columns >= own.own_starts
    if own.shared_ends is not None:
      sequence |= (columns >= own.starts) & (columns < own.shared_ends)
    near = (distance >= 0) & (distance < window)
    return (columns <= own.columns) & sequence & near


def attend_packed_reference(
    query: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    sight: Sight,
    window: int | jax.Array,
    *,
    softcap: float,
) -> jax.Array:
  """Attention of scaled queries [B, T, K, H]; see `packed_attention`. Needs room for [B, K, T, T] float32."""
  mask = sight.sees(sight.columns, sight.positions, window)
  grouped = grouped_heads(query, keys.shape[2])
  scores = jnp.einsum('btkjh,bskh->bkjts', grouped, keys, preferred_element_type=jnp.float32)
  mask = jnp.broadcast_to(mask[:, None, None], scores.shape)
  scores = jnp.where(mask, softcapped(scores, softcap), _MASKED)
  weights = jnp.where(mask, jax.nn.softmax(scores, axis=-1), 0).astype(query.dtype)
  return jnp.einsum('bkjts,bskh->btkjh', weights, values).reshape(query.shape)
