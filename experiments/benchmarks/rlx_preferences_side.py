"""The side of `preference_step.py` that is rlx: answers each 'go' with what a step cost."""

import functools
import json
from pathlib import Path
import sys

import jax
import jax.numpy as jnp

from rlx import optimizers, sharding
from rlx.algorithms.bradley_terry import bradley_terry
from rlx.algorithms.dpo import dpo
from rlx.data.dataset import dataset
from rlx.engine.decoding import Decoding
from rlx.engine.packing import Packing
from rlx.engine.speaker import Judge, Scoring, Speaker
from rlx.experiments.benchmarks.rlx_side import timed
from rlx.losses import preference
from rlx.models import heads, hf
from rlx.models.language import LanguageModel
from rlx.rollout import pairs
from rlx.run.stored import stored
from rlx.step import make_train_step
from rlx.types import State


def main(folder: str) -> None:
  job = json.loads((Path(folder) / 'job.json').read_text())
  step, state, data = program(job)
  for _ in sys.stdin:
    (state, metrics), cost = timed(lambda state=state: step(state, data))
    assert jnp.isfinite(metrics['loss/total'])
    print(json.dumps({f'step_{unit}': value for unit, value in cost.items()}), flush=True)


def program(job: dict):
  """The compiled step, its state, and the data set."""
  shape = hf.shape_of(
      directory=job['model'], context_length=256, dtype='float32', param_dtype='float32', remat=False,
      attention='auto', decode_attention='auto',
  )
  params, model = hf.load(job['model'], shape), LanguageModel(shape)
  task = dataset(
      directory=job['model'], train=job['pairs'], held_out='', columns={}, chat=False, system='',
      max_prompt_tokens=job['prompt_tokens'], max_completion_tokens=job['answer_tokens'], malformed='strict',
  )
  rows = 2 * job['batch']
  scoring = Scoring(chunk_tokens=2048, packing=Packing(share_prompts=True, **job['packed']))
  if job['method'] == 'reward':
    judge = heads.reward_head(model)
    algorithm = bradley_terry(
        pairs.judged_comparisons(task, batch_size=rows), Judge(head=judge.functions, scoring=scoring)
    )
    trained, slow = {'judge': judge.init(jax.random.key(0), {'policy': params})}, {}
  else:
    policy = Speaker(
        model=model, scoring=scoring,
        decoding=Decoding(
            max_tokens=job['answer_tokens'], min_tokens=0, temperature=1.0, top_k=0, top_p=1.0,
            sampler='gumbel', eos_ids=task.eos_ids, pad_id=task.pad_id,
        ),
    )
    reference, slow = policy, {'reference': jax.tree.map(jnp.copy, params)}
    if job['method'] == 'stored':
      kept = stored(task, LanguageModel(shape, job['model']), file=f'{job["pairs"]}.npz', batch_size=rows)
      mesh = sharding.make_mesh(data=1, fsdp=1, tensor=1)
      reference, slow = kept.functions, {'reference': kept.load(mesh)}
    algorithm = dpo(
        pairs.comparisons(task, policy, batch_size=rows), policy, reference,
        loss=functools.partial(preference.sigmoid, beta=0.1),
    )
    trained = {'policy': params}
  optimizer = optimizers.adamw(
      learning_rate=1e-5, warmup_steps=0, decay_steps=0, final_fraction=1.0, b1=0.9, b2=0.95, eps=1e-8,
      weight_decay=0.0, clip_norm=1.0,
  )
  step = make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)
  state = State(
      step=jnp.int32(0), params=trained, slow=slow, opt_state=optimizer.init(trained),
      world=task.begin(jax.random.key(1)), key=jax.random.key(0),
  )
  return jax.jit(step, donate_argnums=0), jax.device_put(state, jax.devices()[0]), task.data


if __name__ == '__main__':
  main(sys.argv[1])
