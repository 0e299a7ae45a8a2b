"""Solutions step by step: Step-DPO, DPO and TR-DPO from the same models, and which step is wrong; one page.

    python -m rlx.experiments.studies.solutions --folder=runs/solutions

Sums of four numbers, three steps each, of the repository's own generator. Decoders are made by
`rlx init-model` and read right solutions (`llm/sft`) for as long as leaves some of the held-out sums wrong.
Then `preferences/step_dpo`, `dpo` and `tr_dpo` go on from each of them with the same comparisons, and SFT
goes on beside them; `preferences/steps` learns to say which step is wrong. What is done stays done: the same
command goes on where it stopped.
"""

import argparse
from collections.abc import Mapping
import json
from pathlib import Path
import subprocess
import sys
import textwrap
import time

import numpy as np

from rlx.experiments.data import generate
from rlx.experiments.init_model import init_model
from rlx.experiments.studies import common

SEEDS, ROWS = 3, 2000  # of each kind of file
SIZES = dict(vocab_size=300, layers=2, width=96, heads=4, kv_heads=2, mlp_size=256, context_length=160)
STEPS = {'sft': 600, 'preferences': 150, 'steps': 300}
BATCH, RATES = 32, {'sft': 3e-3, 'preferences': 1e-4, 'steps': 1e-3}
MAX_TOKENS = 64  # of an answer
METHODS = {  # config, and its further arguments
    'more SFT': ('llm/sft', {}),
    'DPO': ('preferences/dpo', {}),
    'Step-DPO': ('preferences/step_dpo', {}),
    'TR-DPO': ('preferences/tr_dpo', {'period': 10}),
}
ASKED = ('DPO', 'Step-DPO')  # whose reference is the model that they began as


def main(argv: list[str] | None = None) -> None:
  """Runs what is missing, and writes the page."""
  arguments, began = _parser().parse_args(argv), time.monotonic()
  folder, steps = Path(arguments.folder), {k: max(4, round(x * arguments.scale)) for k, x in STEPS.items()}
  if not (folder / 'solutions_train.jsonl').exists():
    generate.more_solutions(round(ROWS * arguments.scale), folder)
  accuracy, asked = {name: [] for name in ('SFT', *METHODS)}, {name: [] for name in (*ASKED, 'steps')}
  for seed in range(arguments.seeds):
    of_seed = folder / str(seed)
    runs = _runs(folder, of_seed, seed, steps)
    for name, run in runs.items():
      run.make(of_seed / name)
      if name in accuracy:
        accuracy[name].append(solved(of_seed / name / 'model', folder / 'solutions_test.jsonl'))
      if name in asked:
        asked[name].append(list(common.evaluated(of_seed / name))[-1])
      print(f'{time.monotonic() - began:5.0f} s  {name}, seed {seed}', flush=True)
  write(Path(arguments.output), accuracy, asked, steps)


def _runs(folder: Path, of_seed: Path, seed: int, steps: Mapping[str, int]) -> dict[str, common.Command]:
  """What is run of a seed, in this order; the model that it begins with is made."""
  texts, base = folder / 'solutions_train.jsonl', of_seed / 'base'
  if not base.exists():
    init_model([texts], base, family='llama', chat_template='none', seed=seed, dtype='float32', **SIZES)
  start = of_seed / 'SFT' / 'model'
  runs = {'SFT': _run('llm/sft', base, texts, '', steps['sft'], RATES['sft'], seed)}
  for name, (config, further) in METHODS.items():
    train = texts if config == 'llm/sft' else folder / 'step_pairs_train.jsonl'
    held_out = '' if config == 'llm/sft' else folder / 'step_pairs_test.jsonl'
    rate = RATES['preferences'] if held_out else RATES['sft'] / 10  # where SFT ended
    changes = {'decoding.max_tokens': MAX_TOKENS}
    runs[name] = _run(config, start, train, held_out, steps['preferences'], rate, seed, further, changes)
  judge = folder / 'steps_train.jsonl', folder / 'steps_test.jsonl'
  whole = {'evals.held_out.rows': generate.NUM_ASKED}
  runs['steps'] = _run('preferences/steps', start, *judge, steps['steps'], RATES['steps'], seed, {}, whole)
  return runs


