"""Word problems: one SFT, then GRPO, PPO, RLOO, Dr. GRPO and DAPO at equal rollouts; one page.

    python -m rlx.experiments.studies.problems --folder=runs/problems

Problems of two to four steps are made by rule, decoders by `rlx init-model`, and everything else is
`math/word_problems` from the command line: a model a seed is supervised, and from it every method goes on.
The control is SFT that goes on for as many rows. What is done stays done: the same command goes on where it
stopped.
"""

import argparse
from pathlib import Path
import textwrap
import time

import numpy as np

from rlx import config as configs
from rlx.experiments import results
from rlx.experiments.configs.math import word_problems as sizes
from rlx.experiments.data import generate
from rlx.experiments.init_model import init_model
from rlx.experiments.studies import common
from rlx.run.writers import read_metrics

SIZES = dict(vocab_size=512, layers=3, width=96, heads=4, kv_heads=4, mlp_size=256, context_length=256)
METHODS = {
    'grpo': 'GRPO', 'ppo': 'PPO', 'rloo': 'RLOO', 'dr_grpo': 'Dr. GRPO', 'dapo': 'DAPO', 'sft': 'more SFT'
}
SEEDS = 5
POINTS, DISPATCH, CHECKPOINT = 6, 5, 30  # of a curve; train steps in one program, and between checkpoints
GOING_ON = 1e-3  # learning rate of more SFT
ACCURACY, CONFIG = 'eval/held_out/accuracy', 'math/word_problems'


def main(argv: list[str] | None = None) -> None:
  """Runs what is missing, and writes the page and its figure."""
  arguments, began = _parser().parse_args(argv), time.monotonic()
  folder, unit = Path(arguments.folder), POINTS * DISPATCH
  steps = {name: max(1, round(num * arguments.scale / unit)) * unit for name, num in sizes.STEPS.items()}
  problems = folder / 'problems'
  if not problems.exists():
    generate.more_word_problems(sizes.NUM_PROBLEMS, problems, long=True)
  found = {method: [] for method in METHODS}
  for seed in range(arguments.seeds):
    model = folder / f'model_{seed}'
    if not model.exists():
      init_model(
          [problems / 'train.jsonl'], model, family='qwen2', chat_template='none', seed=seed, dtype='float32',
          **SIZES,
      )
    supervised = _workdir(folder, 'start', seed)
    _command(folder, 'sft', model, seed, {'steps': steps['sft']}).make(supervised)
    for method, name in METHODS.items():
      workdir = _workdir(folder, method, seed)
      _command(folder, method, supervised / 'model', seed, _budget(method, steps['main'])).make(workdir)
      found[method].append(_read(workdir))
      spent, accuracy = time.monotonic() - began, found[method][-1][0][-1]
      print(f'{spent:5.0f} s  {name}, seed {seed}: {accuracy:.3f}', flush=True)
  _write(Path(arguments.output), found, steps)
  if arguments.scale == 1:
    results.rewrite(configs.find(CONFIG), _sentence(found, steps['main']))


def _workdir(folder: Path, method: str, seed: int) -> Path:
  return folder / f'{method}_{seed}'


def _budget(method: str, steps: int) -> dict:
  """What is changed for a method; for every row that others sample, SFT reads one."""
  if method != 'sft':
    every = steps // POINTS
    return {'steps': steps, 'optimizer.decay_steps': steps * sizes.UPDATES, 'evals.held_out.every': every}
  steps = steps * sizes.ROWS['main'] // sizes.ROWS['sft']
  return {
      'steps': steps, 'optimizer.decay_steps': steps, 'optimizer.learning_rate': GOING_ON, 'stop': '{}',
      'evals.held_out.every': steps // POINTS,
  }


def _command(folder: Path, method: str, model: Path, seed: int, changes) -> common.Command:
  files = {'train': folder / 'problems' / 'train.jsonl', 'held_out': folder / 'problems' / 'test.jsonl'}
  return common.Command(
      CONFIG, {'algorithm': method, 'model': model, **files},
      {'seed': seed, 'log.steps_per_dispatch': DISPATCH, 'checkpoint.every': CHECKPOINT, **changes},
  )


