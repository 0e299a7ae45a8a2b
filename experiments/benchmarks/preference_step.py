"""A DPO step and a reward-model step against TRL's, interleaved: A B A B in one run; prints CPU-seconds, wall
time and ratios.

    python3 -m venv trl && trl/bin/pip install trl==1.16.0 torch==2.13.0
    python -m rlx.experiments.benchmarks.preference_step --trl_python=trl/bin/python

The decoder of `grpo_step.py` (1.1 M parameters) on 16 comparisons a step, prompts of 32 tokens. Workload W:
every answer has 64 tokens, a row 96. Workload R: answers from a log-normal distribution (mean 24, at most
64), other ones in each step. Both sides read the same file; a reference scores each batch of DPO, none is
computed ahead. Each side runs in a process of its own, which waits while the other works.
"""

import argparse
import json
from pathlib import Path
import sys
import tempfile

import numpy as np

from rlx.experiments.benchmarks.grpo_step import HERE, interleaved, show, write_model

PAIRS, PROMPT_TOKENS, ANSWER_TOKENS, STEPS = 16, 32, 64, 40
PACKED = {  # of rlx: a pair of W and its prompt fill a row; most batches are one part, which is kept
    'W': {'columns': 160, 'rows': 16, 'kept': 1}, 'R': {'columns': 192, 'rows': 8, 'kept': 1},
}


def main() -> None:
  arguments = _parser().parse_args()
  with tempfile.TemporaryDirectory() as folder:
    write_model(Path(folder))
    for workload in arguments.workloads:
      write_pairs(Path(folder), workload)
      for method in arguments.methods:
        job = {
            'model': f'{folder}/model', 'pairs': f'{folder}/pairs.jsonl', 'batch': PAIRS, 'method': method,
            'prompt_tokens': PROMPT_TOKENS, 'answer_tokens': ANSWER_TOKENS, 'packed': PACKED[workload],
        }
        (Path(folder) / 'job.json').write_text(json.dumps(job))
        sides = {
            'rlx': [sys.executable, '-m', 'rlx.experiments.benchmarks.rlx_preferences_side', folder],
            'trl': [arguments.trl_python, str(HERE / 'trl_preferences_side.py'), folder],
        }
        show(f'{workload} {method}', ('step',), interleaved(sides, arguments.rounds))


def write_pairs(folder: Path, workload: str) -> None:
  """Writes `folder/pairs.jsonl`: texts that the tokenizer turns into as many tokens as the workload says."""
  from transformers import AutoTokenizer

  tokenizer, random = AutoTokenizer.from_pretrained(folder / 'model'), np.random.default_rng(0)
  ids = tokenizer(' '.join(str(i) for i in range(20_000)))['input_ids']

  def text(num):
    """Any stretch of the tokens that is the same when it is read again, as long as it is to be."""
    while True:
      start = random.integers(len(ids) - num)
      said = tokenizer.decode(ids[start : start + num])
      if said.startswith(' ') and len(tokenizer(said)['input_ids']) == num:
        return said

  def length():  # without the end token
    if workload == 'W':
      return ANSWER_TOKENS - 1
    return int(np.clip(np.round(random.lognormal(np.log(24) - 0.32, 0.8)), 2, ANSWER_TOKENS - 1))

  rows = [
      {'prompt': text(PROMPT_TOKENS), 'chosen': text(length()), 'rejected': text(length())}
      for _ in range(PAIRS * STEPS)
  ]
  (folder / 'pairs.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows))


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='DPO and reward-model steps of rlx and TRL in turn.')
  parser.add_argument('--trl_python', required=True, help='the interpreter of an environment with TRL')
  parser.add_argument('--workloads', default='WR', help='of W and R')
  parser.add_argument('--methods', nargs='+', default=['dpo', 'reward'], choices=['dpo', 'reward'])
  parser.add_argument('--rounds', type=int, default=5)
  return parser


if __name__ == '__main__':
  main()
