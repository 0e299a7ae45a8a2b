"""The side of `generate.py` and `grpo_step.py` that is tunix, in an environment of its own: no import of rlx.

Reads 'go' lines; answers each with what generation and, if asked for, the whole step cost. Its sampler
decodes all rows until the last one has ended and takes no lengths: it is asked for the longest and given no
end token, which costs it the same. In a whole step the rows are then cut to their lengths, before the learner
masks them; it masks by the pad token, so one that was drawn (one in 400) does not count.
"""

import json
import pathlib
import random
import resource
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from transformers import PreTrainedTokenizerFast
from tunix.generate.sampler import CacheConfig, Sampler
from tunix.models.qwen2 import model as qwen2
from tunix.models.qwen2 import params as qwen2_params
from tunix.rl.grpo.grpo_learner import GRPOConfig, GRPOLearner
from tunix.rl.rl_cluster import ClusterConfig, RLCluster, RLTrainingConfig, Role
from tunix.rl.rollout.base_rollout import RolloutConfig


class Clock:
  """CPU-seconds of all threads and wall time since it was made."""

  def __init__(self):
    self.cpu, self.wall = self._cpu(), time.monotonic()

  def _cpu(self):
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])

  def read(self, name):
    return {f'{name}_cpu': self._cpu() - self.cpu, f'{name}_wall': time.monotonic() - self.wall}


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
  model = qwen2_params.create_model_from_safe_tensors(directory, config, mesh, dtype=jnp.float32)
  return mesh, config, model


def main(folder):
  job = json.loads((pathlib.Path(folder) / 'job.json').read_text())
  mesh, config, model = load(job['model'])
  tokenizer = PreTrainedTokenizerFast.from_pretrained(job['model'])
  size = job['prompt_tokens']
  ids = tokenizer(' '.join(str(i) for i in range(10_000)))['input_ids']
  texts = [tokenizer.decode(ids[100 * i : 100 * i + size]) for i in range(200)]
  texts = [text for text in texts if len(tokenizer(text)['input_ids']) == size][: job['prompts']]
  assert len(texts) * job['samples'] == len(job['lengths'])
  if job['whole_step']:
    steps(job, mesh, config, model, tokenizer, texts)
  else:
    generations(job, config, model, tokenizer, texts)


def generations(job, config, model, tokenizer, texts):
  """One call of the sampler a turn."""
  longest, size = max(job['lengths']), job['prompt_tokens']
  cache = CacheConfig(
      cache_size=size + longest, num_layers=config.num_layers, num_kv_heads=config.num_kv_heads,
      head_dim=config.head_dim,
  )
  sampler = Sampler(model, tokenizer, cache)
  texts = [text for text in texts for _ in range(job['samples'])]
  for _ in sys.stdin:
    clock = Clock()
    out = sampler(
        texts, max_generation_steps=longest, max_prompt_length=size, temperature=1.0, top_p=1.0,
        eos_tokens=[config.vocab_size], seed=time.time_ns() % 2**31,
    )
    row = clock.read('generate')
    assert all(len(tokens) == longest for tokens in out.tokens), 'the lengths were not kept'
    print(json.dumps(row), flush=True)


def steps(job, mesh, config, model, tokenizer, texts):
  """One pass of the learner's own loop a turn: it asks for its prompts when the step before is done."""
  longest, size = max(job['lengths']), job['prompt_tokens']
  rollout = RolloutConfig(
      max_tokens_to_generate=longest, max_prompt_length=size, kv_cache_size=size + longest, temperature=1.0,
      top_p=1.0, eos_tokens=[config.vocab_size],
  )
  training = RLTrainingConfig(
      actor_optimizer=optax.chain(
          optax.clip_by_global_norm(1.0), optax.adamw(1e-5, b1=0.9, b2=0.95, weight_decay=0.0)
      ),
      mini_batch_size=job['prompts'], train_micro_batch_size=job['prompts'] // 4,  # 4 parts as rlx
      rollout_micro_batch_size=job['prompts'], compute_logps_micro_batch_size=job['prompts'],
      eval_every_n_steps=10**6, max_steps=10**6,
  )
  cluster = RLCluster(
      actor=model, tokenizer=tokenizer,
      cluster_config=ClusterConfig(
          role_to_mesh={Role.ACTOR: mesh, Role.ROLLOUT: mesh}, rollout_engine='vanilla',
          rollout_config=rollout, training_config=training,
      ),
  )
  row, generate = {}, cluster.rollout.generate

  def timed(*args, **kwargs):
    clock = Clock()
    out = generate(*args, **kwargs)
    row.update(clock.read('generate'))
    assert out.left_padded_prompt_tokens.shape == (len(job['lengths']), size)
    assert all(len(tokens) == longest for tokens in out.tokens), 'the lengths were not kept'
    out.tokens = [tokens[:length] for tokens, length in zip(out.tokens, job['lengths'], strict=True)]
    return out

  def turns():
    for turn, _ in enumerate(sys.stdin):
      rollout.seed = time.time_ns() % 2**31
      if turn == 0:
        yield {'prompts': np.array(texts)}  # the second step compiles too, and neither is to count
      clock = Clock()
      yield {'prompts': np.array(texts)}
      print(json.dumps(row | clock.read('step')), flush=True)

  cluster.rollout.generate = timed
  learner = GRPOLearner(
      cluster, GRPOConfig(num_generations=job['samples'], num_iterations=1, beta=0.0, epsilon=0.2),
      reward_fns=lambda prompts, completions, **columns: [random.random() for _ in completions],
  )
  learner.train(turns())


if __name__ == '__main__':
  main(sys.argv[1])
