"""Draft models: the first blocks of a policy as a small decoder of its own, for speculative decoding.

A drafter is a decoder like any other, so it is trained, sharded, saved and run as one. It begins with the
policy's embeddings, its first blocks and its last norm: a policy whose later blocks add nothing is then its
own drafter, and any other one is at least read with the right tokens. What it lacks is learned from samples.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.models.language import LanguageModel
from rlx.models.model import Model
from rlx.models.transformer import Params, TransformerConfig


def drafter(policy: LanguageModel, *, num_layers: int) -> Model:
  """A draft model that begins as the first blocks of another model.

  Args:
    policy: what is copied, by default the model `policy`; another by `names: {'policy': ...}`.
    num_layers: blocks that are kept.
  Raises:
    ValueError: the policy has not so many blocks, or none are kept.
  """
  return Model(
      functions=LanguageModel(config_of(policy.shape, num_layers=num_layers)),
      init=lambda key, models: init(models['policy'], num_layers=num_layers), axes=policy.axes,
  )


def init(policy: Params, *, num_layers: int) -> Params:
  """The drafter that a policy begins with; shares no memory with it.

  Args:
    policy: parameters of `transformer.init`.
    num_layers: blocks that are kept, as for `config_of`.
  """
  layers = jax.tree.map(lambda x: x[:num_layers], policy['layers'])
  return jax.tree.map(jnp.copy, {**policy, 'layers': layers})


def config_of(policy: TransformerConfig, *, num_layers: int) -> TransformerConfig:
  """The shape of `init`'s drafter.

  Args:
    policy: shape of the policy.
    num_layers: blocks that are kept.
  Raises:
    ValueError: the policy has not so many blocks, or none are kept.
  """
  if not 1 <= num_layers <= policy.num_layers:
    raise ValueError(f'num_layers={num_layers} is not in 1..{policy.num_layers}, the blocks of the policy')
  sliding = tuple(layer for layer in policy.sliding_layers if layer < num_layers)
  return dataclasses.replace(
      policy, num_layers=num_layers, sliding_layers=sliding, window=policy.window if sliding else 0
  )