def _read(workdir: Path) -> tuple[list[float], float]:
  """Held-out accuracy at every evaluation, and the tokens that were trained on."""
  rows = read_metrics(workdir / 'metrics.jsonl')
  accuracy = [row[ACCURACY] for row in rows if ACCURACY in row]
  return accuracy[: POINTS + 1], sum(row['tokens/actions'] for row in rows if 'tokens/actions' in row)


# --- the page -----------------------------------------------------------------------------------------------


def _write(output: Path, found, steps) -> None:
  """The table, and the curves."""
  curves = {
      METHODS[method]: common.Curve(
          np.arange(POINTS + 1) * (steps['main'] // POINTS),
          {ACCURACY: np.array([accuracy for accuracy, _ in runs]).T},
      )
      for method, runs in found.items()
  }
  tokens = {METHODS[method]: np.mean([trained for _, trained in runs]) for method, runs in found.items()}
  accuracy = {name: curve.values[ACCURACY] for name, curve in curves.items()}
  start, control = accuracy['GRPO'][0], accuracy[METHODS['sft']][-1]
  rows = [
      f'| {name} | {common.spread(x[-1])} | {common.spread(x.mean(axis=0))} | {_beside(x[-1], control)} | '
      f'{_beside(x[-1], accuracy["GRPO"][-1])} | {tokens[name] / 1000:.0f} |'
      for name, x in accuracy.items()
  ]
  page = textwrap.fill(' '.join(PAGE.format(
      seeds=len(start), start=common.spread(start), num=sizes.NUM_PROBLEMS,
      supervised=sizes.SUPERVISED, sft_rows=sizes.ROWS['sft'], main=steps['main'], rows=sizes.ROWS['main'],
      group=8, rate=sizes.RATE, going_on=GOING_ON,
      decoder=', '.join(f'{name} {num}' for name, num in SIZES.items()),
  ).split()), 110)
  output.parent.mkdir(parents=True, exist_ok=True)
  common.draw(
      output.with_suffix('.png'), curves, ACCURACY, title='Word problems, from the same supervised models',
      label='held-out accuracy',
  )
  table = '\n'.join((*HEAD, *rows))
  image = f'![held-out accuracy over training]({output.name}.png)'
  output.with_suffix('.md').write_text(f'# Word problems\n\n{page}\n\n{image}\n\n{table}\n')


def _sentence(found, steps: int) -> str:
  """What stands in the config."""
  accuracy = lambda method, point: common.spread([run[0][point] for run in found[method]])
  ends = ', '.join(f'{name} {accuracy(method, -1)}' for method, name in METHODS.items())
  return (
      f'held-out accuracy in per cent, median of {len(found["grpo"])} seeds (worst to best): '
      f'{accuracy("grpo", 0)} after SFT, and {steps} steps later {ends}; '
      '`python -m rlx.experiments.studies.problems`.'
  )


def _beside(ours: np.ndarray, theirs: np.ndarray) -> str:
  """Mean difference over seeds in points, and its 95 % interval where there are enough of them."""
  difference = ours - theirs
  if not difference.any():
    return ''
  return common.gain(difference) if len(difference) > 2 else f'{100 * difference.mean():+.1f}'


HEAD = (
    '| | accuracy at the end, % | mean over training, % | beside more SFT, points | beside GRPO, points | '
    'tokens trained on, thousands |',
    '|---|---|---|---|---|---|',
)
PAGE = """Written by `python -m rlx.experiments.studies.problems`. Decoders from nothing ({decoder}) read
written solutions to word problems of two to four steps, {num} problems made by rule, {sft_rows} a step, until
they solve {supervised:.0%} of 256 others: {start} % (median of {seeds} seeds, worst to best, greedy). From
each of them every method goes on for {main} steps of {rows} rows in groups of {group}, two updates a step,
with math-verify as the reward and one learning rate for all, {rate}; DAPO trains on half of its rows. The
control reads as many written solutions instead, two steps of its own for one of theirs, at {going_on}.
Differences are paired by seed, with 95 % intervals, which are too narrow with so few seeds."""


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog='problems', description=__doc__.partition('\n')[0])
  parser.add_argument('--folder', required=True, help='where data, models and runs are kept')
  parser.add_argument('--output', default=str(common.RESULTS / 'problems'))
  parser.add_argument('--seeds', type=int, default=SEEDS)
  parser.add_argument('--scale', type=float, default=1.0, help='of all numbers of steps')
  return parser


if __name__ == '__main__':
  main()
