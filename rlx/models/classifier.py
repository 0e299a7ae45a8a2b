"""Reward models of a directory: a decoder with a classification head of one label, as transformers has it."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.models import hf, safetensors, transformer
from rlx.models.heads import RowHead, saver
from rlx.models.language import LanguageModel
from rlx.models.model import Model


def classifier(
    *, directory: str, context_length: int, dtype: str, param_dtype: str, remat: bool, attention: str
) -> Model:
  """A reward model that begins from a directory whose model has one label.

  Args:
    directory: as `save_pretrained` of a model for sequence classification writes it.
    context_length: the longest row, in tokens; 0 for the directory's own.
    dtype: of activations and matrix products.
    param_dtype: that the parameters of the decoder get; the head is float32.
    remat: recompute each block in the backward pass.
    attention: how it is computed within rows.
  Raises:
    ValueError: there is no such directory, it is not understood, or its head has not one label.
  """
  found = hf.shape_of(
      directory=directory, context_length=context_length, dtype=dtype, param_dtype=param_dtype, remat=remat,
      attention=attention, decode_attention='reference',
  )
  shape = dataclasses.replace(found, tied=True)  # there is no output matrix
  head = _head(directory, shape.width)

  def begin(key, models):
    del models
    return {'trunk': transformer.init(key, shape), 'reward_head': jnp.zeros(shape.width, jnp.float32)}

  def load(mesh):
    shapes = jax.eval_shape(LanguageModel(shape).init, jax.random.key(0))
    places = sharding.shardings(shapes, mesh, transformer.AXES)
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return {
        'trunk': hf.load(directory, shape, places, beside=(hf.HEAD,)),
        'reward_head': jax.device_put(head.read().astype('float32')[0], whole),
    }

  return Model(
      functions=RowHead(LanguageModel(shape, directory)), init=begin, load=load, source=directory,
      save=saver(directory, found), axes=transformer.AXES,
  )


def _head(directory: str, width: int) -> safetensors.Stored:
  """The head's tensor, [1, D]."""
  for path in sorted(Path(directory).glob('*.safetensors')):
    stored, _ = safetensors.read_header(path)
    if hf.HEAD in stored:
      if stored[hf.HEAD].shape != (1, width):
        raise ValueError(
            f'{path}: {hf.HEAD} is {list(stored[hf.HEAD].shape)}; a reward model has one label, [1, {width}]'
        )
      return stored[hf.HEAD]
  raise ValueError(f'{directory} has no {hf.HEAD}: it is no model for sequence classification')
