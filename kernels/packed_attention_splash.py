"""`packed_attention` by the kernel for TPUs that comes with JAX: scores of long rows never leave the chip."""

import jax
from jax.experimental.pallas.ops.tpu import splash_attention as splash
import jax.numpy as jnp

from rlx.kernels.mesh_blocks import over_rows_and_heads
from rlx.kernels.packed_attention_reference import Sight

_LANES = 128  # columns of a TPU's tile


def attend_packed_splash(
    query: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    sight: Sight,
    *,
    softcap: float,
    interpret: bool = False,
) -> jax.Array:
  """Attention of scaled queries [B, T, K, H] where no sequence shares anything and none has a window.

  Args:
    query, keys, values, softcap: as for `packed_attention`.
    sight: what the queries see, [B, T] each.
    interpret: compute what the kernel would, on any device.
  Source: `jax.experimental.pallas.ops.tpu.splash_attention`.
  """
  length = query.shape[1]
  padding = -length % _LANES
  size = next(size for size in (512, 256, 128) if (length + padding) % size == 0)
  names = ('q', 'kv', 'kv_compute', 'q_dkv', 'kv_dkv', 'kv_dkv_compute', 'q_dq', 'kv_dq')
  sizes = splash.BlockSizes(**{f'block_{name}': size for name in names})

  def attend(query, keys, values, starts):
    causal = splash.CausalMask((length + padding,) * 2)
    kernel = splash.make_splash_mha_single_device(
        splash.MultiHeadMask([causal] * query.shape[2]), block_sizes=sizes,
        attn_logits_soft_cap=softcap or None, interpret=interpret,
    )
    starts = jnp.pad(starts, ((0, 0), (0, padding)), constant_values=length)
    fill = ((0, 0), (0, 0), (0, padding), (0, 0))
    heads = (jnp.pad(jnp.swapaxes(x, 1, 2), fill) for x in (query, keys, values))
    out = jax.vmap(lambda *x, own: kernel(*x, segment_ids=splash.SegmentIds(own, own)))(*heads, own=starts)
    return jnp.swapaxes(out, 1, 2)[:, :length]

  out = over_rows_and_heads(attend, (query, keys, values), sight.own_starts)
  nothing = sight.own_starts > sight.columns  # such a query sees others that see nothing, there
  return jnp.where(nothing[..., None, None], 0, out)
