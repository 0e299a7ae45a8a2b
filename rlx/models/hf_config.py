"""config.json of a Hugging Face directory <-> `TransformerConfig`.

`parse` reads what transformers 4 and 5 write (`rope_theta` and `rope_scaling`, or `rope_parameters`), with
the defaults of its config classes for what a file leaves out. `config_json` writes what both read, and parses
it again: a shape that a family cannot express is an error, not another model.
"""

from collections.abc import Mapping
import dataclasses
import json
from pathlib import Path
from typing import Any

from rlx.models import rope
from rlx.models.transformer import TransformerConfig

Settings = Mapping[str, Any]  # what config.json holds

_GEMMA = {'norm_offset': True, 'post_norms': True, 'scale_embedding': True}
FAMILIES = {  # model_type -> its class in transformers, and what no setting says of its shape
    'llama': ('LlamaForCausalLM', {}),
    'mistral': ('MistralForCausalLM', {}),
    'qwen2': ('Qwen2ForCausalLM', {'qkv_bias': True}),
    'qwen3': ('Qwen3ForCausalLM', {'qk_norm': True}),
    'qwen3_moe': ('Qwen3MoeForCausalLM', {'qk_norm': True}),
    'gemma2': ('Gemma2ForCausalLM', _GEMMA),
    'gemma3_text': ('Gemma3ForCausalLM', {**_GEMMA, 'qk_norm': True}),
    'gpt2': (
        'GPT2LMHeadModel',
        {
            'norm': 'layernorm', 'positions': 'learned', 'gated': False, 'qkv_bias': True, 'out_bias': True,
            'mlp_bias': True,
        },
    ),
}

# What a file may leave out, as the classes of transformers have it.
_COMMON = {
    'head_dim': None, 'num_key_value_heads': None, 'rms_norm_eps': 1e-6, 'hidden_act': 'silu',
    'tie_word_embeddings': False, 'attention_bias': False, 'mlp_bias': False, 'rope_theta': 10_000.0,
}
_QWEN = {**_COMMON, 'use_sliding_window': False, 'sliding_window': 4096, 'max_window_layers': 28}
_GEMMA2 = {
    **_COMMON, 'head_dim': 256, 'num_key_value_heads': 4, 'hidden_activation': 'gelu_pytorch_tanh',
    'tie_word_embeddings': True, 'query_pre_attn_scalar': 256, 'sliding_window': 4096,
    'final_logit_softcapping': 30.0, 'attn_logit_softcapping': 50.0,
}
_DEFAULTS = {
    'llama': _COMMON,
    'mistral': {**_COMMON, 'num_key_value_heads': 8, 'sliding_window': 4096},
    'qwen2': _QWEN,
    'qwen3': {**_QWEN, 'head_dim': 128},
    'qwen3_moe': {**_QWEN, 'num_experts': 128, 'num_experts_per_tok': 8, 'norm_topk_prob': False},
    'gemma2': _GEMMA2,
    'gemma3_text': {  # inside multimodal configs only what differs is written
        **_GEMMA2, 'vocab_size': 262_208, 'hidden_size': 2304, 'intermediate_size': 9216,
        'num_hidden_layers': 26, 'num_attention_heads': 8, 'max_position_embeddings': 131_072,
        'rope_theta': 1_000_000.0, 'rope_local_base_freq': 10_000.0, 'sliding_window_pattern': 6,
        'final_logit_softcapping': None, 'attn_logit_softcapping': None,
    },
    'gpt2': {
        'n_inner': None, 'activation_function': 'gelu_new', 'layer_norm_epsilon': 1e-5,
        'tie_word_embeddings': True, 'scale_attn_weights': True,
    },
}
_SUPPORTED = {  # setting -> the values that the decoder knows, the default first
    'quantization_config': (None,),
    'use_bidirectional_attention': (False, None),
    'scale_attn_by_inverse_layer_idx': (False,),
    'add_cross_attention': (False,),
    'decoder_sparse_step': (1,),
    'mlp_only_layers': ([], None),
    'partial_rotary_factor': (1.0, None),
}
_ACTIVATIONS = {  # of transformers -> ours
    'silu': 'silu', 'swish': 'silu', 'gelu': 'gelu', 'gelu_new': 'gelu_tanh',
    'gelu_pytorch_tanh': 'gelu_tanh',
}
_ROPE_TYPES = {'default': 'none', **{kind: kind for kind in rope.SCALINGS if kind != 'none'}}


