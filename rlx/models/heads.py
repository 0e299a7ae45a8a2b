"""Heads that read a decoder's hidden states as something else than tokens."""

import jax
import jax.numpy as jnp

from rlx.models import transformer
from rlx.models.transformer import TransformerConfig
from rlx.types import Batch


def init_value(trunk: transformer.Params) -> dict:
  """A critic on a copy of a decoder; its head starts at zero, so its values do."""
  width = trunk['embedding'].shape[-1]
  return {'trunk': jax.tree.map(jnp.copy, trunk), 'value_head': jnp.zeros(width, jnp.float32)}


def values(params: dict, config: TransformerConfig, batch: Batch) -> jax.Array:
  """State values: what a critic expects before each token is chosen.

  Args:
    params: from `init_value`.
    config: shape of the trunk.
    batch: rows with `tokens` [B, T].
  Returns:
    [B, T] float32; column t sees the tokens before t, column 0 is 0.
  """
  hidden, _ = transformer.forward(params['trunk'], config, batch['tokens'])
  after = jnp.einsum('btd,d->bt', hidden.astype(jnp.float32), params['value_head'])
  return jnp.pad(after[:, :-1], ((0, 0), (1, 0)))
