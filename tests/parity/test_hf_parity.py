"""Models of transformers and ours: the same logits, the same greedy tokens through our cache, both ways.

Small random models of every family and every rope scaling; contexts beyond what was "pretrained", windows
shorter than the rows, soft caps, biases, shared key and value heads, tied and untied embeddings. Where a case
fails alone, its difference to the next case is the formula that is wrong.
"""

import functools
import logging
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.models import hf, transformer
from rlx.models.language import LanguageModel

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

pytestmark = pytest.mark.parity

VOCAB, NEW_TOKENS = 96, 64
SIZES = {
    'vocab_size': VOCAB, 'hidden_size': 32, 'intermediate_size': 48, 'num_hidden_layers': 3,
    'num_attention_heads': 4, 'num_key_value_heads': 2, 'max_position_embeddings': 128,
    'bos_token_id': None, 'eos_token_id': None, 'pad_token_id': 0,
}
ROPE = {
    'linear': {'rope_type': 'linear', 'factor': 4.0},
    'dynamic': {'rope_type': 'dynamic', 'factor': 4.0},
    'llama3': {
        'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0,
        'original_max_position_embeddings': 32,
    },
    'yarn': {'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 32},
    'yarn_scaled': {
        'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 32, 'beta_fast': 4.0,
        'beta_slow': 2.0, 'mscale': 1.0, 'mscale_all_dim': 0.5, 'truncate': False,
    },
}
GEMMA = {'head_dim': 16, 'sliding_window': 5, 'query_pre_attn_scalar': 24, 'pad_token_id': 0}
SLIDING, FULL = 'sliding_attention', 'full_attention'
CASES = {  # name: (class of the config, what differs from SIZES)
    'llama': ('LlamaConfig', {}),
    'llama_biases_tied': (
        'LlamaConfig', {'attention_bias': True, 'mlp_bias': True, 'tie_word_embeddings': True, 'head_dim': 10}
    ),
    **{
        f'llama_{name}': ('LlamaConfig', {'rope_parameters': {**ROPE[name], 'rope_theta': 500.0}})
        for name in ROPE
    },
    'mistral': ('MistralConfig', {'sliding_window': 5}),
    'mistral_all_seeing': ('MistralConfig', {'sliding_window': None, 'tie_word_embeddings': True}),
    'qwen2': ('Qwen2Config', {'tie_word_embeddings': True}),
    'qwen2_windows_yarn': (
        'Qwen2Config',
        {
            'use_sliding_window': True, 'sliding_window': 5, 'max_window_layers': 1,
            'rope_parameters': {**ROPE['yarn'], 'rope_theta': 1000.0},
        },
    ),
    'qwen3': ('Qwen3Config', {'head_dim': 16, 'num_key_value_heads': 1, 'attention_bias': True}),
    'gemma2': (
        'Gemma2Config', {**GEMMA, 'attn_logit_softcapping': 5.0, 'final_logit_softcapping': 8.0}
    ),
    'gemma2_uncapped_linear': (
        'Gemma2Config',
        {
            **GEMMA, 'attn_logit_softcapping': None, 'final_logit_softcapping': None,
            'tie_word_embeddings': False, 'rope_parameters': {**ROPE['linear'], 'rope_theta': 1000.0},
        },
    ),
    'gemma3': (
        'Gemma3TextConfig',
        {
            **GEMMA, 'layer_types': [SLIDING, FULL, SLIDING], 'final_logit_softcapping': 8.0,
            'rope_parameters': {
                FULL: {**ROPE['linear'], 'rope_theta': 1000.0},
                SLIDING: {'rope_type': 'default', 'rope_theta': 100.0},
            },
        },
    ),
    'gemma3_yarn': (
        'Gemma3TextConfig',
        {
            **GEMMA, 'layer_types': [SLIDING, SLIDING, FULL],
            'rope_parameters': {
                FULL: {**ROPE['yarn'], 'rope_theta': 1000.0},
                SLIDING: {'rope_type': 'default', 'rope_theta': 100.0},
            },
        },
    ),
    'gpt2': ('GPT2Config', {'n_inner': 48}),
    'gpt2_untied': ('GPT2Config', {'tie_word_embeddings': False, 'activation_function': 'gelu'}),
    'qwen3_moe': ('Qwen3MoeConfig', {'num_experts': 5, 'num_experts_per_tok': 2, 'head_dim': 16}),
    'qwen3_moe_normalised': (
        'Qwen3MoeConfig',
        {
            'num_experts': 4, 'num_experts_per_tok': 3, 'norm_topk_prob': True, 'head_dim': 16,
            'use_sliding_window': True, 'sliding_window': 5,
        },
    ),
}
ALL = pytest.mark.parametrize('name', CASES)
LENGTHS = np.array([3, 9, 6, 1])
TOLERANCE = 1e-4  # of logits, which are around 1 to 10

forward = jax.jit(transformer.forward, static_argnums=1)
sample = jax.jit(engine.sample, static_argnums=1, static_argnames=('group_size', 'decoding'))


@pytest.fixture(scope='module')
def directories(tmp_path_factory):
  """name -> (directory that transformers wrote, its model); made when first asked for."""
  transformers.utils.logging.disable_progress_bar()
  torch.set_num_threads(1)  # more of them only wait for each other in models so small

  @functools.cache
  def make(name):
    kind, changes = CASES[name]
    sizes = {key: SIZES[key] for key in SIZES if kind != 'GPT2Config' or key.endswith(('_id', 'vocab_size'))}
    if kind == 'GPT2Config':
      sizes |= {'n_embd': 32, 'n_layer': 3, 'n_head': 4, 'n_positions': 128}
    if kind == 'Qwen3MoeConfig':
      sizes |= {'moe_intermediate_size': 24}
    config = getattr(transformers, kind)(**{**sizes, **changes})
    model = randomise(transformers.AutoModelForCausalLM.from_config(config, attn_implementation='eager'))
    directory = tmp_path_factory.mktemp(name)
    model.save_pretrained(directory)
    return directory, model

  return make


def randomise(model):
  """Every parameter, norms and biases too, so large that the likeliest token is far ahead of the next."""
  generator = torch.Generator().manual_seed(0)
  with torch.no_grad():
    for parameter in model.parameters():
      scale = 0.2
      offset = parameter if parameter.ndim == 1 else 0
      parameter.copy_(offset + scale * torch.randn(parameter.shape, generator=generator))
  return model.eval()


@functools.cache
def load(directory, dtype='float32'):
  config = hf.shape_of(
      directory=directory, context_length=0, dtype=dtype, param_dtype=dtype, remat=False, attention='auto',
      decode_attention='auto',
  )
  return config, hf.load(directory, config)


def our_logits(directory, tokens, dtype='float32'):
  config, params = load(directory, dtype)
  hidden, _ = forward(params, config, jnp.asarray(tokens, jnp.int32))
  return np.asarray(transformer.logits(params, config, hidden))


def their_logits(model, tokens, valid=None):
  """[B, T, V]; positions count what is valid, so that padding in front moves nothing."""
  arguments = {}
  if valid is not None:
    positions = np.maximum(np.cumsum(valid, axis=1) - 1, 0)
    arguments = {'attention_mask': torch.tensor(valid).long(), 'position_ids': torch.tensor(positions)}
  with torch.no_grad():
    return model(torch.tensor(tokens), **arguments).logits.float().numpy()


def random_rows(length, seed=0):
  return np.random.default_rng(seed).integers(1, VOCAB, (len(LENGTHS), length))


def left_padded(rows, lengths):
  """The first tokens of each row, moved to its end; and which columns hold them."""
  columns = np.arange(rows.shape[1])
  moved = [np.roll(row, rows.shape[1] - length) for row, length in zip(rows, lengths, strict=True)]
  valid = columns >= rows.shape[1] - lengths[:, None]
  return np.where(valid, moved, 0), valid


@ALL
def test_logits(name, directories, record_property):
  """Whole rows; and rows of other lengths, which transformers has padded behind and in front."""
  directory, model = directories(name)
  rows, lengths = random_rows(80), np.array([80, 17, 33, 1])
  ours = our_logits(directory, rows)
  errors = [np.abs(ours - their_logits(model, rows)).max()]
  valid = np.arange(80) < lengths[:, None]
  behind = their_logits(model, np.where(valid, rows, 0), valid)
  errors.append(np.abs(ours - behind)[valid].max())
  in_front = their_logits(model, *left_padded(rows, lengths))
  for row, moved, length in zip(ours, in_front, lengths, strict=True):
    errors.append(np.abs(row[:length] - moved[-length:]).max())
  record_property('error', max(errors))
  print(f'{name}: max |d logit| {max(errors):.1e} of {np.abs(ours).max():.1f}')
  assert max(errors) < TOLERANCE


@ALL
def test_greedy_tokens_through_our_cache(name, directories):
  directory, model = directories(name)
  config, params = load(directory)
  prompts = random_rows(max(LENGTHS), seed=1)
  tokens, valid = left_padded(prompts, LENGTHS)
  theirs = model.generate(
      torch.tensor(tokens), attention_mask=torch.tensor(valid).long(), do_sample=False,
      max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, output_scores=True, return_dict_in_generate=True,
  )
  best = torch.stack(theirs.scores).topk(2, dim=-1).values
  margin = float((best[..., 0] - best[..., 1]).min())
  assert margin > 2 * TOLERANCE, f'two logits are {margin} apart, and rounding may swap them: change the seed'
  greedy = Decoding(
      max_tokens=NEW_TOKENS, min_tokens=0, temperature=0.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(),
      pad_id=0,
  )
  batch = sample(
      params, LanguageModel(config), jnp.asarray(prompts, jnp.int32), jnp.asarray(LENGTHS, jnp.int32),
      jax.random.key(0),
      group_size=1, decoding=greedy,
  )
  ours = np.asarray(engine.actions(batch, batch['tokens'], NEW_TOKENS))
  np.testing.assert_array_equal(ours, theirs.sequences[:, tokens.shape[1] :].numpy())


class Messages(logging.Handler):
  """What transformers logs from warnings on."""

  def __init__(self):
    super().__init__(logging.WARNING)
    self.texts = []

  def emit(self, record):
    self.texts.append(record.getMessage())


def load_without_a_word(directory, **arguments):
  """The model of a directory, in transformers; a warning, or a tensor too few or too many, is an error."""
  messages, logger = Messages(), logging.getLogger('transformers')
  logger.addHandler(messages)
  try:
    with warnings.catch_warnings():
      warnings.simplefilter('error')
      model, info = transformers.AutoModelForCausalLM.from_pretrained(
          directory, attn_implementation='eager', output_loading_info=True, **arguments
      )
  finally:
    logger.removeHandler(messages)
  assert not messages.texts
  assert not any(info.values()), info
  return model.eval()


@ALL
def test_what_we_write_is_the_same_model_in_transformers(name, directories, tmp_path):
  """From nothing but our config, in several files."""
  directory, model = directories(name)
  config, params = load(directory)
  written = tmp_path / 'written'
  settings = {'bos_token_id': 1, 'eos_token_id': [2, 3], 'pad_token_id': 0}
  hf.save(written, params, config, family=hf.family_of(directory), settings=settings, max_shard_bytes=3e4)
  assert (written / 'model.safetensors.index.json').exists()
  again = load_without_a_word(written)
  rows = random_rows(40)
  np.testing.assert_array_equal(their_logits(again, rows), their_logits(model, rows))
  assert again.generation_config.eos_token_id == [2, 3] and again.config.pad_token_id == 0
  assert load(written)[0] == config


@pytest.mark.parametrize('name', ['llama_llama3', 'gemma3', 'gpt2', 'qwen3_moe'])
def test_what_we_export_is_the_same_model_in_transformers(name, directories, tmp_path):
  """With the config.json of the source, in bfloat16."""
  directory, _ = directories(name)
  config, params = load(directory, 'bfloat16')
  hf.export(directory, tmp_path / 'exported', params, config)
  again = load_without_a_word(tmp_path / 'exported')
  assert again.dtype == torch.bfloat16
  model = transformers.AutoModelForCausalLM.from_pretrained(
      directory, dtype=torch.bfloat16, attn_implementation='eager'
  )
  rows = random_rows(40)
  np.testing.assert_array_equal(their_logits(again, rows), their_logits(model, rows))


@pytest.mark.parametrize('name', ['llama', 'gemma2', 'gpt2', 'qwen3_moe'])
def test_bfloat16(name, directories):
  """Both compute in bfloat16: as far from each other as from float32."""
  directory, _ = directories(name)
  model = transformers.AutoModelForCausalLM.from_pretrained(
      directory, dtype=torch.bfloat16, attn_implementation='eager'
  )
  exact = transformers.AutoModelForCausalLM.from_pretrained(directory, attn_implementation='eager')
  rows = random_rows(40)
  ours, theirs = our_logits(directory, rows, 'bfloat16'), their_logits(model, rows)
  rounding = np.abs(theirs - their_logits(exact, rows)).mean()
  assert np.abs(ours - theirs).mean() < 2 * rounding < 0.2 * np.abs(theirs).mean()
