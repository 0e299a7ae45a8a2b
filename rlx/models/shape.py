"""The shape of a decoder: what `transformer.py` can be, field by field, and what it may not be."""

import dataclasses
from typing import Literal

from rlx.errors import above, at_least, wanted_instead
from rlx.models import rope

_ACTIVATIONS = ('silu', 'gelu', 'gelu_tanh')
_KERNELS = ('auto', 'reference', 'blockwise', 'cudnn', 'tokamax')


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
  """The shape of a decoder. Defaults are the Llama family; the comments say who differs.

  Attributes:
    vocab_size: number of token ids.
    num_layers: number of blocks.
    width: size of the residual stream.
    num_heads: query heads.
    num_kv_heads: key and value heads; divides `num_heads`.
    head_size: size of a head.
    mlp_size: hidden units of the feed-forward part; of each expert, where there are experts.
    context_length: the longest row, in tokens.
    norm: 'rmsnorm', or 'layernorm' with a bias (GPT-2).
    norm_eps: added to the variance.
    norm_offset: the scale is `1 + parameter` (Gemma).
    post_norms: also normalise what attention and MLP add to the stream (Gemma 2 and 3).
    qk_norm: RMS-normalise queries and keys per head (Qwen3, Gemma 3).
    positions: 'rope', or 'learned' (GPT-2).
    rope_theta: base wavelength of the rotary positions.
    local_rope_theta: base of sliding-window layers, which then are not scaled (Gemma 3); 0 is `rope_theta`.
    rope_scaling: 'none', 'linear', 'dynamic' (nothing within `rope_original_context`), 'llama3' or 'yarn'.
    rope_factor: by which positions are compressed.
    rope_original_context: tokens of context in pretraining ('dynamic', 'llama3', 'yarn').
    rope_slow_turns: entries that turn less often over that context are compressed ('llama3', 'yarn').
    rope_fast_turns: entries that turn more often are not ('llama3', 'yarn').
    rope_attention_factor: queries and keys are multiplied by it; 0 means 0.1 ln(rope_factor) + 1 ('yarn').
    rope_truncate: whole indices bound the entries between slow and fast ('yarn').
    window: how many tokens a sliding-window layer sees; 0 where there are none.
    sliding_layers: indices of the sliding-window layers (all in Mistral, a pattern in Gemma 2 and 3).
    activation: 'silu', 'gelu' or 'gelu_tanh' (Gemma, GPT-2).
    gated: SwiGLU/GeGLU; False for a plain two-layer MLP (GPT-2).
    qkv_bias: biases on queries, keys and values (Qwen2, GPT-2).
    out_bias: a bias on the attention output (GPT-2).
    mlp_bias: biases on the MLP (GPT-2).
    num_experts: feed-forward parts of a layer, of which a token takes a few (Qwen3-MoE); 0 for a plain one.
    experts_per_token: how many it takes.
    normalise_experts: the weights of those add up to 1; otherwise they are their shares among all experts.
    tied: the unembedding is the embedding.
    scale_embedding: multiply embeddings by sqrt(width) (Gemma).
    query_scale: attention logits are multiplied by it; 0 means head_size ** -0.5 (Gemma 2 differs).
    attention_softcap: attention logits become cap * tanh(logits / cap); 0 is off (Gemma 2).
    logit_softcap: the same for the output logits; 0 is off (Gemma 2).
    dtype: of activations and matrix products ('float32' or 'bfloat16').
    param_dtype: of the parameters.
    remat: recompute each block in the backward pass instead of keeping its activations; of what enters a
      block each device of `tensor` keeps its columns.
    attention: how attention within rows is computed: 'reference' (all scores at once), 'blockwise', 'cudnn',
      'tokamax', 'triton', 'splash' or 'auto' (`kernels/packed_attention.py`).
    decode_attention: how that of the newest tokens is: the same, or 'mosaic' in place of the last two
      (`kernels/decode_attention.py`).
      'auto' is 'reference' where samples of a prompt share its keys: these are then read once a group.
  """

  vocab_size: int
  num_layers: int
  width: int
  num_heads: int
  num_kv_heads: int
  head_size: int
  mlp_size: int
  context_length: int
  norm: Literal['rmsnorm', 'layernorm'] = 'rmsnorm'
  norm_eps: float = 1e-6
  norm_offset: bool = False
  post_norms: bool = False
  qk_norm: bool = False
  positions: Literal['rope', 'learned'] = 'rope'
  rope_theta: float = 10_000.0
  local_rope_theta: float = 0.0
  rope_scaling: Literal['none', 'linear', 'dynamic', 'llama3', 'yarn'] = 'none'
  rope_factor: float = 1.0
  rope_original_context: int = 0
  rope_slow_turns: float = 0.0
  rope_fast_turns: float = 0.0
  rope_attention_factor: float = 0.0
  rope_truncate: bool = True
  window: int = 0
  sliding_layers: tuple[int, ...] = ()
  activation: Literal['silu', 'gelu', 'gelu_tanh'] = 'silu'
  gated: bool = True
  qkv_bias: bool = False
  out_bias: bool = False
  mlp_bias: bool = False
  num_experts: int = 0
  experts_per_token: int = 0
  normalise_experts: bool = False
  tied: bool = True
  scale_embedding: bool = False
  query_scale: float = 0.0
  attention_softcap: float = 0.0
  logit_softcap: float = 0.0
  dtype: str = 'float32'
  param_dtype: str = 'float32'
  remat: bool = False
  attention: str = 'reference'
  decode_attention: str = 'reference'

  def __post_init__(self):
    choices = {
        'norm': ('rmsnorm', 'layernorm'),
        'positions': ('rope', 'learned'),
        'activation': _ACTIVATIONS,
        'rope_scaling': rope.SCALINGS,
        'attention': (*_KERNELS, 'triton', 'splash'),
        'decode_attention': (*_KERNELS, 'mosaic'),
    }
    for field, allowed in choices.items():
      if getattr(self, field) not in allowed:
        raise ValueError(f'{field}={getattr(self, field)!r} is not one of {allowed}')
    for field in dataclasses.fields(self):
      if wanted := wanted_instead(value := getattr(self, field.name), field.type):
        raise ValueError(f'{field.name}={value!r} of a decoder: needs {wanted}')
    at_least(1, **{field: getattr(self, field) for field in _COUNTS})
    above(0, norm_eps=self.norm_eps, **({'rope_theta': self.rope_theta} if self.positions == 'rope' else {}))
    for dtype in (self.dtype, self.param_dtype):
      if dtype not in _DTYPES:
        raise ValueError(f'dtype={dtype!r} is not one of {_DTYPES}')
    if self.num_heads % self.num_kv_heads:
      raise ValueError(
          f'num_kv_heads={self.num_kv_heads} does not divide num_heads={self.num_heads}'
      )
    object.__setattr__(self, 'sliding_layers', tuple(self.sliding_layers))  # configs may hold a list
    _check_windows(self)
    _check_rope(self)
    _check_experts(self)