def check_family(family: str) -> None:
  """Raises `ValueError` for a family that is not supported, and names those that are."""
  if family not in FAMILIES:
    raise ValueError(f'model type {family!r} is not supported; these are: {", ".join(FAMILIES)}')


def read(directory: Path) -> tuple[str, dict[str, Any]]:
  """The family of a directory and its settings; of a multimodal Gemma 3, those of its text part.

  Raises:
    ValueError: there is no config.json, it cannot be read, or its family is not supported.
  """
  path = directory / 'config.json'
  if not path.is_file():
    raise ValueError(f'{path} does not exist; {directory} is not a Hugging Face model directory')
  try:
    settings = json.loads(path.read_text())
    family = settings.get('model_type')
  except (ValueError, AttributeError):
    raise ValueError(f'{path} is not the JSON of a config; fetch it again') from None
  if family == 'gemma3' and 'text_config' in settings:
    family, settings = 'gemma3_text', {**settings['text_config'], 'model_type': 'gemma3_text'}
  if family not in FAMILIES:
    raise ValueError(f'{path}: model type {family!r} is not supported; these are: {", ".join(FAMILIES)}')
  return family, settings


# --- reading ----------------------------------------------------------------------------------------------


def parse(family: str, settings: Settings, *, context_length: int, **numerics) -> TransformerConfig:
  """The shape that settings describe.

  Args:
    family: one of `FAMILIES`.
    settings: of its config.json.
    context_length: the longest row, in tokens; 0 for what the settings say.
    **numerics: `dtype`, `param_dtype`, `remat`, `attention` and `decode_attention`.
  Raises:
    ValueError: a setting is missing, or is one that the decoder does not know.
  """
  settings = {**_DEFAULTS[family], **settings}
  for name, known in _SUPPORTED.items():
    if settings.get(name, known[0]) not in known:
      raise ValueError(f'{name}={settings[name]!r} is not supported, only {known[0]!r}')
  try:
    shape = (_gpt2 if family == 'gpt2' else _llama)(family, settings)
  except KeyError as error:
    raise ValueError(f'config.json lacks {error}') from None
  except (TypeError, AttributeError, ZeroDivisionError) as error:  # of arithmetic with what is no number
    raise ValueError(f'config.json has a value that cannot be: {error}') from None
  own, longest = shape.pop('own'), shape.pop('longest')
  if context_length > longest:
    raise ValueError(
        f'context_length={context_length} is more than the {longest} tokens of the model; lower it, or set '
        'rope scaling in its config.json'
    )
  fixed = FAMILIES[family][1]
  if fixed.get('positions') == 'learned' and context_length not in (0, own):
    raise ValueError(f'context_length={context_length}, but the table of learned positions has {own}; set 0')
  return TransformerConfig(**fixed, **shape, context_length=context_length or own, **numerics)


def _llama(family, settings) -> dict[str, Any]:
  """The fields of `TransformerConfig` for Llama and those that took its names; and those of a context."""
  heads, layers = settings['num_attention_heads'], settings['num_hidden_layers']
  window, sliding_layers = _windows(family, settings, layers)
  shape = {
      'vocab_size': settings['vocab_size'],
      'num_layers': layers,
      'width': settings['hidden_size'],
      'num_heads': heads,
      'num_kv_heads': settings['num_key_value_heads'] or heads,
      'head_size': settings['head_dim'] or settings['hidden_size'] // heads,
      'mlp_size': settings['moe_intermediate_size' if family == 'qwen3_moe' else 'intermediate_size'],
      'norm_eps': settings['rms_norm_eps'],
      'tied': settings['tie_word_embeddings'],
      'window': window,
      'sliding_layers': sliding_layers,
      **_positions(family, settings),
  }
  if family in ('llama', 'qwen3', 'qwen3_moe', 'gemma2', 'gemma3_text'):
    shape |= {'qkv_bias': settings['attention_bias'], 'out_bias': settings['attention_bias']}
  if family == 'llama':
    shape['mlp_bias'] = settings['mlp_bias']
  if family == 'qwen3_moe':
    shape['num_experts'] = settings.get('num_local_experts', settings['num_experts'])
    shape['experts_per_token'] = settings['num_experts_per_tok']
    shape['normalise_experts'] = settings['norm_topk_prob']
  if not family.startswith('gemma'):
    return shape | {'activation': _activation(settings['hidden_act'])}
  if family == 'gemma3_text' and settings['attn_logit_softcapping']:
    raise ValueError('attn_logit_softcapping is not supported in Gemma 3, which transformers runs without it')
  return shape | {
      'activation': _activation(settings['hidden_activation']),
      'query_scale': settings['query_pre_attn_scalar'] ** -0.5,
      'attention_softcap': settings['attn_logit_softcapping'] or 0.0,
      'logit_softcap': settings['final_logit_softcapping'] or 0.0,
  }


