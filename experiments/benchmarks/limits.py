"""What this machine can do at most, and how much of it generation and a GRPO step reach.

    python -m rlx.experiments.benchmarks.limits

The limits are measured: float32 matrix products through jax.jit, and an array rewritten in memory. The work
of W and R (`grpo_step.py`) is counted on paper, as what is asked for and not what a program does: generation
reads a prompt once for its group, an update reads it in each row, padding is no work, and nothing is computed
twice.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
import tempfile
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.experiments.benchmarks.grpo_step import write_job, write_model
from rlx.experiments.benchmarks.rlx_side import programs, timed
from rlx.models import hf
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig

PRODUCTS = ((4096, 128, 512), (1024, 1024, 1024))  # [m, k] @ [k, n]
COPIED = 256 * 2**20  # bytes, beyond the caches
ITEM = 4  # bytes of a float32


class Work(NamedTuple):
  """What a task asks for; bytes are those that have to come from memory, where they can be counted."""

  flops: float
  bytes: float


def best_seconds(function: Callable[[], Any], rounds: int) -> float:
  """The least wall seconds of a call; a call that compiles comes first."""
  timed(function)
  return min(timed(function)[1]['wall'] for _ in range(rounds))


def product_rate(m: int, k: int, n: int, rounds: int) -> float:
  """FLOP/s of [m, k] @ [k, n] in float32."""
  left, right = jnp.ones((m, k)), jnp.ones((k, n))
  product = jax.jit(jnp.matmul)
  return 2 * m * k * n / best_seconds(lambda: product(left, right), rounds)


def copy_rate(rounds: int) -> float:
  """Bytes/s, read and written, of one pass over a large array."""
  arrays = [jnp.zeros(COPIED // ITEM)]
  negate = jax.jit(lambda x: -x, donate_argnums=0)  # in place: new memory would cost more than the copy

  def copy():
    arrays[0] = negate(arrays[0])
    return arrays[0]

  return 2 * COPIED / best_seconds(copy, rounds)


def share(work: Work, seconds: float, limits: Work) -> Work:
  """Which parts of the limits (FLOP/s and bytes/s) the work reaches in these seconds."""
  return Work(*(done / seconds / limit for done, limit in zip(work, limits, strict=True)))


def generation(config: TransformerConfig, num_params: int, job: dict) -> Work:
  """Prompts read once, every further token decoded, logits where a token is drawn.

  Bytes are the least that must move: the parameters once for the prompts and once a decoding step, of which
  the longest row and the slots ask for so many, and the keys and values of a row's own tokens for each token
  that attends to them. Those of the prompts are left out: how often they are read is the program's choice.
  """
  lengths = np.array(job['lengths'])
  size, decoded = job['prompt_tokens'], lengths - 1  # the last token is never read
  blocks, unembedding = _params(config, num_params)
  read = job['prompts'] * size + decoded.sum()
  own = (decoded * (decoded + 1) // 2).sum()  # pairs of a decoded token and one before it, or itself
  pairs = job['prompts'] * size * (size + 1) // 2 + own + (decoded * size).sum()
  flops = 2 * blocks * read + 2 * unembedding * lengths.sum() + _attention(config, pairs)
  steps = max(decoded.max(), decoded.sum() / (job['slots'] or len(lengths)))
  key_values = 2 * config.num_layers * config.num_kv_heads * config.head_size
  return Work(flops, ITEM * (num_params * (1 + steps) + key_values * own))


def update(config: TransformerConfig, num_params: int, job: dict) -> Work:
  """A forward and a backward pass, the latter twice the former, over every row; bytes are not counted."""
  lengths = np.array(job['lengths'])
  blocks, unembedding = _params(config, num_params)
  rows = job['prompt_tokens'] + lengths - 1  # the last token is predicted, not read
  pairs = (rows * (rows + 1) // 2).sum()
  forward = 2 * blocks * rows.sum() + 2 * unembedding * lengths.sum() + _attention(config, pairs)
  return Work(3 * forward, 0)


def _params(config, num_params):
  """Parameters of the blocks, and of the unembedding, which is tied."""
  unembedding = config.vocab_size * config.width
  return num_params - unembedding, unembedding


def _attention(config, pairs):
  """FLOPs of the scores and the weighted values of so many pairs of tokens."""
  return 4 * config.num_layers * config.num_heads * config.head_size * pairs


def main() -> None:
  arguments = _parser().parse_args()
  rates = {shape: product_rate(*shape, arguments.rounds) for shape in PRODUCTS}
  for shape, rate in rates.items():
    print('product {} x {} x {}: {:.1f} GFLOP/s'.format(*shape, rate / 1e9), flush=True)
  limits = Work(max(rates.values()), copy_rate(arguments.rounds))
  print(f'memory: {limits.bytes / 1e9:.1f} GB/s', flush=True)
  with tempfile.TemporaryDirectory() as folder:
    write_model(Path(folder))
    for workload in arguments.workloads:
      job = write_job(Path(folder), workload, sampler=arguments.sampler, whole_step=True)
      _show(workload, job, limits, arguments.rounds)


def _show(workload: str, job: dict, limits: Work, rounds: int) -> None:
  config = hf.shape_of(
      directory=job['model'], context_length=job['context'], dtype=job['dtype'], param_dtype='float32',
      remat=False, attention='auto', decode_attention='auto',
  )
  params = hf.load(job['model'], config)
  num_params = sum(x.size for x in jax.tree.leaves(params))
  sample, train_step, state = programs(job, LanguageModel(config), params)
  costs = {'generate': [], 'step': []}
  for _ in range(rounds + 1):  # the first of them compiles
    key = jax.random.key(time.time_ns() % 2**31)
    costs['generate'].append(timed(lambda key=key: sample(state.params['policy'], key))[1]['wall'])
    (state, _), cost = timed(lambda: train_step(state))
    costs['step'].append(cost['wall'])
  generated, trained = (count(config, num_params, job) for count in (generation, update))
  works = {'generate': generated, 'step': Work(generated.flops + trained.flops, 0)}
  for what, work in works.items():
    seconds = float(np.median(costs[what][1:]))
    reached = share(work, seconds, limits)
    line = f'{work.flops / 1e9:.1f} GFLOP: {reached.flops:.1%} of the products'
    if work.bytes:
      line += f'  {work.bytes / 1e9:.2f} GB: {reached.bytes:.1%} of the memory'
    print(f'{workload} {what:<9}{seconds:.2f} s  {line}', flush=True)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description="This machine's limits, and the shares that W and R reach.")
  parser.add_argument('--workloads', default='WR', help='of W and R')
  parser.add_argument('--sampler', default='gumbel', choices=['gumbel', 'inverse_cdf'])
  parser.add_argument('--rounds', type=int, default=5)
  return parser


if __name__ == '__main__':
  main()
