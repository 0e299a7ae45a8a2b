"""Hugging Face directories without torch: the table, both directions, every mistake, and the memory taken."""

import dataclasses
import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from flax import traverse_util
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from rlx import sharding
from rlx.models import hf, transformer
from rlx.models.transformer import TransformerConfig
from tests.cases import cases

BASE = TransformerConfig(  # sizes that all differ, so that no transposition goes unseen
    vocab_size=17, num_layers=2, width=12, num_heads=3, num_kv_heads=1, head_size=8, mlp_size=20,
    context_length=64, tied=False, rope_theta=500.0,
)
YARN = {
    'rope_scaling': 'yarn', 'rope_factor': 4.0, 'rope_original_context': 16, 'rope_slow_turns': 1.0,
    'rope_fast_turns': 32.0,
}
LLAMA3 = {**YARN, 'rope_scaling': 'llama3', 'rope_fast_turns': 4.0}
GEMMA = {
    'norm_offset': True, 'post_norms': True, 'scale_embedding': True, 'activation': 'gelu_tanh', 'tied': True,
    'window': 5, 'sliding_layers': (0,), 'query_scale': 24**-0.5,
}
CASES = {  # name: (family, config)
    name: (family, dataclasses.replace(BASE, **changes))
    for name, (family, changes) in {
        'llama': ('llama', LLAMA3),
        'llama_biases_tied': ('llama', {'qkv_bias': True, 'out_bias': True, 'mlp_bias': True, 'tied': True}),
        'llama_linear': ('llama', {'rope_scaling': 'linear', 'rope_factor': 2.0}),
        'llama_dynamic': (
            'llama', {'rope_scaling': 'dynamic', 'rope_factor': 2.0, 'rope_original_context': 64}
        ),
        'mistral': ('mistral', {'window': 5, 'sliding_layers': (0, 1)}),
        'qwen2': ('qwen2', {'qkv_bias': True, 'window': 5, 'sliding_layers': (1,), **YARN}),
        'qwen3': (
            'qwen3',
            {'qk_norm': True, **YARN, 'rope_attention_factor': 1.5, 'rope_truncate': False},
        ),
        'qwen3_moe': (
            'qwen3_moe',
            {'qk_norm': True, 'num_experts': 3, 'experts_per_token': 2, 'normalise_experts': True},
        ),
        'gemma2': ('gemma2', {**GEMMA, 'attention_softcap': 5.0, 'logit_softcap': 3.0}),
        'gemma3': (
            'gemma3_text',
            {
                **GEMMA, 'qk_norm': True, 'local_rope_theta': 20.0, 'rope_scaling': 'linear',
                'rope_factor': 8.0,
            },
        ),
        'gpt2': (
            'gpt2',
            {
                'norm': 'layernorm', 'positions': 'learned', 'gated': False, 'qkv_bias': True,
                'out_bias': True, 'mlp_bias': True, 'num_kv_heads': 3, 'head_size': 4, 'tied': True,
                'activation': 'gelu_tanh', 'rope_theta': 10_000.0,
            },
        ),
    }.items()
}
ALL = pytest.mark.parametrize('name', CASES)
DTYPES = ('float32', 'bfloat16', 'float16')


@functools.cache
def model(name, dtype='float32'):
  """Family, config and random parameters; every number of them differs."""
  family, config = CASES[name]
  config, rng = dataclasses.replace(config, param_dtype=dtype), np.random.default_rng(0)
  shapes = jax.eval_shape(functools.partial(transformer.init, config=config), jax.random.key(0))
  return family, config, jax.tree.map(lambda x: jnp.array(rng.normal(size=x.shape), x.dtype), shapes)


def written(name, directory, **arguments):
  family, config, params = model(name)
  settings = {'bos_token_id': 1, 'eos_token_id': [2, 3], 'pad_token_id': None}
  hf.save(directory, params, config, family=family, settings=settings, **arguments)
  return config, params


def shape_in(directory, context_length=0, param_dtype='float32'):
  return hf.shape_of(
      directory=str(directory), context_length=context_length, dtype='float32', param_dtype=param_dtype,
      remat=False, attention='reference', decode_attention='reference',
  )


def assert_same(left, right):
  """To the bit, dtypes too."""
  assert jax.tree.structure(left) == jax.tree.structure(right)
  for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)


def edit_config(directory, **changes):
  path = pathlib.Path(directory) / 'config.json'
  path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_weights(directory, change):
  """Rewrites the file of weights, with the package of the format."""
  path = pathlib.Path(directory) / 'model.safetensors'
  weights = load_file(path)
  change(weights)
  save_file(weights, path)


# --- there and back ---------------------------------------------------------------------------------------