def _gpt2(family, settings) -> dict[str, Any]:
  del family
  heads, width = settings['n_head'], settings['n_embd']
  return {
      'vocab_size': settings['vocab_size'],
      'num_layers': settings['n_layer'],
      'width': width,
      'num_heads': heads,
      'num_kv_heads': heads,
      'head_size': width // heads,
      'mlp_size': settings['n_inner'] or 4 * width,
      'norm_eps': settings['layer_norm_epsilon'],
      'activation': _activation(settings['activation_function']),
      'tied': settings['tie_word_embeddings'],
      'query_scale': 0.0 if settings['scale_attn_weights'] else 1.0,
      'own': settings['n_positions'],
      'longest': settings['n_positions'],
  }


def _activation(name):
  if name not in _ACTIVATIONS:
    raise ValueError(f'activation {name!r} is not supported; these are: {", ".join(_ACTIVATIONS)}')
  return _ACTIVATIONS[name]


def _windows(family, settings, num_layers) -> tuple[int, tuple[int, ...]]:
  """How far sliding-window layers see, and which they are; (0, ()) where there are none."""
  kinds, window = settings.get('layer_types'), settings.get('sliding_window') or 0
  if family == 'llama' or (family == 'mistral' and not window):
    return 0, ()
  if family.startswith('qwen') and not settings['use_sliding_window']:
    return 0, ()
  if family in ('mistral', 'qwen3_moe'):
    slides = [True] * num_layers
  elif kinds is not None:
    if len(kinds) != num_layers or not set(kinds) <= {'sliding_attention', 'full_attention'}:
      raise ValueError(
          f"layer_types={kinds} must be 'sliding_attention' or 'full_attention', for {num_layers} layers"
      )
    slides = [kind == 'sliding_attention' for kind in kinds]
  elif family.startswith('qwen'):
    slides = [i >= settings['max_window_layers'] for i in range(num_layers)]
  else:
    every = settings.get('sliding_window_pattern', 2)  # each so-many-th layer sees all
    slides = [(i + 1) % every != 0 for i in range(num_layers)]
  layers = tuple(i for i in range(num_layers) if slides[i])
  return (window, layers) if layers else (0, ())


def _positions(family, settings) -> dict[str, Any]:
  """The fields of rotary positions; the `own` context of the model, and the `longest` that they can do."""
  old, new = settings.get('rope_scaling'), settings.get('rope_parameters')
  if family == 'gemma3_text':
    new = new or {}
    local = {'rope_theta': settings['rope_local_base_freq'], **(new.get('sliding_attention') or {})}
    if local.get('rope_type', 'default') != 'default':
      raise ValueError(f'rope type {local["rope_type"]!r} of sliding-window layers is not supported')
    given = {**(new.get('full_attention') or {}), **(old or {})}
  else:
    local, given = {'rope_theta': 0.0}, old or new or {}
  kind = given.get('rope_type', given.get('type', 'default'))
  if kind not in _ROPE_TYPES:
    raise ValueError(f'rope type {kind!r} is not supported; these are: {", ".join(_ROPE_TYPES)}')
  if given.get('partial_rotary_factor', 1.0) != 1.0:
    raise ValueError(f'partial_rotary_factor={given["partial_rotary_factor"]} is not supported, only 1.0')
  trained = settings['max_position_embeddings']
  scaling = _scaling(kind, given, trained, settings.get('original_max_position_embeddings'))
  original = scaling.get('rope_original_context', trained)
  return {
      'rope_theta': float(given.get('rope_theta') or settings['rope_theta']),
      'local_rope_theta': float(local['rope_theta']),
      'rope_scaling': _ROPE_TYPES[kind],
      **scaling,
      'own': trained,
      'longest': max(trained, int(scaling.get('rope_factor', 1) * original)),
  }


