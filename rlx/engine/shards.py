"""Rows that are decoded, dealt out among the shards of devices."""

import jax
import jax.numpy as jnp

from rlx import sharding


def dealt_out(decode, params, model, prompts, prompt_lengths, rows, *, group_size):
  """`decode(params, prompts=.., prompt_lengths=.., group_size=.., **rows)`, each shard with its own rows.

  Args:
    decode: returns arrays [rows, ...].
    params: of the policy.
    model: its functions.
    prompts: [P, Tp].
    prompt_lengths: [P].
    rows: trees of arrays [P * group_size, ...] by name, `budgets` among them.
    group_size: rows a prompt; a shard may get pieces of a group.
  """
  num_rows, num_shards = rows['budgets'].shape[0], sharding.row_shards()
  if num_shards == 1:
    return decode(params, prompts=prompts, prompt_lengths=prompt_lengths, group_size=group_size, **rows)
  sizes = [size for size in range(group_size, 0, -1) if group_size % size == 0]
  divides = lambda size: num_rows % (size * num_shards) == 0
  size = next((size for size in sizes if divides(size)), group_size)
  pieces, missing = group_size // size, -(num_rows // size) % num_shards
  prompt = jnp.repeat(jnp.arange(prompts.shape[0]), pieces)
  prompt, row = (jnp.pad(x, (0, more), mode='edge') for x, more in (
      (prompt, missing), (jnp.arange(num_rows), missing * size)))
  dealt = jax.tree.map(lambda x: x[row], rows)
  dealt['budgets'] = jnp.where(jnp.arange(row.size) < num_rows, dealt['budgets'], 1)
  dealt |= {'prompts': prompts[prompt], 'prompt_lengths': prompt_lengths[prompt]}
  out = sharding.over_rows(
      lambda params, rows: decode(params, group_size=size, **rows), params, dealt, axes=model.axes,
      dtype=model.dtype, streamed=False,
  )
  return jax.tree.map(lambda x: x[:num_rows], out)