@ALL
def test_what_is_saved_is_what_is_loaded(name, tmp_path):
  config, params = written(name, tmp_path / 'model')
  assert same_but_for_zeros(shape_in(tmp_path / 'model'), config)
  assert_same(hf.load(tmp_path / 'model', config), params)
  assert sorted(os.listdir(tmp_path)) == ['model']
  assert sorted(os.listdir(tmp_path / 'model')) == ['config.json', 'model.safetensors']


def same_but_for_zeros(found, config):
  """A file holds the numbers that some zeros of a config stand for."""
  assert found.query_scale in (0.0, pytest.approx(config.query_scale or config.head_size**-0.5))
  return dataclasses.replace(found, query_scale=config.query_scale) == config


@pytest.mark.parametrize('name', ['llama', 'gpt2', 'qwen3_moe'])
def test_large_models_are_several_files(name, tmp_path):
  config, params = written(name, tmp_path, max_shard_bytes=4000)
  index = json.loads((tmp_path / 'model.safetensors.index.json').read_text())
  files = sorted(path.name for path in tmp_path.glob('*.safetensors'))
  assert files == [f'model-{i + 1:05}-of-{len(files):05}.safetensors' for i in range(len(files))]
  assert len(files) > 2
  sizes = {name: load_file(tmp_path / name) for name in files}
  assert index['weight_map'] == {tensor: name for name, held in sizes.items() for tensor in held}
  assert index['metadata']['total_size'] == sum(x.nbytes for x in jax.tree.leaves(params))
  for held in sizes.values():
    assert len(held) == 1 or sum(x.nbytes for x in held.values()) <= 4000
  assert_same(hf.load(tmp_path, config), params)


@pytest.mark.parametrize(('name', 'dtype', 'param_dtype'), cases(
    itertools.product(['qwen2', 'qwen3_moe'], DTYPES, DTYPES),
    at_once=[('qwen3_moe', 'float32', 'bfloat16')],
))
def test_dtypes_of_files_and_parameters(name, dtype, param_dtype, tmp_path):
  family, config, params = model(name, dtype)
  hf.save(tmp_path, params, config, family=family, settings={})
  assert json.loads((tmp_path / 'config.json').read_text())['dtype'] == dtype
  stored = load_file(tmp_path / 'model.safetensors')
  assert {str(x.dtype) for x in stored.values()} == {dtype}
  found = hf.load(tmp_path, dataclasses.replace(config, param_dtype=param_dtype))
  assert_same(found, jax.tree.map(lambda x: x.astype(param_dtype), params))


def test_files_are_as_the_package_of_the_format_writes_them(tmp_path):
  written('llama', tmp_path)
  with safe_open(tmp_path / 'model.safetensors', 'numpy') as file:
    assert file.metadata()['format'] == 'pt'  # without it transformers 4 refuses the file
  edit_weights(tmp_path, lambda weights: None)
  family, config, params = model('llama')
  assert_same(hf.load(tmp_path, config), params)


# --- the table --------------------------------------------------------------------------------------------


def test_llama_by_hand(tmp_path):
  config, params = written('llama_biases_tied', tmp_path)
  stored, layers = load_file(tmp_path / 'model.safetensors'), jax.tree.map(np.asarray, params['layers'])
  layer = 'model.layers.1.'
  for name, leaf in {'q_proj': 'query', 'k_proj': 'key', 'v_proj': 'value'}.items():
    for head in range(layers[leaf].shape[2]):
      rows = slice(head * 8, (head + 1) * 8)  # of an [out, in] matrix
      matrix, bias = stored[f'{layer}self_attn.{name}.weight'], stored[f'{layer}self_attn.{name}.bias']
      np.testing.assert_array_equal(matrix[rows], layers[leaf][1, :, head].T)
      np.testing.assert_array_equal(bias[rows], layers[f'{leaf}_bias'][1, head])
  out = np.concatenate([layers['attention_out'][1, head].T for head in range(3)], axis=1)
  np.testing.assert_array_equal(stored[f'{layer}self_attn.o_proj.weight'], out)
  for name in ('gate', 'up', 'down'):
    np.testing.assert_array_equal(stored[f'{layer}mlp.{name}_proj.weight'], layers[name][1].T)
    np.testing.assert_array_equal(stored[f'{layer}mlp.{name}_proj.bias'], layers[f'{name}_bias'][1])
  norm = stored[f'{layer}post_attention_layernorm.weight']
  np.testing.assert_array_equal(norm, layers['mlp_norm']['scale'][1])
  np.testing.assert_array_equal(stored['model.embed_tokens.weight'], params['embedding'])
  np.testing.assert_array_equal(stored['model.norm.weight'], params['final_norm']['scale'])
  assert 'lm_head.weight' not in stored and len(stored) == 2 + 2 * 16