def _run(config, model, train, held_out, num_steps, rate, seed, further=(), changes=()) -> common.Command:
  given = {'model': model, 'train': train, **({'held_out': held_out} if held_out else {}), **dict(further)}
  more = {'evals.held_out.every': num_steps} if held_out else {'rollout.batch_size': BATCH}
  return common.Command(config, given, {
      'seed': seed, 'steps': num_steps, 'checkpoint.every': num_steps,
      'optimizer.learning_rate': rate, 'optimizer.decay_steps': num_steps, 'log.samples': 0,
      'score.packed_columns': SIZES['context_length'], **more, **dict(changes),
  })


def solved(model: Path, problems: Path) -> float:
  """The share of sums that a model's greedy answers get right, by `rlx evaluate`; kept beside the model."""
  kept = model.parent / 'solved.json'
  if not kept.exists():
    rlx, samples = Path(sys.executable).parent / 'rlx', model.parent / 'solved.jsonl'
    subprocess.run([
        rlx, 'evaluate', f'--model={model}', f'--data={problems}', f'--output={samples}', '--temperature=0',
        f'--max_tokens={MAX_TOKENS}', '--batch_size=256', '--reward=rlx.rewards.math.math_answer',
        '--reward_argument=tolerance=1e-6',
    ], check=True, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    kept.write_text(json.dumps(np.mean([row['correct'][0] for row in rows])))
  return json.loads(kept.read_text())


# --- what came out ------------------------------------------------------------------------------------------


def write(
    output: Path, accuracy: Mapping[str, list[float]], asked: Mapping[str, list[Mapping]], steps: Mapping
) -> None:
  """The page."""
  before, rows = np.array(accuracy['SFT']), []
  last = lambda run, name: np.array([row[f'eval/held_out/{name}'] for row in asked[run]])
  for name, found in accuracy.items():
    gain = 100 * (np.array(found) - before)
    rows.append(
        f'| {name} | {common.spread(np.array(found))} | {np.median(gain):+.1f} '
        f'({gain.min():+.1f} to {gain.max():+.1f}) | '
        + (f'{common.spread(last(name, "accuracy"))} | {np.median(last(name, "chosen")):+.1f} |'
           if name in ASKED else '| |')
    )
  says = lambda name: common.spread(last('steps', name))
  page = PAGE.format(
      seeds=len(before), batch=BATCH, asked=generate.NUM_ASKED, **steps,
      sizes=', '.join(f'{name} {num}' for name, num in SIZES.items()),
      rates=', '.join(f'{name} {x:g}' for name, x in RATES.items()),
  )
  verdict = JUDGE.format(
      auc=says('auc'), f1=says('f1'), wrong=says('first_wrong'), right=says('all_right')
  )
  filled = [textwrap.fill(' '.join(part.split()), 110) for part in page.strip().split('\n\n')]
  head = (
      '| | right sums, % | beside SFT, points | implicit accuracy, % | right answers, nats |',
      '|---|---|---|---|---|',
  )
  output.parent.mkdir(parents=True, exist_ok=True)
  table = '\n'.join((*head, *rows))
  output.with_suffix('.md').write_text('\n\n'.join((*filled, table, textwrap.fill(verdict, 110))) + '\n')


PAGE = """# Solutions step by step

Written by `python -m rlx.experiments.studies.solutions`. Sums of four numbers of the repository's own
generator, solved in three steps. Decoders from nothing ({sizes}), {seeds} seeds; {sft} train steps of SFT,
then {preferences} of each method from the same model, {batch} rows each (a comparison has two); learning
rates: {rates}, more SFT a tenth of SFT's. Comparisons are a right solution and the same with a wrong step and
what follows from it. DPO reads both to their ends, Step-DPO the first step that differs, and the reference of
TR-DPO follows each 10 updates. Greedy answers to {asked} held-out sums; the median over seeds, and all of
them. Of held-out comparisons: how often the better answer gained more, and what it gained or lost itself
(the median).
"""
JUDGE = """A process reward model of the same decoder (`preferences/steps`) says a higher number behind a
right step than behind a wrong one in {auc} % of pairs (AUC). Of held-out solutions, half of which go wrong,
it names the first wrong step of {wrong} %, and lets {right} % of the right ones pass: F1 {f1} %."""


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog='solutions', description=__doc__.partition('\n')[0])
  parser.add_argument('--folder', required=True, help='where files, models and runs are kept')
  parser.add_argument('--output', default=str(common.RESULTS / 'solutions'))
  parser.add_argument('--seeds', type=int, default=SEEDS)
  parser.add_argument('--scale', type=float, default=1.0, help='of all numbers of rows and steps')
  return parser


if __name__ == '__main__':
  main()
