"""GSM8K's own calculations, with a calculator and without: small decoders from nothing, five seeds; one page.

    python -m rlx.experiments.studies.calculator --train=gsm8k_train.jsonl --held_out=gsm8k_test.jsonl \\
        --folder=runs/gsm8k_calculator

The files hold rows `question, answer`, whose answers mark their calculations, `<<48/2=24>>`. The decoders are
made by `rlx init-model` and run `tools/gsm8k_calculator`: SFT on the marked solutions, then GRPO. With the
tool nobody is trained on results, and turns end behind `=`, where the calculator goes on; without it the
policy learns and writes them itself. What is done stays done: the same command goes on where it stopped.
"""

import argparse
from pathlib import Path
import textwrap
import time

import numpy as np

from rlx.experiments.init_model import init_model
from rlx.experiments.studies import common

SEEDS = 5
SIZES = dict(vocab_size=768, layers=2, width=96, heads=4, kv_heads=2, mlp_size=256, context_length=512)
STEPS = {'sft': 200, 'grpo': 10}
SFT_ROWS, ROWS, PROBLEMS = 16, 32, 64  # a step of SFT and of GRPO; held out
ARMS = {'with the calculator': True, 'without': False}
METRICS = {  # of the page, and what they are called in the runs
    'right results of those marked': 'right_marks', 'marks an answer': 'marks', 'calls an answer': 'calls',
    'right answers': 'accuracy',
}


def main(argv: list[str] | None = None) -> None:
  """Runs what is missing, and writes the page."""
  arguments, began = _parser().parse_args(argv), time.monotonic()
  folder, steps = Path(arguments.folder), {k: max(10, round(x * arguments.scale)) for k, x in STEPS.items()}
  found = {name: [] for name in ARMS}
  for seed in range(arguments.seeds):
    model = folder / f'model_{seed}'
    if not model.exists():
      texts = [Path(arguments.train)]
      init_model(
          texts, model, family='qwen2', chat_template='none', seed=seed, dtype='float32', **SIZES
      )
    for name, tool in ARMS.items():
      workdir = folder / f'{"tool" if tool else "alone"}_{seed}'
      _command(arguments, model, tool, seed, steps).make(workdir)
      found[name].append(list(common.evaluated(workdir))[-1])
      print(f'{time.monotonic() - began:5.0f} s  {name}, seed {seed}', flush=True)
  _write(Path(arguments.output), found, steps)


def _command(arguments, model: Path, tool: bool, seed: int, steps) -> common.Command:
  given = {'model': model, 'train': arguments.train, 'held_out': arguments.held_out, 'tool': tool}
  return common.Command('tools/gsm8k_calculator', given, {
      'seed': seed, 'sft.steps': steps['sft'], 'steps': steps['grpo'], 'checkpoint.every': steps['grpo'],
      'sft.optimizer.learning_rate': 2e-3, 'sft.optimizer.decay_steps': steps['sft'],
      'sft.rollout.batch_size': SFT_ROWS, 'rollout.batch_size': ROWS, 'evals.held_out.problems': PROBLEMS,
      'evals.held_out.every': steps['sft'],
  })


def _write(output: Path, found, steps) -> None:
  """The page."""
  page = textwrap.fill(' '.join(PAGE.format(
      seeds=len(next(iter(found.values()))), rows=ROWS, sft_rows=SFT_ROWS, problems=PROBLEMS, **steps,
      sizes=', '.join(f'{name} {num}' for name, num in SIZES.items()),
  ).split()), 110)
  rows = [
      f'| {name} | {arm} | {np.median(x):.3f} | {np.min(x):.3f} | {np.max(x):.3f} |'
      for name, metric in METRICS.items() for arm in ARMS
      for x in [[row[f'eval/held_out/{metric}'] for row in found[arm]]]
  ]
  output.parent.mkdir(parents=True, exist_ok=True)
  table = '\n'.join(('| held out | | median | least | most |', '|---|---|---|---|---|', *rows))
  output.with_suffix('.md').write_text(f'# GSM8K with a calculator\n\n{page}\n\n{table}\n')


PAGE = """Written by `python -m rlx.experiments.studies.calculator` on GSM8K's own files. Decoders from
nothing ({sizes}), {seeds} seeds: {sft} train steps of SFT with {sft_rows} rows, {grpo} of GRPO with {rows};
greedy answers to the first {problems} held-out problems. Such a decoder solves next to no problem; what is
compared is which marked calculations, `<<48/2=24>>`, have the right result: of those that it marks, whatever
they are worth. The numbers of a row are over seeds."""


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog='calculator', description=__doc__.partition('\n')[0])
  parser.add_argument('--train', required=True, help="GSM8K's train.jsonl")
  parser.add_argument('--held_out', required=True, help="GSM8K's test.jsonl")
  parser.add_argument('--folder', required=True, help='where models and runs are kept')
  parser.add_argument('--output', default=str(common.RESULTS / 'calculator'))
  parser.add_argument('--seeds', type=int, default=SEEDS)
  parser.add_argument('--scale', type=float, default=1.0, help='of all numbers of steps')
  return parser


if __name__ == '__main__':
  main()
