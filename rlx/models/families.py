"""Decoders by family: a config says the numbers that matter, and the family its documented choices.

Each function is a kind of model for the section `models`: a fresh decoder with the vocabulary of the task.
`transformer` takes every field of `TransformerConfig`. What a directory describes is `hf.hf`.
"""

import dataclasses

from rlx.errors import at_least
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig


def transformer(task, **shape) -> LanguageModel:
  """A decoder of which every choice is written.

  Args:
    task: whose tokens it knows.
    **shape: the fields of `TransformerConfig`, all but `vocab_size`.
  Raises:
    ValueError: a field is missing, unknown or out of range.
  """
  fields = {field.name for field in dataclasses.fields(TransformerConfig)} - {'vocab_size'}
  if missing := sorted(fields - shape.keys()):
    raise ValueError(f'lacks {missing}, which TransformerConfig needs; a family such as llama knows them')
  if unknown := sorted(shape.keys() - fields):
    raise ValueError(f'has {unknown}, which TransformerConfig does not know')
  return LanguageModel(TransformerConfig(vocab_size=task.vocab_size, **shape))


def llama(
    task, *, num_layers: int, width: int, num_heads: int, num_kv_heads: int, mlp_size: int,
    context_length: int, rope_theta: float, tied: bool, dtype: str, remat: bool, attention: str,
) -> LanguageModel:
  """RMS norms, rotary positions, a gated SiLU MLP, no biases; parameters in float32.

  Args:
    task: whose tokens it knows.
    num_layers: blocks.
    width: of the residual stream.
    num_heads: query heads, of width / num_heads each.
    num_kv_heads: key and value heads; divides `num_heads`.
    mlp_size: hidden units of the feed-forward part.
    context_length: the longest row, in tokens.
    rope_theta: base wavelength of the positions (10,000; 500,000 in Llama 3; less where rows are short).
    tied: the output matrix is the embedding (not so in Llama 2; so in the small ones of Llama 3.2).
    dtype: of activations and products.
    remat: recompute blocks in the backward pass.
    attention: its kernel, of whole rows and of the newest tokens (see `TransformerConfig`).
  Source: Touvron et al., 2023, https://arxiv.org/abs/2302.13971, section 2.2.

  >>> import jax, jax.numpy as jnp
  >>> from rlx.envs.sorting import sorting
  >>> task = sorting(length=3, held_out_share=0.1)
  >>> model = llama(
  ...     task, num_layers=1, width=16, num_heads=2, num_kv_heads=1, mlp_size=32, context_length=16,
  ...     rope_theta=10_000.0, tied=True, dtype='float32', remat=False, attention='reference',
  ... )
  >>> params = model.init(jax.random.key(0))
  >>> hidden, _ = model.forward(params, jnp.array([[3, 4, 5]]))
  >>> model.logits(params, hidden).shape == (1, 3, task.vocab_size)
  True
  """
  return LanguageModel(TransformerConfig(
      vocab_size=task.vocab_size, num_layers=num_layers, width=width, num_heads=num_heads,
      num_kv_heads=num_kv_heads, head_size=_head_size(width, num_heads), mlp_size=mlp_size,
      context_length=context_length, rope_theta=rope_theta, tied=tied, dtype=dtype, remat=remat,
      attention=attention, decode_attention=attention,
  ))


def qwen2(
    task, *, num_layers: int, width: int, num_heads: int, num_kv_heads: int, mlp_size: int,
    context_length: int, tied: bool, dtype: str, remat: bool, attention: str,
) -> LanguageModel:
  """`llama` with biases on queries, keys and values, and a base of a million for the positions.

  Source: Qwen2 technical report, https://arxiv.org/abs/2407.10671, section 2.2.
  """
  decoder = llama(
      task, num_layers=num_layers, width=width, num_heads=num_heads, num_kv_heads=num_kv_heads,
      mlp_size=mlp_size, context_length=context_length, rope_theta=1e6, tied=tied, dtype=dtype, remat=remat,
      attention=attention,
  )
  return decoder.replace(qkv_bias=True)


