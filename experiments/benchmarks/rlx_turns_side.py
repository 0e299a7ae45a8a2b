"""The side of `turns_generate.py` that is rlx: answers each 'go' with what 64 episodes cost."""

import json
from pathlib import Path
import sys
import time

import jax
import jax.numpy as jnp

from rlx.engine import turns as episodes
from rlx.engine.turns import Turns
from rlx.experiments.benchmarks.rlx_side import timed
from rlx.experiments.benchmarks.turns import decoding_of, echo
from rlx.models import hf
from rlx.models.language import LanguageModel


def main(folder: str) -> None:
  job = json.loads((Path(folder) / 'job.json').read_text())
  shape = hf.shape_of(
      directory=job['model'], context_length=256, dtype='float32', param_dtype='float32', remat=False,
      attention='auto', decode_attention='auto',
  )
  params = hf.load(job['model'], shape)
  sample = jax.jit(program(job, LanguageModel(shape)))
  said = job['prompts'] * job['samples'] * job['turns'] * job['said']
  for _ in sys.stdin:
    batch, cost = timed(lambda: sample(params, jax.random.key(time.time_ns() % 2**31)))
    assert batch['action_mask'].sum() == said, 'the lengths were not kept'
    print(json.dumps({f'generate_{unit}': value for unit, value in cost.items()}), flush=True)


def program(job, model: LanguageModel):
  """Of episodes that all take the same number of turns."""
  world = echo(job['read'])
  problems = world.sample(jax.random.key(1), job['prompts'], False)
  problems |= {'turns': jnp.full(job['prompts'], job['turns'])}
  room = job['turns'] * job['said'] + (job['turns'] - 1) * job['read']

  def sample(params, key):
    return episodes.sample(
        params, model, world, problems, key, group_size=job['samples'], decoding=decoding_of(room),
        turns=Turns(job['said'], job['turns'], job['read']), num_slots=0, world_key=key,
    )

  return sample


if __name__ == '__main__':
  main(sys.argv[1])