def _scaling(kind, given, trained, original) -> dict[str, Any]:
  """The fields of `TransformerConfig` that a kind of scaling reads."""
  if kind == 'default':
    return {}
  original = original or given.get('original_max_position_embeddings') or trained
  factor = given.get('factor')
  if kind == 'yarn' and factor is None:
    factor = trained / original
  if factor is None:
    raise KeyError(f'factor of rope type {kind}')
  scaling = {'rope_factor': float(factor)}
  if kind == 'linear':
    return scaling
  if kind == 'dynamic':
    return {**scaling, 'rope_original_context': trained}
  scaling['rope_original_context'] = original
  if kind == 'llama3':
    turns = {'rope_slow_turns': given['low_freq_factor'], 'rope_fast_turns': given['high_freq_factor']}
    return scaling | {name: float(value) for name, value in turns.items()}
  above, below = given.get('mscale'), given.get('mscale_all_dim')
  attention = given.get('attention_factor') or 0.0
  if not attention and above and below:
    attention = rope.yarn_attention_factor(factor, above) / rope.yarn_attention_factor(factor, below)
  return scaling | {
      'rope_slow_turns': float(given.get('beta_slow') or 1),
      'rope_fast_turns': float(given.get('beta_fast') or 32),
      'rope_attention_factor': float(attention),
      'rope_truncate': given.get('truncate', True),
  }


# --- writing ----------------------------------------------------------------------------------------------


def config_json(family: str, config: TransformerConfig, settings: Settings) -> dict[str, Any]:
  """What config.json says of a shape.

  Args:
    family: a `model_type` of transformers.
    config: the shape.
    settings: other entries, such as `bos_token_id`, `eos_token_id` and `pad_token_id`; they win.
  Returns:
    A dict of JSON's types that transformers 4 and 5 read.
  Raises:
    ValueError: the family cannot express the config, or is not supported.
  """
  check_family(family)
  entries = {
      'architectures': [FAMILIES[family][0]],
      'model_type': family,
      'vocab_size': config.vocab_size,
      'tie_word_embeddings': config.tied,
      'initializer_range': 0.02,
      'use_cache': True,
      'dtype': config.param_dtype,
      'torch_dtype': config.param_dtype,
      'bos_token_id': None,
      'eos_token_id': None,
      'pad_token_id': None,
      **(_gpt2_entries(config) if family == 'gpt2' else _llama_entries(family, config)),
      **settings,
  }
  check_same(config, family, entries, f'what config.json of {family} can say')
  if config.width % config.num_heads:
    raise ValueError(
        f'num_heads={config.num_heads} does not divide width={config.width}; transformers would not load it'
    )
  return entries


def check_same(config: TransformerConfig, family: str, settings: Settings, what: str) -> None:
  """Raises `ValueError` where settings describe another shape; names the fields."""
  numerics = ('dtype', 'param_dtype', 'remat', 'attention', 'decode_attention')
  numerics = {name: getattr(config, name) for name in numerics}
  other = parse(family, settings, context_length=config.context_length, **numerics)
  ours, theirs = _plain(config), _plain(other)
  differ = [f'{name}={ours[name]!r} would be {theirs[name]!r}' for name in ours if ours[name] != theirs[name]]
  if differ:
    raise ValueError(f'the config differs from {what}: {"; ".join(differ)}')


def _plain(config: TransformerConfig) -> dict[str, Any]:
  """The fields, with the values that 0 stands for."""
  fields = dataclasses.asdict(config)
  fields['query_scale'] = config.query_scale or config.head_size**-0.5
  if config.rope_scaling == 'yarn' and not config.rope_attention_factor:
    fields['rope_attention_factor'] = rope.yarn_attention_factor(config.rope_factor)
  if not config.sliding_layers:
    fields['local_rope_theta'] = 0.0
  elif config.rope_scaling == 'none':
    fields['local_rope_theta'] = config.local_rope_theta or config.rope_theta
  if config.positions == 'learned':
    fields['rope_theta'] = 0.0
  return fields


