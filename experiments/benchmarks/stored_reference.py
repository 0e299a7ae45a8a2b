"""A DPO step with a reference that scores each batch, and with one whose log-probs were stored; in turn.

    python -m rlx.experiments.benchmarks.stored_reference

The decoder and the workloads of `preference_step.py`; prints medians of CPU-seconds a step, and what storing
all rows took.
"""

import argparse
import json
from pathlib import Path
import statistics
import tempfile
import time

from rlx.experiments.benchmarks import preference_step
from rlx.experiments.benchmarks.grpo_step import write_model
from rlx.experiments.benchmarks.rlx_preferences_side import program
from rlx.experiments.benchmarks.rlx_side import timed


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--workloads', default='WR', help='of W and R')
  parser.add_argument('--rounds', type=int, default=10)
  arguments = parser.parse_args()
  with tempfile.TemporaryDirectory() as folder:
    write_model(Path(folder))
    for workload in arguments.workloads:
      preference_step.write_pairs(Path(folder), workload)
      print(workload, json.dumps(compared(folder, workload, arguments.rounds)))


def compared(folder: str, workload: str, rounds: int) -> dict[str, float]:
  """Medians of CPU-seconds of a step of both kinds, their ratio, and the CPU-seconds of storing."""
  job = {
      'model': f'{folder}/model', 'pairs': f'{folder}/pairs.jsonl', 'batch': preference_step.PAIRS,
      'prompt_tokens': preference_step.PROMPT_TOKENS, 'answer_tokens': preference_step.ANSWER_TOKENS,
      'packed': preference_step.PACKED[workload],
  }
  begun = time.process_time()
  programs = {method: program({**job, 'method': method}) for method in ('stored', 'dpo')}
  cost = {'begun': time.process_time() - begun}
  costs = {method: [] for method in programs}
  for _ in range(rounds + 1):  # the first compiles
    for method, (step, state, data) in programs.items():
      (state, _), taken = timed(lambda step=step, state=state, data=data: step(state, data))
      programs[method] = step, state, data
      costs[method].append(taken['cpu'])
  cost |= {method: statistics.median(taken[1:]) for method, taken in costs.items()}
  return {**cost, 'ratio': cost['stored'] / cost['dpo']}


if __name__ == '__main__':
  main()