def test_gemma_norms_by_hand(tmp_path):
  _, params = written('gemma3', tmp_path)
  stored = load_file(tmp_path / 'model.safetensors')
  for name, leaf in {
      'input_layernorm': 'attention_norm',
      'post_attention_layernorm': 'post_attention_norm',
      'pre_feedforward_layernorm': 'mlp_norm',
      'post_feedforward_layernorm': 'post_mlp_norm',
      'self_attn.q_norm': 'query_norm',
      'self_attn.k_norm': 'key_norm',
  }.items():
    np.testing.assert_array_equal(
        stored[f'model.layers.0.{name}.weight'], params['layers'][leaf]['scale'][0]
    )


def test_gpt2_by_hand(tmp_path):
  """Its matrices are [in, out], those of queries, keys and values side by side."""
  _, params = written('gpt2', tmp_path)
  stored, layers = load_file(tmp_path / 'model.safetensors'), jax.tree.map(np.asarray, params['layers'])
  fused = np.concatenate([layers[name][0].reshape(12, 12) for name in ('query', 'key', 'value')], axis=1)
  np.testing.assert_array_equal(stored['transformer.h.0.attn.c_attn.weight'], fused)
  bias = np.concatenate([layers[f'{name}_bias'][0].ravel() for name in ('query', 'key', 'value')])
  np.testing.assert_array_equal(stored['transformer.h.0.attn.c_attn.bias'], bias)
  out = layers['attention_out'][0].reshape(12, 12)
  np.testing.assert_array_equal(stored['transformer.h.0.attn.c_proj.weight'], out)
  np.testing.assert_array_equal(stored['transformer.h.0.mlp.c_fc.weight'], layers['up'][0])
  np.testing.assert_array_equal(stored['transformer.h.0.mlp.c_proj.weight'], layers['down'][0])
  np.testing.assert_array_equal(stored['transformer.wpe.weight'], params['position_embedding'])
  np.testing.assert_array_equal(stored['transformer.ln_f.bias'], params['final_norm']['bias'])


def test_experts_by_hand(tmp_path):
  _, params = written('qwen3_moe', tmp_path)
  stored, layers = load_file(tmp_path / 'model.safetensors'), params['layers']
  np.testing.assert_array_equal(stored['model.layers.1.mlp.gate.weight'], layers['router'][1].T)
  for expert in range(3):
    for name in ('gate', 'up', 'down'):
      matrix = stored[f'model.layers.1.mlp.experts.{expert}.{name}_proj.weight']
      np.testing.assert_array_equal(matrix, layers[f'expert_{name}'][1, expert].T)


@ALL
def test_the_table_has_every_leaf_once(name):
  family, config, params = model(name)
  table = hf.tensors(family, config)
  assert sorted(row.leaf for row in table) == sorted(traverse_util.flatten_dict(params, sep='/'))


# --- what other programs wrote ----------------------------------------------------------------------------


def rename(directory, change, extra=()):
  def all_of_them(weights):
    renamed = {change(name): array for name, array in weights.items()} | dict(extra)
    weights.clear()
    weights.update(renamed)

  edit_weights(directory, all_of_them)


def test_gpt2_without_its_prefix_and_with_its_buffers(tmp_path):
  config, params = written('gpt2', tmp_path)
  mask = np.ones((1, 1, 64, 64), np.uint8)
  buffers = {f'h.{i}.attn.{name}': mask for i in range(2) for name in ('bias', 'masked_bias')}
  rename(tmp_path, lambda name: name.removeprefix('transformer.'), buffers)
  assert_same(hf.load(tmp_path, config), params)


@pytest.mark.parametrize('prefix', ['language_model.model.', 'model.language_model.'])
def test_the_text_part_of_a_multimodal_gemma3(prefix, tmp_path):
  config, params = written('gemma3', tmp_path)
  settings = json.loads((tmp_path / 'config.json').read_text())
  outer = {'model_type': 'gemma3', 'text_config': settings, 'vision_config': {'hidden_size': 3}}
  (tmp_path / 'config.json').write_text(json.dumps(outer))
  vision = {f'{prefix[:6]}.vision_tower.vision_model.x': np.ones(3), 'multi_modal_projector.y': np.ones(3)}
  rename(tmp_path, lambda name: prefix + name.removeprefix('model.'), vision)
  assert hf.family_of(tmp_path) == 'gemma3_text'
  assert_same(hf.load(tmp_path, shape_in(tmp_path)), params)
  with pytest.raises(ValueError, match="multimodal.* save it as family 'gemma3_text'"):
    hf.export(tmp_path, tmp_path / 'out', params, config)


