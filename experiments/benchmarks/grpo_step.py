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
"""

import argparse
import json
from pathlib import Path
import subprocess
import sys
import tempfile

import numpy as np

HERE = Path(__file__).parent
PROMPTS, SAMPLES, PROMPT_TOKENS, VOCAB = 16, 8, 32, 512
MAX_NEW = {'W': 64, 'R': 128}
SLOTS = {'W': 0, 'R': 32}
PACKED = {  # of rlx: two samples of W and their prompt fill a row; the parts that are kept are those in use
    'W': {'columns': 160, 'rows': 16, 'kept': 4}, 'R': {'columns': 192, 'rows': 8, 'kept': 3},
}


def lengths(workload: str) -> list[int]:
  """New tokens of each of the 128 samples."""
  if workload == 'W':
    return [64] * (PROMPTS * SAMPLES)
  sigma = 0.8
  draws = np.random.default_rng(0).lognormal(np.log(24) - sigma**2 / 2, sigma, PROMPTS * SAMPLES)
  return np.clip(np.round(draws), 1, 128).astype(int).tolist()


def main() -> None:
  arguments = _parser().parse_args()
  others = {'trl': arguments.trl_python, 'tunix': arguments.tunix_python}
  if not any(others.values()):
    raise SystemExit('nothing to compare with: give --trl_python or --tunix_python')
  with tempfile.TemporaryDirectory() as folder:
    write_model(Path(folder))
    for workload in arguments.workloads:
      write_job(Path(folder), workload, sampler=arguments.sampler, whole_step=True)
      sides = {'rlx': [sys.executable, '-m', 'rlx.experiments.benchmarks.rlx_side', folder]}
      sides |= {
          name: [python, str(HERE / f'{name}_side.py'), folder] for name, python in others.items() if python
      }
      show(workload, ('generate', 'step'), interleaved(sides, arguments.rounds))


def write_job(folder: Path, workload: str, *, sampler: str, whole_step: bool) -> dict:
  """Writes and returns what every side of a comparison has to know; the model is to lie in `folder/model`."""
  job = {
      'lengths': lengths(workload), 'max_new': MAX_NEW[workload], 'slots': SLOTS[workload],
      'packed': PACKED[workload],
      'model': f'{folder}/model', 'prompts': PROMPTS, 'samples': SAMPLES, 'prompt_tokens': PROMPT_TOKENS,
      'sampler': sampler, 'whole_step': whole_step,
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


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='GRPO steps of rlx, TRL and tunix in turn.')
  parser.add_argument('--trl_python', default='', help='the interpreter of an environment with TRL')
  parser.add_argument('--tunix_python', default='', help='the interpreter of one with tunix')
  parser.add_argument('--workloads', default='WR', help='of W and R')
  parser.add_argument('--sampler', default='gumbel', choices=['gumbel', 'inverse_cdf'], help='of rlx')
  parser.add_argument('--rounds', type=int, default=5)
  return parser


if __name__ == '__main__':
  main()
