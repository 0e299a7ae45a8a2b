"""A model that begins as a copy of another one, and goes its own way: a second speaker, an opponent."""

import jax
import jax.numpy as jnp

from rlx.models.language import LanguageModel
from rlx.models.model import Model
from rlx.models.networks import Network, Policy


def copy(of: LanguageModel | Policy | Network) -> Model:
  """A model with the functions of another; its parameters begin as those seen under the other's name.

  Of a LoRA that is the base with its adapters, all trainable; `lora.merged` adds them up.

  Args:
    of: what is copied; `names: {'of': ...}` says which.
  """
  return Model(
      functions=of, init=lambda key, models: jax.tree.map(jnp.copy, models['of']),
      axes=of.axes if hasattr(of, 'axes') else {},
  )
