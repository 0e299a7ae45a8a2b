"""The side of `generate.py` that is tunix, in an environment of its own: no import of rlx.

Reads 'go' lines; answers each with what generation cost. Its sampler decodes all rows until the last one has
ended and takes no lengths: it is asked for the longest and given no end token, which costs it the same.
"""

import json
import pathlib
import resource
import sys
import time

import jax
import jax.numpy as jnp
from transformers import PreTrainedTokenizerFast
from tunix.generate.sampler import CacheConfig, Sampler
from tunix.models.qwen2 import model as qwen2
from tunix.models.qwen2 import params as qwen2_params


def load(directory):
  shape = json.loads((pathlib.Path(directory) / 'config.json').read_text())
  config = qwen2.ModelConfig(
      num_layers=shape['num_hidden_layers'], vocab_size=shape['vocab_size'], embed_dim=shape['hidden_size'],
      hidden_dim=shape['intermediate_size'], num_heads=shape['num_attention_heads'],
      head_dim=shape['hidden_size'] // shape['num_attention_heads'],
      num_kv_heads=shape['num_key_value_heads'], rope_theta=shape['rope_parameters']['rope_theta'],
      norm_eps=shape['rms_norm_eps'], use_tied_embedding=shape['tie_word_embeddings'],
      dtype=jnp.float32, param_dtype=jnp.float32,
  )
  mesh = jax.make_mesh((1, 1), ('fsdp', 'tp'), axis_types=(jax.sharding.AxisType.Auto,) * 2)
  return config, qwen2_params.create_model_from_safe_tensors(directory, config, mesh, dtype=jnp.float32)


def main(folder):
  job = json.loads((pathlib.Path(folder) / 'job.json').read_text())
  config, model = load(job['model'])
  tokenizer = PreTrainedTokenizerFast.from_pretrained(job['model'])
  longest, size = max(job['lengths']), job['prompt_tokens']
  cache = CacheConfig(
      cache_size=size + longest, num_layers=config.num_layers, num_kv_heads=config.num_kv_heads,
      head_dim=config.head_dim,
  )
  sampler = Sampler(model, tokenizer, cache)
  ids = tokenizer(' '.join(str(i) for i in range(10_000)))['input_ids']
  texts = [tokenizer.decode(ids[100 * i : 100 * i + size]) for i in range(200)]
  texts = [text for text in texts if len(tokenizer(text)['input_ids']) == size][: job['prompts']]
  texts = [text for text in texts for _ in range(job['samples'])]
  assert len(texts) == len(job['lengths'])
  usage = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
  for _ in sys.stdin:
    cpu, wall = usage(), time.monotonic()
    out = sampler(
        texts, max_generation_steps=longest, max_prompt_length=size, temperature=1.0, top_p=1.0,
        eos_tokens=[config.vocab_size], seed=time.time_ns() % 2**31,
    )
    row = {'generate_cpu': usage() - cpu, 'generate_wall': time.monotonic() - wall}
    assert all(len(tokens) == longest for tokens in out.tokens), 'the lengths were not kept'
    print(json.dumps(row), flush=True)


if __name__ == '__main__':
  main(sys.argv[1])
