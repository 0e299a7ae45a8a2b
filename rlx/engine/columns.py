"""Moving rows sideways: completions start at another column in every row."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def window(array: jax.Array, starts: jax.Array, num_columns: int) -> jax.Array:
  """Columns `starts[b]` to `starts[b] + num_columns` of each row; zeros where the row has no such column.

  Its transpose is `window` with `-starts`, which is also how columns are put back. So the gradient is a
  gather too, where that of indexing would be a scatter, which a CPU does entry by entry.

  Args:
    array: [B, T, ...].
    starts: [B] int32, may be negative.
    num_columns: N.
  Returns:
    [B, N, ...].
  """
  length = array.shape[1]
  index = starts[:, None] + jnp.arange(num_columns)[None]
  extend = lambda x: x.reshape(x.shape + (1,) * (array.ndim - 2))
  taken = jnp.take_along_axis(array, extend(jnp.clip(index, 0, length - 1)), axis=1)
  return jnp.where(extend((index >= 0) & (index < length)), taken, jnp.zeros((), array.dtype))


def _forward(array, starts, num_columns):
  return window(array, starts, num_columns), (starts, array.shape[1])


def _backward(num_columns, residuals, cotangent):
  del num_columns
  starts, length = residuals
  return window(cotangent, -starts, length), None


window.defvjp(_forward, _backward)


def as_wide(*arrays: jax.Array) -> list[jax.Array]:
  """Arrays [B, ..], padded behind their columns to the widest."""
  if arrays[0].ndim < 2:
    return list(arrays)
  width = max(x.shape[1] for x in arrays)
  return [jnp.pad(x, ((0, 0), (0, width - x.shape[1]), *[(0, 0)] * (x.ndim - 2))) for x in arrays]
