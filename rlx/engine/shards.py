"""Rows that are decoded, dealt out among the shards of devices."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from rlx import sharding


def over_groups(
    decode: Callable, params: Any, prompts: jax.Array, prompt_lengths: jax.Array, rows: Any, *,
    group_size: int, axes: sharding.Axes, dtype: Any,
) -> Any:
  """What becomes of rows; each shard of devices decodes its own, behind the prompts that they stand behind.

  A prompt's group stays together where the prompts can be dealt out; else it is cut into equal pieces, and if
  there are none either, rows are filled up.

  Args:
    decode: `(params, prompts [p, Tp], prompt_lengths [p], rows, group_size) -> arrays [p * group_size, ...]`.
    params: of the policy, or of several models.
    prompts: [P, Tp] int32.
    prompt_lengths: [P] int32.
    rows: what each row has for itself, arrays [B, ...].
    group_size: rows a prompt.
    axes: as for `sharding.over_rows`.
    dtype: likewise.
  Returns:
    Arrays [B, ...].
  """
  prompts, prompt_lengths = jnp.asarray(prompts), jnp.asarray(prompt_lengths)  # of the host, in evaluations
  num_rows, num_shards = prompts.shape[0] * group_size, sharding.row_shards()
  if num_shards == 1:
    return decode(params, prompts, prompt_lengths, rows, group_size)
  sizes = [size for size in range(group_size, 0, -1) if group_size % size == 0]
  divides = lambda size: num_rows % (size * num_shards) == 0
  size = next((size for size in sizes if divides(size)), group_size)
  pieces, missing = group_size // size, -(num_rows // size) % num_shards
  prompt = jnp.repeat(jnp.arange(prompts.shape[0]), pieces)
  prompt, row = (jnp.pad(x, (0, more), mode='edge') for x, more in (
      (prompt, missing), (jnp.arange(num_rows), missing * size)))
  given = {
      'prompts': prompts[prompt], 'lengths': prompt_lengths[prompt],
      'rows': jax.tree.map(lambda x: x[row], rows),
  }
  out = sharding.over_rows(
      lambda params, given: decode(params, given['prompts'], given['lengths'], given['rows'], size),
      params, given, axes=axes, dtype=dtype, streamed=False,
  )
  return jax.tree.map(lambda x: x[:num_rows], out)
