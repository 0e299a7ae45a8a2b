"""Families of decoders are those that directories of that name describe."""

import types

import jax
import jax.numpy as jnp
import pytest

from rlx.models import families, hf
from rlx.models.language import LanguageModel
from tests.cases import cases

TASK = types.SimpleNamespace(vocab_size=17)
SIZES = dict(
    num_layers=2, width=12, num_heads=3, context_length=32, dtype='float32', remat=False,
    attention='reference',
)
GROUPED = dict(SIZES, num_kv_heads=1, mlp_size=20, tied=False)
LLAMA = dict(GROUPED, rope_theta=500.0)
GEMMA = dict(SIZES, num_kv_heads=1, mlp_size=20, head_size=8, window=8)
FAMILIES = {
    'llama': (families.llama, LLAMA),
    'qwen2': (families.qwen2, dict(GROUPED, tied=True)),
    'qwen3': (families.qwen3, dict(GROUPED, head_size=8)),
    'gemma2': (families.gemma2, dict(GEMMA, num_layers=3)),
    'gemma3_text': (families.gemma3, dict(GEMMA, num_layers=7)),
    'gpt2': (families.gpt2, SIZES),
}


@pytest.mark.parametrize('family', cases(FAMILIES, at_once=('llama', 'gemma3_text')))
def test_a_family_is_what_its_directories_describe(family, tmp_path):
  make, sizes = FAMILIES[family]
  model = make(TASK, **sizes)
  assert isinstance(model, LanguageModel) and model.vocab_size == 17
  params = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(model.init, jax.random.key(0)))
  hf.save(tmp_path, params, model.shape, family=family, settings={})
  found = hf.shape_of(
      directory=str(tmp_path), context_length=0, dtype='float32', param_dtype='float32', remat=False,
      attention=model.shape.attention, decode_attention=model.shape.decode_attention,
  )
  assert (hf.family_of(tmp_path), found) == (family, model.shape)


def test_heads_divide_the_width():
  with pytest.raises(ValueError, match='num_heads=5 does not divide width=12'):
    families.llama(TASK, **dict(LLAMA, num_heads=5))


def test_a_transformer_says_every_choice():
  with pytest.raises(ValueError, match="lacks .*'activation'.*a family such as llama"):
    families.transformer(TASK, **LLAMA)
  shape = {name: x for name, x in vars(families.llama(TASK, **LLAMA).shape).items() if name != 'vocab_size'}
  assert families.transformer(TASK, **shape) == families.llama(TASK, **LLAMA)
  with pytest.raises(ValueError, match=r"has \['depth'\]"):
    families.transformer(TASK, **shape, depth=2)