def test_a_copy_of_the_embedding_and_old_buffers_are_no_mistake(tmp_path):
  config, params = written('llama_biases_tied', tmp_path)
  copy = {'lm_head.weight': np.asarray(params['embedding'])}
  buffers = {f'model.layers.{i}.self_attn.rotary_emb.inv_freq': np.ones(4, np.float32) for i in range(2)}
  edit_weights(tmp_path, lambda weights: weights.update(copy | buffers))
  assert_same(hf.load(tmp_path, config), params)
  edit_weights(tmp_path, lambda weights: weights.update({'lm_head.weight': 2 * copy['lm_head.weight']}))
  with pytest.raises(ValueError, match='lm_head.weight is not the embedding.*tie_word_embeddings'):
    hf.load(tmp_path, config)


SIZES = {
    'vocab_size': 17, 'hidden_size': 12, 'num_hidden_layers': 4, 'num_attention_heads': 3,
    'num_key_value_heads': 1, 'intermediate_size': 20, 'max_position_embeddings': 32, 'head_dim': 8,
}
SLIDING, FULL = 'sliding_attention', 'full_attention'
YARN_FILE = {'type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 16}
SETTINGS = {  # model type, entries of config.json -> fields
    'llama as of 2': ('llama', {'rope_scaling': None}, {'rope_theta': 1e4, 'qkv_bias': False}),
    'head size not given': ('llama', {'head_dim': None}, {'head_size': 4}),
    'heads not shared': ('llama', {'num_key_value_heads': None}, {'num_kv_heads': 3}),
    'llama with a stray window': ('llama', {'sliding_window': 5}, {'window': 0, 'sliding_layers': ()}),
    'theta of transformers 4': ('llama', {'rope_theta': 5e5}, {'rope_theta': 5e5}),
    'theta of transformers 5': ('llama', {'rope_parameters': {'rope_theta': 5e5}}, {'rope_theta': 5e5}),
    'scaling of transformers 4': (
        'qwen2', {'rope_theta': 1e6, 'rope_scaling': YARN_FILE}, {**YARN, 'rope_theta': 1e6},
    ),
    'scaling of transformers 5': (
        'qwen2',
        {'rope_parameters': {**YARN_FILE, 'rope_type': 'yarn', 'rope_theta': 1e6}},
        {**YARN, 'rope_theta': 1e6},
    ),
    'yarn with two mscales': (
        'qwen2', {'rope_scaling': {**YARN_FILE, 'mscale': 1.0, 'mscale_all_dim': 0.5, 'truncate': False}},
        {**YARN, 'rope_attention_factor': 1.138629436 / 1.069314718, 'rope_truncate': False},
    ),
    'yarn without a factor': (
        'qwen2', {'rope_scaling': {**YARN_FILE, 'factor': None}}, {**YARN, 'rope_factor': 2.0}
    ),
    'llama3': (
        'llama',
        {
            'rope_scaling': {
                'rope_type': 'llama3', 'factor': 4, 'low_freq_factor': 1, 'high_freq_factor': 4,
                'original_max_position_embeddings': 16,
            }
        },
        LLAMA3,
    ),
    'dynamic': (
        'llama', {'rope_scaling': {'type': 'dynamic', 'factor': 2.0}},
        {'rope_scaling': 'dynamic', 'rope_factor': 2.0, 'rope_original_context': 32},
    ),
    'mistral': ('mistral', {'sliding_window': 5}, {'window': 5, 'sliding_layers': (0, 1, 2, 3)}),
    'mistral without windows': ('mistral', {'sliding_window': None}, {'window': 0, 'sliding_layers': ()}),
    'qwen2 with windows off': ('qwen2', {'sliding_window': 5}, {'window': 0, 'qkv_bias': True}),
    'qwen2 with windows on': (
        'qwen2', {'use_sliding_window': True, 'sliding_window': 5, 'max_window_layers': 3},
        {'window': 5, 'sliding_layers': (3,)},
    ),
    'qwen3 with layer types': (
        'qwen3',
        {'use_sliding_window': True, 'sliding_window': 5, 'layer_types': [SLIDING, FULL, FULL, SLIDING]},
        {'window': 5, 'sliding_layers': (0, 3), 'qk_norm': True},
    ),
    'gemma2': (
        'gemma2', {},
        {
            'window': 4096, 'sliding_layers': (0, 2), 'attention_softcap': 50.0, 'logit_softcap': 30.0,
            'query_scale': 1 / 16, 'tied': True, 'activation': 'gelu_tanh',
        },
    ),
    'gemma3 of transformers 4': (
        'gemma3_text',
        {'sliding_window_pattern': 3, 'rope_scaling': {'factor': 8.0, 'rope_type': 'linear'}},
        {
            'window': 4096, 'sliding_layers': (0, 1, 3), 'rope_theta': 1e6, 'local_rope_theta': 1e4,
            'rope_scaling': 'linear', 'rope_factor': 8.0, 'logit_softcap': 0.0,
        },
    ),
    'gemma3 of transformers 5': (
        'gemma3_text',
        {
            'layer_types': [FULL, SLIDING, FULL, SLIDING],
            'rope_parameters': {
                FULL: {'rope_type': 'linear', 'factor': 8.0, 'rope_theta': 5e5},
                SLIDING: {'rope_type': 'default', 'rope_theta': 5e3},
            },
        },
        {'sliding_layers': (1, 3), 'rope_theta': 5e5, 'local_rope_theta': 5e3, 'rope_factor': 8.0},
    ),
    'qwen3_moe': (
        'qwen3_moe',
        {
            'num_local_experts': 6, 'num_experts_per_tok': 2, 'moe_intermediate_size': 7,
            'norm_topk_prob': True,
        },
        {'num_experts': 6, 'experts_per_token': 2, 'mlp_size': 7, 'normalise_experts': True},
    ),
    'gpt2': (
        'gpt2', {'n_embd': 12, 'n_head': 3, 'n_layer': 2, 'n_positions': 9, 'scale_attn_weights': False},
        {'mlp_size': 48, 'context_length': 9, 'query_scale': 1.0, 'head_size': 4, 'activation': 'gelu_tanh'},
    ),
}


def write_config(directory, family, changes):
  (directory / 'config.json').write_text(json.dumps({'model_type': family, **SIZES, **changes}))


@pytest.mark.parametrize('name', SETTINGS)
def test_settings(name, tmp_path):
  family, changes, fields = SETTINGS[name]
  write_config(tmp_path, family, changes)
  found = dataclasses.asdict(shape_in(tmp_path))
  for key, value in fields.items():
    assert found[key] == (pytest.approx(value) if isinstance(value, float) else value), key


def test_no_context_beyond_what_dynamic_scaling_was_trained_for(tmp_path):
  write_config(tmp_path, 'llama', {'rope_scaling': {'type': 'dynamic', 'factor': 2.0}})
  assert shape_in(tmp_path, 32).context_length == 32
  with pytest.raises(ValueError, match="'dynamic' with context_length=33, beyond the original 32"):
    shape_in(tmp_path, 33)


def test_a_shorter_context_and_one_that_scaling_allows(tmp_path):
  write_config(tmp_path, 'qwen2', {'rope_scaling': {**YARN_FILE, 'factor': 8.0}})
  assert [shape_in(tmp_path, length).context_length for length in (0, 7, 128)] == [32, 7, 128]
  with pytest.raises(ValueError, match='context_length=129 is more than the 128 tokens'):
    shape_in(tmp_path, 129)


# --- devices and memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize('name', cases(['llama', 'gpt2', 'qwen3_moe'], at_once=('llama',)))
def test_loads_into_the_shards_of_a_mesh(name, tmp_path):
  config, params = written(name, tmp_path)
  mesh = sharding.make_mesh(data=1, fsdp=4, tensor=2)
  places = sharding.shardings(params, mesh, transformer.AXES)
  found = hf.load(tmp_path, config, places)
  assert_same(found, params)
  assert jax.tree.map(lambda x: x.sharding, found) == places
  held = dict.fromkeys(jax.devices(), 0)
  for leaf in jax.tree.leaves(found):
    for shard in leaf.addressable_shards:
      held[shard.device] += shard.data.nbytes
  assert max(held.values()) == sharding.bytes_per_device(params, places)
  assert max(held.values()) < 0.5 * sum(x.nbytes for x in jax.tree.leaves(params))
  hf.save(tmp_path, found, config, family=hf.family_of(tmp_path), settings={})
  assert_same(hf.load(tmp_path, config), params)


PEAK = """
import sys
import jax
from rlx.models import hf

def megabytes(field):
  lines = open('/proc/self/status').read().splitlines()
  return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024

def load(directory):
  numerics = {
      'dtype': 'float32', 'param_dtype': 'float32', 'remat': False, 'attention': 'auto',
      'decode_attention': 'auto',
  }
  shape = hf.shape_of(directory=directory, context_length=0, **numerics)
  return jax.block_until_ready(hf.load(directory, shape))

load(sys.argv[2])  # what compilers and libraries take
before = megabytes('VmRSS')
params = load(sys.argv[1])
print(megabytes('VmHWM') - before)
"""


@pytest.mark.skipif(not pathlib.Path('/proc/self/status').exists(), reason='needs the proc file system')
@pytest.mark.slow
def test_loading_takes_the_memory_of_the_model_and_of_one_tensor(tmp_path):
  """On a CPU, where the parameters themselves are host memory: nothing of them is there twice."""
  config = dataclasses.replace(
      BASE, num_layers=32, width=512, num_heads=8, num_kv_heads=8, head_size=64, mlp_size=1024
  )
  shapes = jax.eval_shape(functools.partial(transformer.init, config=config), jax.random.key(0))
  params = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
  hf.save(tmp_path / 'large', params, config, family='llama', settings={})
  written('llama', tmp_path / 'small')
  command = [sys.executable, '-c', PEAK, str(tmp_path / 'large'), str(tmp_path / 'small')]
  result = subprocess.run(
      command, env={**os.environ, 'JAX_PLATFORMS': 'cpu'}, capture_output=True, text=True, check=True
  )
  size = sum(x.nbytes for x in jax.tree.leaves(params)) / 2**20
  stack = params['layers']['up'].nbytes / 2**20
  print(f'model {size:.0f} MB, one stack of layers {stack:.0f} MB, peak {float(result.stdout):.0f} MB')
  assert 0.95 * size < float(result.stdout) < size + stack


# --- what cannot be read ----------------------------------------------------------------------------------


def test_every_wrong_tensor_is_named_at_once(tmp_path):
  config, _ = written('qwen2', tmp_path)

  def spoil(weights):
    del weights['model.norm.weight'], weights['model.layers.1.self_attn.q_proj.bias']
    weights['model.layers.0.mlp.up_proj.weight'] = np.zeros((12, 20), np.float32)
    weights['model.layers.0.mlp.down_proj.weight'] = np.zeros((12, 20), np.int8)
    weights['score.weight'] = np.zeros((2, 12), np.float32)

  edit_weights(tmp_path, spoil)
  with pytest.raises(ValueError) as error:
    hf.load(tmp_path, config)
  text = str(error.value)
  for part in (
      str(tmp_path), 'qwen2', 'model.norm.weight [12] is missing',
      'model.layers.1.self_attn.q_proj.bias [24] is missing', 'score.weight [2, 12] is unknown',
      'model.layers.0.mlp.up_proj.weight is [12, 20], not [20, 12]',
      'model.layers.0.mlp.down_proj.weight holds I8',
  ):
    assert part in text
  assert '\n' not in text and 'more' not in text


def test_a_long_list_of_wrong_tensors_is_cut(tmp_path):
  config, _ = written('llama', tmp_path)
  with pytest.raises(ValueError, match='model.layers.2.*; and 8 more$'):
    hf.load(tmp_path, dataclasses.replace(config, num_layers=4))


def cut(path):
  path.write_bytes(path.read_bytes()[:-1])


DAMAGE = {  # what happens to a directory of several files -> what the message says
    'no directory': (shutil.rmtree, r'config.json does not exist'),
    'no config': (lambda d: (d / 'config.json').unlink(), r'config.json does not exist'),
    'no JSON': (lambda d: (d / 'config.json').write_text('{"a'), r'config.json is not the JSON'),
    'no object': (lambda d: (d / 'config.json').write_text('[1]'), r'config.json is not the JSON'),
    'other model': (
        lambda d: edit_config(d, model_type='mamba'),
        r"'mamba' is not supported; these are: llama, mistral, qwen2",
    ),
    'no weights': (
        lambda d: (d / 'model.safetensors.index.json').rename(d / 'pytorch_model.bin'),
        r'neither model.safetensors nor model.safetensors.index.json; it has config.json.*pytorch_model.bin',
    ),
    'no index': (
        lambda d: (d / 'model.safetensors.index.json').write_text('{}'),
        r'index.json is not an index of files',
    ),
    'a file less': (
        lambda d: (d / 'model-00002-of-00004.safetensors').unlink(),
        r'lacks 1 of 4 files of its index: model-00002-of-00004.safetensors',
    ),
    'a short file': (
        lambda d: cut(d / 'model-00002-of-00004.safetensors'),
        r'00002-of-00004.safetensors ends after \d+ of \d+',
    ),
    'another format': (
        lambda d: (d / 'model-00002-of-00004.safetensors').write_bytes(b'version https://git-lfs\noid 1234'),
        r'00002-of-00004.safetensors is not a safetensors file',
    ),
    'an empty file': (
        lambda d: (d / 'model-00002-of-00004.safetensors').write_bytes(b''),
        r'00002-of-00004.safetensors is not a safetensors file',
    ),
}


@pytest.mark.parametrize('name', DAMAGE)
def test_what_is_not_a_model_directory(name, tmp_path):
  directory, (damage, message) = tmp_path / 'model', DAMAGE[name]
  config, _ = written('llama', directory, max_shard_bytes=4500)
  assert (directory / 'model-00004-of-00004.safetensors').exists()
  damage(directory)
  with pytest.raises(ValueError, match=message):
    hf.load(directory, config)


UNSUPPORTED = {  # setting -> (model type, entries, what the message says besides)
    'layer_types': ('qwen3', {'use_sliding_window': True, 'layer_types': [FULL]}, '4 layers'),
    'quantization_config': ('llama', {'quantization_config': {'bits': 4}}, 'only None'),
    'partial_rotary_factor': ('llama', {'partial_rotary_factor': 0.5}, 'only 1.0'),
    'rope type': ('llama', {'rope_scaling': {'rope_type': 'longrope', 'factor': 2.0}}, 'linear, dynamic'),
    'activation': ('llama', {'hidden_act': 'relu'}, 'silu'),
    'hidden_size': ('llama', {'hidden_size': None}, ''),
    'factor': ('llama', {'rope_scaling': {'rope_type': 'linear'}}, 'lacks'),
    'mlp_only_layers': ('qwen3_moe', {'moe_intermediate_size': 3, 'mlp_only_layers': [1]}, ''),
    'decoder_sparse_step': ('qwen3_moe', {'moe_intermediate_size': 3, 'decoder_sparse_step': 2}, 'only 1'),
    'attn_logit_softcapping': ('gemma3_text', {'attn_logit_softcapping': 5.0}, ''),
    'use_bidirectional_attention': ('gemma2', {'use_bidirectional_attention': True}, ''),
    'sliding-window layers': (
        'gemma3_text', {'rope_parameters': {SLIDING: {'rope_type': 'linear', 'factor': 2.0}}}, "'linear'"
    ),
    'learned positions': (
        'gpt2', {'n_embd': 12, 'n_head': 3, 'n_layer': 2, 'n_positions': 9}, 'context_length=5.* 9; set 0'
    ),
    'scale_attn_by_inverse_layer_idx': ('gpt2', {'scale_attn_by_inverse_layer_idx': True}, ''),
}


@pytest.mark.parametrize('name', UNSUPPORTED)
def test_settings_that_the_decoder_does_not_know(name, tmp_path):
  family, changes, message = UNSUPPORTED[name]
  entries = {key: value for key, value in {**SIZES, **changes}.items() if key != 'hidden_size' or value}
  (tmp_path / 'config.json').write_text(json.dumps({'model_type': family, **entries}))
  with pytest.raises(ValueError, match=f'{re.escape(str(tmp_path))}.*(?=.*{name})(?=.*{message})'):
    shape_in(tmp_path, context_length=5)


def test_families_that_are_not_supported_are_told_which_are():
  with pytest.raises(ValueError, match="'bert' is not supported; these are: llama, .*gpt2"):
    hf.tensors('bert', BASE)


# --- what cannot be written -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('family', 'changes', 'message'),
    [
        ('llama', {'qk_norm': True}, 'qk_norm=True would be False'),
        ('llama', {'window': 5, 'sliding_layers': (0,)}, 'window=5 would be 0'),
        ('llama', {'qkv_bias': True}, 'out_bias=False would be True'),
        ('mistral', {'window': 5, 'sliding_layers': (0,)}, r'sliding_layers=\(0,\) would be \(0, 1\)'),
        ('qwen2', {}, 'qkv_bias=False would be True'),
        ('gpt2', {}, 'num_kv_heads=1 would be 3'),
        ('gemma2', {**GEMMA, 'query_scale': 0.3}, 'query_scale=0.3 would be 0.3015'),
        ('gemma2', {**GEMMA, 'local_rope_theta': 20.0}, 'local_rope_theta=20.0 would be 500.0'),
        ('llama', {'width': 13}, 'num_heads=3 does not divide width=13'),
        ('olmo', {}, "'olmo' is not supported"),
    ],
)
def test_a_shape_that_a_family_cannot_say(family, changes, message):
  with pytest.raises(ValueError, match=message):
    hf.config_json(family, dataclasses.replace(BASE, **changes), {})