def qwen3(
    task, *, num_layers: int, width: int, num_heads: int, num_kv_heads: int, head_size: int, mlp_size: int,
    context_length: int, tied: bool, dtype: str, remat: bool, attention: str,
) -> LanguageModel:
  """`llama` with normalised queries and keys, heads of a size of their own, and a base of a million.

  Source: Qwen3 technical report, https://arxiv.org/abs/2505.09388, section 2.
  """
  return LanguageModel(TransformerConfig(
      vocab_size=task.vocab_size, num_layers=num_layers, width=width, num_heads=num_heads,
      num_kv_heads=num_kv_heads, head_size=head_size, mlp_size=mlp_size, context_length=context_length,
      tied=tied, dtype=dtype, remat=remat, qk_norm=True, rope_theta=1e6, attention=attention,
      decode_attention=attention,
  ))


def gemma2(
    task, *, num_layers: int, width: int, num_heads: int, num_kv_heads: int, head_size: int, mlp_size: int,
    context_length: int, window: int, dtype: str, remat: bool, attention: str,
) -> LanguageModel:
  """Norms before and behind both parts, GeGLU, capped logits, every other layer in a window; tied.

  Args are those of `qwen3`, and:
    window: tokens that a sliding-window layer sees (4,096); layers 0, 2, .. are such.
  Source: Gemma 2, https://arxiv.org/abs/2408.00118, section 2.
  """
  return LanguageModel(TransformerConfig(
      **_gemma(task, num_layers, width, num_heads, num_kv_heads, head_size, mlp_size, context_length),
      window=window, sliding_layers=tuple(range(0, num_layers, 2)), attention_softcap=50.0,
      logit_softcap=30.0,
      dtype=dtype, remat=remat, attention=attention, decode_attention=attention,
  ))


def gemma3(
    task, *, num_layers: int, width: int, num_heads: int, num_kv_heads: int, head_size: int, mlp_size: int,
    context_length: int, window: int, dtype: str, remat: bool, attention: str,
) -> LanguageModel:
  """`gemma2` with normalised queries and keys in place of the caps; every sixth layer sees all.

  Args are those of `qwen3`, and:
    window: tokens that a sliding-window layer sees (512 or 1,024); its positions have a base of 10,000, those
      of the others a million.
  Source: Gemma 3 technical report, https://arxiv.org/abs/2503.19786, section 2.
  """
  sliding = tuple(layer for layer in range(num_layers) if (layer + 1) % 6)
  return LanguageModel(TransformerConfig(
      **_gemma(task, num_layers, width, num_heads, num_kv_heads, head_size, mlp_size, context_length),
      window=window, sliding_layers=sliding, qk_norm=True, rope_theta=1e6, local_rope_theta=1e4, dtype=dtype,
      remat=remat, attention=attention, decode_attention=attention,
  ))


def _gemma(task, num_layers, width, num_heads, num_kv_heads, head_size, mlp_size, context_length) -> dict:
  """What Gemma 2 and 3 share; queries are scaled by the size of a head, as in all but one of them."""
  return {
      'vocab_size': task.vocab_size, 'num_layers': num_layers, 'width': width, 'num_heads': num_heads,
      'num_kv_heads': num_kv_heads, 'head_size': head_size, 'mlp_size': mlp_size,
      'context_length': context_length, 'norm_offset': True, 'post_norms': True, 'scale_embedding': True,
      'activation': 'gelu_tanh', 'tied': True, 'query_scale': head_size**-0.5,
  }


def gpt2(
    task, *, num_layers: int, width: int, num_heads: int, context_length: int, dtype: str, remat: bool,
    attention: str,
) -> LanguageModel:
  """Layer norms, learned positions, a plain GELU MLP four times as wide, biases everywhere.

  Source: Radford et al., 2019, Language models are unsupervised multitask learners, section 2.3.
  """
  return LanguageModel(TransformerConfig(
      vocab_size=task.vocab_size, num_layers=num_layers, width=width, num_heads=num_heads,
      num_kv_heads=num_heads, head_size=_head_size(width, num_heads), mlp_size=4 * width,
      context_length=context_length, norm='layernorm', norm_eps=1e-5, positions='learned',
      activation='gelu_tanh', gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, tied=True,
      dtype=dtype, remat=remat, attention=attention, decode_attention=attention,
  ))


def _head_size(width: int, num_heads: int) -> int:
  at_least(1, num_heads=num_heads)
  if width % num_heads:
    raise ValueError(f'num_heads={num_heads} does not divide width={width}')
  return width // num_heads