_DTYPES = ('float32', 'bfloat16', 'float16')
_COUNTS = (
    'vocab_size', 'num_layers', 'width', 'num_heads', 'num_kv_heads', 'head_size', 'mlp_size',
    'context_length',
)


def _check_windows(config):
  layers, used = config.sliding_layers, config.window > 0
  if config.window < 0 or used != bool(layers):
    raise ValueError(f'window={config.window} with sliding_layers={layers}: give both, or neither (0 and ())')
  if list(layers) != sorted(set(layers) & set(range(config.num_layers))):
    raise ValueError(
        f'sliding_layers={layers} must be rising indices of layers, from 0 to {config.num_layers - 1}'
    )


# Rope scaling -> the fields that it reads; the others must be as they are without scaling.
_ROPE_FIELDS = {
    'none': (),
    'linear': ('rope_factor',),
    'dynamic': ('rope_factor', 'rope_original_context'),
    'llama3': ('rope_factor', 'rope_original_context', 'rope_slow_turns', 'rope_fast_turns'),
    'yarn': (
        'rope_factor', 'rope_original_context', 'rope_slow_turns', 'rope_fast_turns', 'rope_attention_factor',
        'rope_truncate',
    ),
}


def _check_rope(config):
  kind, read = config.rope_scaling, _ROPE_FIELDS[config.rope_scaling]
  defaults = {field.name: field.default for field in dataclasses.fields(config)}
  for name in _ROPE_FIELDS['yarn']:
    if name not in read and getattr(config, name) != defaults[name]:
      raise ValueError(
          f'{name}={getattr(config, name)} does nothing with rope_scaling={kind!r}; leave it {defaults[name]}'
      )
  if config.positions == 'rope' and config.head_size % 2:
    raise ValueError(f'head_size={config.head_size} must be even: rotary positions turn pairs of entries')
  if config.rope_factor < 1:
    raise ValueError(f'rope_factor={config.rope_factor} must be at least 1')
  if 'rope_original_context' in read and config.rope_original_context < 1:
    raise ValueError(f'rope_scaling={kind!r} needs rope_original_context, in tokens')
  if 'rope_slow_turns' in read and not 0 < config.rope_slow_turns < config.rope_fast_turns:
    raise ValueError(
        f'rope_slow_turns={config.rope_slow_turns}, rope_fast_turns={config.rope_fast_turns}: '
        f'rope_scaling={kind!r} needs 0 < slow < fast'
    )
  if kind == 'dynamic' and config.context_length > config.rope_original_context:
    raise ValueError(
        f"rope_scaling='dynamic' with context_length={config.context_length}, beyond the original "
        f'{config.rope_original_context}: there, what a row means would change as it grows; lower '
        "context_length, or use 'linear' or 'yarn'"
    )


def _check_experts(config):
  number, taken = config.num_experts, config.experts_per_token
  if number < 0 or not (1 <= taken <= number if number else taken == 0 and not config.normalise_experts):
    raise ValueError(
        f'num_experts={number}, experts_per_token={taken}, normalise_experts={config.normalise_experts}: '
        'a token takes 1 to num_experts of them; without experts, leave 0, 0 and False'
    )
  if number and config.mlp_bias:
    raise ValueError(f'mlp_bias=True with num_experts={number}: experts have no biases')