def test_settings_must_not_change_the_shape():
  assert hf.config_json('llama', BASE, {'eos_token_id': 5})['eos_token_id'] == 5
  with pytest.raises(ValueError, match='mlp_size=20 would be 21'):
    hf.config_json('llama', BASE, {'intermediate_size': 21})


def test_parameters_with_adapters_are_not_saved(tmp_path):
  family, config, params = model('llama')
  layers = {**params['layers'], 'query_lora_a': jnp.zeros((2, 12, 1))}
  with pytest.raises(ValueError, match=r'merge adapters first.*layers/query_lora_a \[2, 12, 1\] is unknown'):
    hf.save(tmp_path / 'out', {**params, 'layers': layers}, config, family=family, settings={})
  with pytest.raises(ValueError, match=r'embedding is \[16, 12\], not \[17, 12\]'):
    shorter = {**params, 'embedding': params['embedding'][:16]}
    hf.save(tmp_path / 'out', shorter, config, family=family, settings={})
  assert not list(tmp_path.iterdir())


def test_only_what_we_wrote_is_replaced(tmp_path):
  directory = tmp_path / 'model'
  directory.mkdir()
  written('llama', directory)  # an empty one is free
  config, params = written('gpt2', directory, max_shard_bytes=4000)
  assert not (directory / 'model.safetensors').exists()
  assert_same(hf.load(directory, config), params)
  for path in directory.glob('*.safetensors'):
    save_file(load_file(path), path, metadata={'format': 'pt'})  # as another program would
  before = sorted(os.listdir(directory))
  with pytest.raises(ValueError, match=f'{directory} is there and was not written by rlx'):
    written('llama', directory)
  assert sorted(os.listdir(directory)) == before and os.listdir(tmp_path) == ['model']
  other = tmp_path / 'other'
  written('llama', other)
  (other / 'notes.txt').write_text('mine')
  with pytest.raises(ValueError, match='holds notes.txt, no part of a model; choose another directory'):
    written('llama', other)
  assert (other / 'notes.txt').read_text() == 'mine'
  (other / 'notes.txt').unlink()
  (other / 'model.safetensors').write_text('mine')
  with pytest.raises(ValueError, match='was not written by rlx'):
    written('llama', other)
  (tmp_path / 'file').write_text('')
  with pytest.raises(ValueError, match='was not written by rlx'):
    written('llama', tmp_path / 'file')


