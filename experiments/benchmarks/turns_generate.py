"""Episodes of four turns beside a `generate` of transformers that reads the whole context anew each turn.

    python3 -m venv trl && trl/bin/pip install trl==1.16.0 torch==2.13.0
    python -m rlx.experiments.benchmarks.turns_generate --transformers_python=trl/bin/python

The latter is what tool loops around `generate` do. The decoder of `grpo_step.py`, 64 episodes (16 prompts of
32 tokens x 4), actions of exactly so many tokens at temperature 1, each but the last one answered by so many
others: *half* reads as much as it says, *tenth* a tenth. Both sides are processes of their own, of which one
works at a time; CPU-seconds of all threads and wall time, the medians of the rounds.
"""

import argparse
import json
from pathlib import Path
import sys
import tempfile

from rlx.experiments.benchmarks.grpo_step import HERE, interleaved, show, write_model

PROMPTS, SAMPLES, PROMPT_TOKENS, TURNS = 16, 4, 32, 4
WORKLOADS = {'half': (28, 28), 'tenth': (50, 5)}  # tokens of an action, and of an observation


def main() -> None:
  arguments = _parser().parse_args()
  with tempfile.TemporaryDirectory() as folder:
    write_model(Path(folder))
    for name, (said, read) in WORKLOADS.items():
      job = {
          'model': f'{folder}/model', 'prompts': PROMPTS, 'samples': SAMPLES, 'turns': TURNS,
          'prompt_tokens': PROMPT_TOKENS, 'said': said, 'read': read,
      }
      (Path(folder) / 'job.json').write_text(json.dumps(job))
      here = [sys.executable, '-m', 'rlx.experiments.benchmarks.rlx_turns_side', folder]
      there = [arguments.transformers_python, str(HERE / 'transformers_turns_side.py'), folder]
      reports = interleaved({'rlx': here, 'transformers': there}, arguments.rounds)
      show(name, ('generate',), reports)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='Episodes of turns of rlx and of transformers in turn.')
  parser.add_argument('--transformers_python', required=True, help='of an environment with it and torch')
  parser.add_argument('--rounds', type=int, default=5)
  return parser


if __name__ == '__main__':
  main()
