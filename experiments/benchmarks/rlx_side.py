"""The side of `grpo_step.py` and `generate.py` that is rlx: answers each 'go' with what was taken."""

import functools
import json
from pathlib import Path
import resource
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from rlx import optimizers
from rlx.algorithms.grpo import grpo
from rlx.engine.decoding import Decoding
from rlx.engine.packing import Packing
from rlx.engine.speaker import Scoring, Speaker
from rlx.losses.anchors import no_kl
from rlx.models import hf
from rlx.models.language import LanguageModel
from rlx.step import make_train_step
from rlx.types import State


def main(folder: str) -> None:
  job = json.loads((Path(folder) / 'job.json').read_text())
  shape = hf.shape_of(
      directory=job['model'], context_length=job['context'], dtype=job['dtype'], param_dtype='float32',
      remat=False, attention='auto', decode_attention='auto',
  )
  params = hf.load(job['model'], shape)
  sample, train_step, state = programs(job, LanguageModel(shape), params)
  for _ in sys.stdin:
    row = {}
    out, cost = timed(lambda: sample(state.params['policy'], jax.random.key(time.time_ns() % 2**31)))
    row |= {f'generate_{unit}': value for unit, value in cost.items()}
    counts = np.asarray(out['action_mask'].sum(axis=1)).tolist()
    assert counts == job['lengths'], 'the lengths were not kept'
    if job['whole_step']:
      (state, _), cost = timed(lambda state=state: train_step(state))
      row |= {f'step_{unit}': value for unit, value in cost.items()}
    print(json.dumps(row), flush=True)


def programs(job, model: LanguageModel, params):
  """The compiled rollout, the compiled step, and the state."""
  decoding = Decoding(
      max_tokens=job['max_new'], min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler=job['sampler'],
      eos_ids=(), pad_id=0,
  )
  packing = Packing(share_prompts=True, **job['packed'])
  scoring = Scoring(chunk_tokens=job['chunk_tokens'], packing=packing)
  policy = Speaker(model=model, decoding=decoding, scoring=scoring)
  budgets = jnp.array(job['lengths'], jnp.int32)  # no end token: rows end where they are told to
  shape = (job['prompts'], job['prompt_tokens'])
  prompts = jax.random.randint(jax.random.key(1), shape, 3, model.vocab_size)
  lengths = jnp.full(job['prompts'], job['prompt_tokens'], jnp.int32)
  sample = functools.partial(
      policy.sample, prompts=prompts, prompt_lengths=lengths, group_size=job['samples'],
      num_slots=job['slots'], budgets=budgets,
  )

  def rollout(models, world, key):
    return sample(models['policy'], key=key), world

  def reward(models, batch, key):
    return {**batch, 'rewards': jax.random.uniform(key, (len(job['lengths']),))}

  algorithm = grpo(rollout, reward, policy, no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0)
  optimizer = optimizers.adamw(
      learning_rate=1e-5, warmup_steps=0, decay_steps=0, final_fraction=1.0, b1=0.9, b2=0.95, eps=1e-8,
      weight_decay=0.0, clip_norm=1.0,
  )
  step = make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)
  models = {'policy': params}
  state = State(
      step=jnp.int32(0), params=models, slow={}, opt_state=optimizer.init(models), world={},
      key=jax.random.key(0),
  )
  state = jax.device_put(state, jax.devices()[0])  # as what comes out: or the step would compile twice
  return jax.jit(lambda params, key: sample(params, key=key)), jax.jit(step, donate_argnums=0), state


def timed(function):
  """The result, and CPU-seconds of all threads and wall time."""
  usage = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
  cpu, wall = usage(), time.monotonic()
  result = jax.block_until_ready(function())
  return result, {'cpu': usage() - cpu, 'wall': time.monotonic() - wall}


if __name__ == '__main__':
  main(sys.argv[1])