def test_a_failed_save_leaves_the_old_model(tmp_path, monkeypatch):
  config, params = written('llama', tmp_path / 'model')

  def fail(*arguments):
    raise OSError('disk full')

  monkeypatch.setattr(hf.safetensors, 'write', fail)
  with pytest.raises(OSError, match='disk full'):
    written('llama', tmp_path / 'model')
  assert_same(hf.load(tmp_path / 'model', config), params)


# --- export -----------------------------------------------------------------------------------------------


def test_export_keeps_everything_but_the_weights(tmp_path):
  config, params = written('llama', tmp_path / 'source')
  edit_config(tmp_path / 'source', name_of_the_model='ours')
  template = tmp_path / 'source' / 'additional_chat_templates'
  template.mkdir()
  (template / 'tool.jinja').write_text('{{ tools }}')
  texts = ('tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja', 'generation_config.json')
  for name in (*texts, 'README.md', 'pytorch_model.bin'):
    (tmp_path / 'source' / name).write_text(name)
  half = jax.tree.map(lambda x: (2 * x).astype(jnp.bfloat16), params)
  hf.export(tmp_path / 'source', tmp_path / 'out', half, config)
  beside = ['additional_chat_templates', 'config.json', 'model.safetensors']
  assert sorted(os.listdir(tmp_path / 'out')) == sorted([*texts, *beside])
  assert (tmp_path / 'out' / 'tokenizer.json').read_text() == 'tokenizer.json'
  assert (tmp_path / 'out' / 'additional_chat_templates' / 'tool.jinja').read_text() == '{{ tools }}'
  entries, source = (json.loads((tmp_path / d / 'config.json').read_text()) for d in ('out', 'source'))
  assert entries == {**source, 'dtype': 'bfloat16', 'torch_dtype': 'bfloat16'}
  assert load_file(tmp_path / 'out' / 'model.safetensors')['lm_head.weight'].dtype == ml_dtypes.bfloat16
  assert_same(hf.load(tmp_path / 'out', dataclasses.replace(config, param_dtype='bfloat16')), half)


