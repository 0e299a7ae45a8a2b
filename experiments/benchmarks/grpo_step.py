"""One GRPO step against those of TRL and tunix, interleaved: A B C A B C in one run; prints CPU-seconds, wall
time and ratios.

    python3 -m venv trl && trl/bin/pip install trl==1.16.0 torch==2.13.0
    python3 -m venv tunix && tunix/bin/pip install google-tunix==0.1.7
    python -m rlx.experiments.benchmarks.grpo_step --trl_python=trl/bin/python --tunix_python=tunix/bin/python

A decoder of 1.1 M parameters (4 layers, width 128, 512 tokens, tied, float32), 16 prompts of 32 tokens x 8
samples. Workload W: exactly 64 new tokens in every sample. Workload R: lengths that all sides are made to
take, drawn from a log-normal distribution (mean 24, at most 128). The reward is a random number and costs
nothing on any side. Each side runs in a process of its own, which waits while the others work. A side whose
interpreter is not given is left out.

Workload G is for a GPU, beside TRL: a decoder of 0.39 G parameters (24 layers, width 896, 32,000 tokens,
float32 weights, bfloat16 computation), 32 prompts of 128 tokens x 16 samples of exactly 256 new tokens, the
gradient in 16 parts.

    XLA_PYTHON_CLIENT_PREALLOCATE=false \\
      python -m rlx.experiments.benchmarks.grpo_step --trl_python=trl/bin/python --workloads=G
"""

import argparse
import json
from pathlib import Path
import subprocess
import sys
import tempfile

import numpy as np

HERE = Path(__file__).parent
VOCAB = 512
SMALL = {
    'prompts': 16, 'samples': 8, 'prompt_tokens': 32, 'parts': 1, 'context': 256, 'dtype': 'float32',
    'chunk_tokens': 2048,
}
# `packed` and `slots` are of rlx: two samples of W and their prompt fill a row; the parts that are kept are
# those in use.
WORKLOADS = {
    'W': {**SMALL, 'max_new': 64, 'slots': 0, 'packed': {'columns': 160, 'rows': 16, 'kept': 4}},
    'R': {**SMALL, 'max_new': 128, 'slots': 32, 'packed': {'columns': 192, 'rows': 8, 'kept': 3}},
    'G': {
        'prompts': 32, 'samples': 16, 'prompt_tokens': 128, 'parts': 16, 'context': 512, 'dtype': 'bfloat16',
        'chunk_tokens': 8192, 'max_new': 256, 'slots': 0, 'packed': {'columns': 2176, 'rows': 4, 'kept': 0},
    },
}


def lengths(workload: str) -> list[int]:
  """New tokens of each sample."""
  job = WORKLOADS[workload]
  number = job['prompts'] * job['samples']
  if workload != 'R':
    return [job['max_new']] * number
  sigma = 0.8
  draws = np.random.default_rng(0).lognormal(np.log(24) - sigma**2 / 2, sigma, number)
  return np.clip(np.round(draws), 1, 128).astype(int).tolist()


def main() -> None:
  arguments = _parser().parse_args()
  others = {'trl': arguments.trl_python, 'tunix': arguments.tunix_python}
  if not any(others.values()):
    raise SystemExit('nothing to compare with: give --trl_python or --tunix_python')
  for workload in arguments.workloads:
    with tempfile.TemporaryDirectory() as folder:
      write_large_model(Path(folder)) if workload == 'G' else write_model(Path(folder))
      write_job(Path(folder), workload, sampler=arguments.sampler, whole_step=True)
      sides = {'rlx': [sys.executable, '-m', 'rlx.experiments.benchmarks.rlx_side', folder]}
      sides |= {
          name: [python, str(HERE / f'{name}_side.py'), folder] for name, python in others.items() if python
      }
      show(workload, ('generate', 'step'), interleaved(sides, arguments.rounds))


def write_job(folder: Path, workload: str, *, sampler: str, whole_step: bool) -> dict:
  """Writes and returns what every side of a comparison has to know; the model is to lie in `folder/model`."""
  job = {
      **WORKLOADS[workload], 'lengths': lengths(workload), 'model': f'{folder}/model', 'sampler': sampler,
      'whole_step': whole_step,
  }
  (folder / 'job.json').write_text(json.dumps(job))
  return job


def interleaved(sides: dict[str, list[str]], rounds: int) -> dict[str, list[dict]]:
  """What each side reports of each round; a round that compiles comes first and does not count."""
  processes = {
      name: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
      for name, command in sides.items()
  }
  reports = {name: [] for name in sides}
  for index in range(rounds + 1):
    for name, process in processes.items():
      process.stdin.write('go\n')
      process.stdin.flush()
      line = next(line for line in process.stdout if line.startswith('{'))
      if index:
        reports[name].append(json.loads(line))
  for process in processes.values():
    process.stdin.close()
    process.wait()
  return reports


def show(workload: str, parts: tuple[str, ...], reports: dict[str, list[dict]]) -> None:
  """Prints the medians of each side, and what rlx took of the others'."""
  for what in parts:
    for unit in ('cpu', 'wall'):
      values = {name: np.median([row[f'{what}_{unit}'] for row in rows]) for name, rows in reports.items()}
      shown = '  '.join(f'{name} {value:.2f} s' for name, value in values.items())
      ratios = '  '.join(
          f'rlx / {name} {values["rlx"] / value:.2f}' for name, value in values.items() if name != 'rlx'
      )
      print(f'{workload} {what:<9}{unit:<5}{shown}  {ratios}', flush=True)


def write_model(folder: Path) -> None:
  """The decoder of all workloads as a Hugging Face directory, `folder/model`."""
  from rlx.experiments.init_model import init_model

  text = folder / 'text.txt'
  text.write_text(' '.join(f'{i} and {i * i}' for i in range(4000)))
  init_model(
      [text], folder / 'model', family='qwen2', vocab_size=VOCAB, layers=4, width=128, heads=4, kv_heads=2,
      mlp_size=512, context_length=256, chat_template='none', seed=0, dtype='float32',
  )


def write_large_model(folder: Path) -> None:
  """That of G; its tokenizer is learnt from words that are drawn."""
  from rlx.experiments.init_model import init_model

  text, letters = folder / 'text.txt', np.random.default_rng(0).integers(97, 123, (80_000, 7), np.uint8)
  text.write_text(' '.join(bytes(word).decode() for word in letters for _ in range(3)))
  init_model(
      [text], folder / 'model', family='qwen2', vocab_size=32_000, layers=24, width=896, heads=14, kv_heads=2,
      mlp_size=4864, context_length=512, chat_template='none', seed=0, dtype='float32',
  )


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='GRPO steps of rlx, TRL and tunix in turn.')
  parser.add_argument('--trl_python', default='', help='the interpreter of an environment with TRL')
  parser.add_argument('--tunix_python', default='', help='the interpreter of one with tunix')
  parser.add_argument('--workloads', default='WR', help='of W, R and G')
  parser.add_argument('--sampler', default='gumbel', choices=['gumbel', 'inverse_cdf'], help='of rlx')
  parser.add_argument('--rounds', type=int, default=5)
  return parser


if __name__ == '__main__':
  main()
