"""Speculative decoding against plain decoding, interleaved: A B A B in one run, CPU-seconds and wall time.

    python -m rlx.experiments.benchmarks.speculate

A random decoder of 1.1 M parameters (4 layers, width 128, 512 tokens, tied, float32), 32 prompt tokens and
128 new ones a row. The drafter is its first block. How often that one is right is set by how much the other
three blocks add: nothing (`always`: the most there is to win) or a little (`often`). `ngram` looks tokens up
where a greedy policy of one block goes in circles. The rows of a workload are all live at once; in `ragged`,
64 rows have budgets from a log-normal distribution (mean 24, at most 128), and drafts are tried once 8 are
left. There, `narrow` is what it is worth to move the 8 together: its drafts, n-grams, are hardly ever right.

On two busy CPU cores (AMD EPYC), CPU-seconds of plain / speculative decoding with 4 drafts a step:

    rows          1     4    16   ragged
    always     1.89  1.32  1.23     1.59
    often      1.28  0.78  0.63     1.49   (2.2 of 4 drafts right; 1.6 in `ragged`)
    ngram      2.74  2.59  1.73            (3.8 of 4 drafts right)
    narrow                          1.25

So a draft model is worth it for one row, and drafts of which 2.2 in 4 are right cost more than they save from
four rows on: a CPU is busy with so few. Nearly half of what `ragged` gains is that empty slots are no longer
computed. (Its ratios varied most between runs: 1.3 to 1.6 for `always`.)
"""

import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

from rlx.engine import speculate
from rlx.engine.decoding import Decoding
from rlx.engine.sample import sample
from rlx.engine.speculate import Speculation
from rlx.experiments.benchmarks.grpo_step import lengths
from rlx.models import drafter
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params, TransformerConfig

PROMPT_TOKENS, NEW_TOKENS = 32, 128
MODEL = LanguageModel(TransformerConfig(
    vocab_size=512, num_layers=4, width=128, num_heads=4, num_kv_heads=2, head_size=32, mlp_size=512,
    context_length=256,
))
DRAFTED = 1  # blocks of the drafter
DRAFTER = drafter.drafter(MODEL, num_layers=DRAFTED)
REST = {'always': 0.0, 'often': 0.25, 'ngram': 0.0, 'narrow': 1.0}  # what the other blocks add, scaled by it
RAGGED_ROWS, RAGGED_LIVE = 64, 8


def policy(scale: float) -> Params:
  """Random parameters, the later blocks of which add `scale` times what they would."""
  params = MODEL.init(jax.random.key(0))
  layers = dict(params['layers'])
  for name in ('attention_out', 'down'):
    layers[name] = layers[name].at[DRAFTED:].multiply(scale)
  return {**params, 'layers': layers}


def program(kind: str, num_rows: int, max_live: int, draft_tokens: int):
  """`budgets -> batch`, compiled; plain where `draft_tokens` is 0."""
  params = policy(REST[kind])
  decoding = Decoding(
      max_tokens=NEW_TOKENS, min_tokens=0, temperature=0.0 if kind == 'ngram' else 1.0, top_k=0, top_p=1.0,
      sampler='gumbel', eos_ids=(), pad_id=0,
  )
  prompts = jax.random.randint(jax.random.key(1), (num_rows, PROMPT_TOKENS), 0, MODEL.vocab_size)

  def guess(params):
    if kind in ('ngram', 'narrow'):
      return speculate.ngram(longest=3)
    drafted = DRAFTER.init(jax.random.key(0), {'policy': params})
    return speculate.by_model(drafted, DRAFTER.functions)

  @jax.jit
  def run(params, budgets):
    return sample(
        params, MODEL, prompts, jnp.full(num_rows, PROMPT_TOKENS), jax.random.key(2), group_size=1,
        decoding=decoding, num_slots=num_rows, budgets=budgets,
        speculation=Speculation(guess(params), draft_tokens, max_live) if draft_tokens else None,
    )

  return functools.partial(run, params)


def measure(kind: str, num_rows: int, max_live: int, draft_tokens: int, budgets, rounds: int) -> str:
  """A line: plain and speculative time a batch, their ratios, and how many drafts were right."""
  runs = [program(kind, num_rows, max_live, k) for k in (0, draft_tokens)]
  batches = [jax.block_until_ready(run(budgets)) for run in runs]
  assert np.array_equal(batches[0]['tokens'], batches[1]['tokens']), 'speculation changed what was said'
  times = np.array([[_timed(run, budgets) for run in runs] for _ in range(rounds)])  # [rounds, 2, 2]
  (plain_cpu, plain_wall), (cpu, wall) = np.median(times, axis=0)
  accepted = np.nanmean(batches[1]['speculation/accepted'])
  return (
      f'plain {plain_cpu:5.2f} CPU-s {plain_wall:5.2f} s   speculative {cpu:5.2f} CPU-s {wall:5.2f} s   '
      f'plain / speculative {plain_cpu / cpu:4.2f} CPU, {plain_wall / wall:4.2f} wall   '
      f'{accepted:.2f} of {draft_tokens} drafts right, {batches[1]["speculation/steps"][0]:.0f} steps'
  )


def _timed(run, budgets) -> tuple[float, float]:
  """CPU-seconds and seconds."""
  cpu, wall = time.process_time(), time.perf_counter()
  jax.block_until_ready(run(budgets))
  return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
  arguments = _parser().parse_args()
  for kind in ('always', 'often', 'ngram'):
    for live in arguments.live:
      budgets = jnp.full(live, NEW_TOKENS)
      line = measure(kind, live, live, arguments.draft_tokens, budgets, arguments.rounds)
      print(f'{kind:<7}{live:3} rows   {line}', flush=True)
  budgets = jnp.array(lengths('R')[:RAGGED_ROWS])
  for kind in ('always', 'often', 'narrow'):
    line = measure(kind, RAGGED_ROWS, RAGGED_LIVE, arguments.draft_tokens, budgets, arguments.rounds)
    print(f'{kind:<7} ragged    {line}', flush=True)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='Speculative and plain decoding in turn.')
  parser.add_argument('--live', type=int, nargs='*', default=[1, 4, 16], help='rows at a time')
  parser.add_argument('--draft_tokens', type=int, default=4)
  parser.add_argument('--rounds', type=int, default=5)
  return parser


if __name__ == '__main__':
  main()