def test_export_wants_the_shape_of_its_source(tmp_path):
  _, params = written('llama', tmp_path / 'source')
  other = dataclasses.replace(CASES['llama'][1], rope_theta=1e4)
  with pytest.raises(ValueError, match='rope_theta=10000.0 would be 500.0'):
    hf.export(tmp_path / 'source', tmp_path / 'out', params, other)


# --- as a model of a run ------------------------------------------------------------------------------------


def test_a_directory_is_a_model_of_a_run(tmp_path):
  """It has the structure of a random model, is read into the shards of a mesh, and saved as it was."""
  config, params = written('llama', tmp_path / 'source')
  model = hf.hf(
      directory=str(tmp_path / 'source'), context_length=0, dtype='float32', param_dtype='float32',
      remat=False, attention='reference', decode_attention='reference',
  )
  assert (model.functions.shape, model.source, model.stands_on) == (config, str(tmp_path / 'source'), ())
  shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
  assert shapes(jax.eval_shape(model.init, jax.random.key(0), {})) == shapes(params)
  mesh = sharding.make_mesh(data=1, fsdp=4, tensor=2)
  found = model.load(mesh)
  assert jax.tree.map(lambda x: x.sharding, found) == sharding.shardings(params, mesh, model.axes)
  (folder,) = model.save(tmp_path / 'out', found, {})
  assert folder == tmp_path / 'out' / 'model'
  assert_same(hf.load(folder, config), params)