def _llama_entries(family, config) -> dict[str, Any]:
  is_gemma, is_qwen = family.startswith('gemma'), family.startswith('qwen')
  activation = {'silu': 'silu', 'gelu': 'gelu', 'gelu_tanh': 'gelu_pytorch_tanh'}[config.activation]
  slides = [i in config.sliding_layers for i in range(config.num_layers)]
  trained = config.rope_original_context if config.rope_scaling == 'dynamic' else config.context_length
  entries = {
      'hidden_size': config.width,
      'intermediate_size': config.mlp_size,
      'num_hidden_layers': config.num_layers,
      'num_attention_heads': config.num_heads,
      'num_key_value_heads': config.num_kv_heads,
      'head_dim': config.head_size,
      'hidden_activation' if is_gemma else 'hidden_act': activation,
      'max_position_embeddings': trained,
      'rms_norm_eps': config.norm_eps,
      'attention_dropout': 0.0,
      **_rope_entries(family, config),
  }
  if family != 'qwen2' and family != 'mistral':
    entries['attention_bias'] = config.qkv_bias
  if family == 'llama':
    entries['mlp_bias'] = config.mlp_bias
  if family != 'llama':
    entries['sliding_window'] = config.window or None
  if is_qwen:
    entries['use_sliding_window'] = config.window > 0
    entries['max_window_layers'] = min(config.sliding_layers, default=config.num_layers)
  if family in ('qwen2', 'qwen3', 'gemma2', 'gemma3_text'):
    entries['layer_types'] = ['sliding_attention' if s else 'full_attention' for s in slides]
  if is_gemma:
    entries['query_pre_attn_scalar'] = round((config.query_scale or config.head_size**-0.5) ** -2)
    entries['attn_logit_softcapping'] = config.attention_softcap or None
    entries['final_logit_softcapping'] = config.logit_softcap or None
  if family == 'qwen3_moe':
    entries |= {
        'moe_intermediate_size': config.mlp_size,
        'num_experts': config.num_experts,
        'num_experts_per_tok': config.experts_per_token,
        'norm_topk_prob': config.normalise_experts,
        'decoder_sparse_step': 1,
        'mlp_only_layers': [],
    }
  return entries


def _rope_entries(family, config) -> dict[str, Any]:
  """Rotary positions as transformers 5 reads them, and beside that as transformers 4 does."""
  scaling = {'rope_type': 'default' if config.rope_scaling == 'none' else config.rope_scaling}
  if config.rope_scaling != 'none':
    scaling['factor'] = config.rope_factor
  if config.rope_scaling in ('llama3', 'yarn'):
    scaling['original_max_position_embeddings'] = config.rope_original_context
    slow, fast = {'llama3': ('low_freq_factor', 'high_freq_factor'), 'yarn': ('beta_slow', 'beta_fast')}[
        config.rope_scaling
    ]
    scaling |= {slow: config.rope_slow_turns, fast: config.rope_fast_turns}
  if config.rope_scaling == 'yarn':
    scaling['truncate'] = config.rope_truncate
    if config.rope_attention_factor:
      scaling['attention_factor'] = config.rope_attention_factor
  new, old = {**scaling, 'rope_theta': config.rope_theta}, None if config.rope_scaling == 'none' else scaling
  entries = {'rope_parameters': new, 'rope_theta': config.rope_theta, 'rope_scaling': old}
  if family == 'gemma3_text':
    local = config.local_rope_theta or config.rope_theta
    sliding = {'rope_type': 'default', 'rope_theta': local}
    entries['rope_parameters'] = {'full_attention': new, 'sliding_attention': sliding}
    entries['rope_local_base_freq'] = local
  return entries


def _gpt2_entries(config) -> dict[str, Any]:
  return {
      'n_embd': config.width,
      'n_inner': config.mlp_size,
      'n_layer': config.num_layers,
      'n_head': config.num_heads,
      'n_positions': config.context_length,
      'activation_function': {'gelu_tanh': 'gelu_new'}.get(config.activation, config.activation),
      'layer_norm_epsilon': config.norm_eps,
      'scale_attn_weights': config.query_scale != 1.0,
      'scale_attn_by_inverse_layer_idx': False,
      'add_cross_attention': False,
      'attn_pdrop': 0.0,
      'embd_pdrop': 0.0,
      'resid_pdrop': 0.0,
  }
