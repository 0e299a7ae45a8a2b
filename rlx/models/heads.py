"""Heads that read a decoder's hidden states as something else than tokens."""

import functools

import jax
import jax.numpy as jnp

from rlx.engine import packing as packings
from rlx.engine.packing import Layout, Packing
from rlx.models import transformer
from rlx.models.transformer import TransformerConfig
from rlx.types import Batch


def init_value(trunk: transformer.Params) -> dict:
  """A critic on a copy of a decoder; its head starts at zero, so its values do."""
  width = trunk['embedding'].shape[-1]
  return {'trunk': jax.tree.map(jnp.copy, trunk), 'value_head': jnp.zeros(width, jnp.float32)}


def values(
    params: dict, config: TransformerConfig, batch: Batch, *, packing: Packing | None = None
) -> jax.Array:
  """State values: what a critic expects before each token is chosen.

  Args:
    params: from `init_value`.
    config: shape of the trunk.
    batch: rows with `tokens` [B, T].
    packing: as in `sample.score`; then only the values of actions are computed, and others are 0.
  Returns:
    [B, T] float32; column t sees the tokens before t, column 0 is 0.
  """
  if packing is not None:
    layout = packings.lay_out(batch, packing)
    cells = packings.over_cells(functools.partial(_values_packed, config=config), params, layout, packing)
    return packings.back(cells['values'], layout)
  hidden, _ = transformer.forward(params['trunk'], config, batch['tokens'])
  after = jnp.einsum('btd,d->bt', hidden.astype(jnp.float32), params['value_head'])
  return jnp.pad(after[:, :-1], ((0, 0), (1, 0)))


def _values_packed(params: dict, layout: Layout, *, config: TransformerConfig) -> dict[str, jax.Array]:
  """Values [rows, C] of the actions in packed rows."""
  hidden, _ = transformer.forward(params['trunk'], config, layout.tokens, layout.places)
  after = jnp.einsum('rcd,d->rc', hidden.astype(jnp.float32), params['value_head'])
  before = jnp.take_along_axis(after, layout.sources, axis=1)
  return {'values': jnp.where(layout.action_index >= 0, before, 0)}
