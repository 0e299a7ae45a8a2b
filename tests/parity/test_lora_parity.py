"""LoRA against torch: adapters put by hand on a model of transformers do what they do here."""

import dataclasses
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.models import hf, lora, peft, transformer
from rlx.models.adapters import Lora
from rlx.models.transformer import TransformerConfig

torch = pytest.importorskip('torch')
pytestmark = pytest.mark.parity

LLAMA = TransformerConfig(
    vocab_size=40, num_layers=3, width=24, num_heads=4, num_kv_heads=2, head_size=8, mlp_size=30,
    context_length=32, tied=False,
)
GPT2 = dataclasses.replace(
    LLAMA, num_kv_heads=4, head_size=6, mlp_size=96, norm='layernorm', norm_eps=1e-5, positions='learned',
    activation='gelu_tanh', gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, tied=True,
)
CASES = {
    'llama': (LLAMA, 'layers/(query|key|value|attention_out|gate|up|down)', 'final_norm/scale|unembedding'),
    'qwen2': (dataclasses.replace(LLAMA, qkv_bias=True, tied=True), 'layers/(key|attention_out)', ''),
    'gpt2': (GPT2, 'layers/(attention_out|up|down)', 'final_norm/.*'),
}
TOKENS = np.random.default_rng(0).integers(0, 40, (2, 9))
every_family = pytest.mark.parametrize('family', CASES)


def ours(params, config):
  hidden, _ = transformer.forward(params, config, jnp.asarray(TOKENS))
  return transformer.logits(params, config, hidden)


def theirs(directory, tensors=None, scale=0.0):
  """Logits of transformers; with the tensors of a PEFT directory put on by its own formula, W + s B A."""
  from transformers import AutoModelForCausalLM

  model = AutoModelForCausalLM.from_pretrained(directory).eval()
  with torch.no_grad():
    for name, tensor in (tensors or {}).items():
      path, _, part = name.removeprefix('base_model.model.').partition('.lora_')
      if part == 'A.weight':
        module = model.get_submodule(path)
        update = scale * tensors[name.replace('lora_A', 'lora_B')] @ tensor
        module.weight += update.T if type(module).__name__ == 'Conv1D' else update  # which keeps [in, out]
      elif not part:
        model.get_parameter(path).copy_(tensor)
    return model(torch.tensor(TOKENS)).logits.numpy()


@functools.cache
def a_base(family):
  return jax.jit(functools.partial(transformer.init, config=CASES[family][0]))(jax.random.key(0))


@pytest.fixture
def base_directory(family, tmp_path):
  hf.save(tmp_path / 'base', a_base(family), CASES[family][0], family=family, settings={})
  return tmp_path / 'base'


@every_family
def test_a_directory_of_ours_is_the_same_model_to_them(family, base_directory, tmp_path):
  from safetensors.torch import load_file

  config, targets, full = CASES[family]
  what = Lora(rank=4, alpha=6.0, targets=targets, full=full)
  rng = np.random.default_rng(1)
  adapters = jax.tree.map(
      lambda x: x + 0.1 * rng.normal(size=x.shape).astype(np.float32),
      lora.init(jax.random.key(1), a_base(family), what),
  )
  peft.save(tmp_path / 'adapters', adapters, what, config, family=family, base_model=str(base_directory))
  tensors = load_file(tmp_path / 'adapters' / 'adapter_model.safetensors')
  expected = theirs(base_directory, tensors, scale=6 / 4)
  assert np.abs(expected - theirs(base_directory)).max() > 0.5
  np.testing.assert_allclose(ours(lora.attach(a_base(family), adapters, what), config), expected, atol=1e-4)
  merged = lora.merge(a_base(family), adapters, what)
  hf.save(tmp_path / 'merged', merged, config, family=family, settings={})
  np.testing.assert_allclose(theirs(tmp_path / 'merged'), expected, atol=1e-4)


@every_family
def test_a_directory_of_theirs_is_the_same_model_to_us(family, base_directory, tmp_path):
  """Written by hand as PEFT does: names of the model's modules, half precision, a few more settings."""
  from safetensors.torch import save_file
  from transformers import AutoModelForCausalLM

  config, _, full = CASES[family]
  targets = ['c_fc', 'attn.c_proj'] if family == 'gpt2' else ['q_proj', 'down_proj']
  saved = (['ln_f'] if family == 'gpt2' else ['model.norm']) if full else None
  generator = torch.Generator().manual_seed(0)
  model = AutoModelForCausalLM.from_pretrained(base_directory)
  tensors = {}
  for name, module in model.named_modules():
    normal = lambda *shape: (0.2 * torch.randn(shape, generator=generator)).half()
    if name.endswith(tuple(f'.{target}' for target in targets)):
      num_in, num_out = module.weight.shape if family == 'gpt2' else module.weight.shape[::-1]
      tensors[f'base_model.model.{name}.lora_A.weight'] = normal(2, num_in)
      tensors[f'base_model.model.{name}.lora_B.weight'] = normal(num_out, 2)
    if name.endswith(tuple(saved or ())) and saved:
      tensors |= {f'base_model.model.{name}.{k}': normal(*v.shape) for k, v in module.state_dict().items()}
  assert len(tensors) == 2 * 2 * 3 + (len(saved) * (1 + (family == 'gpt2')) if saved else 0)
  directory = tmp_path / 'adapters'
  directory.mkdir()
  save_file(tensors, directory / 'adapter_model.safetensors', metadata={'format': 'pt'})
  settings = {
      'peft_type': 'LORA', 'r': 2, 'lora_alpha': 3, 'target_modules': targets, 'modules_to_save': saved,
      'lora_dropout': 0.05, 'bias': 'none', 'fan_in_fan_out': family == 'gpt2', 'use_rslora': False,
      'rank_pattern': {}, 'layers_to_transform': None, 'peft_version': '0.18.0', 'task_type': 'CAUSAL_LM',
  }
  (directory / 'adapter_config.json').write_text(json.dumps(settings))
  adapters, what = peft.load(directory, config, family=family)
  assert (what.rank, what.alpha) == (2, 3)
  expected = theirs(base_directory, {name: x.float() for name, x in tensors.items()}, scale=3 / 2)
  np.testing.assert_allclose(ours(lora.attach(a_base(family), adapters, what), config), expected, atol=1e-4)
