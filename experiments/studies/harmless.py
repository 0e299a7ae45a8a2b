"""Comparisons of people: a small decoder from nothing, reward models, DPO, KTO, ORPO, PPO, GKD; five seeds.

    python -m rlx.experiments.studies.harmless --pairs=harmless_base_test.jsonl.gz --folder=runs/harmless

The file holds rows `chosen, rejected`, dialogues that differ in their last answer, as Anthropic's HH has them
(https://github.com/anthropics/hh-rlhf). Prompts are cut at the last question, whose answers are compared;
what has a longer answer or question than the decoder reads is left out. A fifth of the prompts is held out.

The decoder is made by `rlx init-model` and pretrained on the training texts. It is also the teacher of a
smaller one, which goes on by GKD or by as much SFT more. All seeds begin from these two. Every run is stopped
behind its first checkpoint and started again. What is done stays done: the same command goes on where it
stopped. With `--torch_python`, an interpreter with torch and transformers, what was exported is loaded there,
and its numbers are compared.
"""

import argparse
from collections import Counter
from collections.abc import Mapping
import gzip
import json
from pathlib import Path
import re
import subprocess
import textwrap
import time
import zlib

import numpy as np
from scipy import optimize

from rlx.experiments.init_model import init_model
from rlx.experiments.studies import common

ANSWER, QUESTION = '\n\nAssistant:', '\n\nHuman:'
LONGEST = {'prompt': 300, 'answer': 400}  # characters
SEEDS = 5
SIZES = dict(vocab_size=768, layers=2, width=96, heads=4, kv_heads=2, mlp_size=256, context_length=384)
SMALLER = {**SIZES, 'layers': 1, 'width': 48, 'heads': 2, 'mlp_size': 128}
STEPS = {
    'pretrained': 300, 'reward': 100, 'dpo': 60, 'kto': 60, 'orpo': 60, 'ppo': 16, 'student': 150, 'gkd': 60,
    'sft': 32,
}


def main(argv: list[str] | None = None) -> None:
  """Runs what is missing, and writes the page."""
  parser, began = _parser(), time.monotonic()
  arguments = parser.parse_args(argv)
  if arguments.seeds < 3:
    parser.error(f'--seeds={arguments.seeds}: an interval needs at least 3')
  folder = Path(arguments.folder)
  steps = {name: max(4, round(num * arguments.scale)) for name, num in STEPS.items()}
  files, counts = prepare(Path(arguments.pairs), folder)
  base, smaller = folder / 'base', folder / 'smaller'
  for directory, sizes in ((base, SIZES), (smaller, SMALLER)):
    if not directory.exists():
      init_model(
          [files['texts']], directory, family='llama', chat_template='none', seed=0, dtype='float32', **sizes
      )
  runs = planned(folder, files, counts['held out'], steps, arguments.seeds)
  for name, run in runs.items():
    run.make(folder / name, stopped_once=True)
    print(f'{time.monotonic() - began:5.0f} s  {name}', flush=True)
  found = {name: last_stage(list(common.evaluated(folder / name))) for name in runs}
  words = bag_of_words(files['train'], files['held_out'])
  loaded = transformers_says(arguments.torch_python, folder) if arguments.torch_python else 'not asked'
  write(Path(arguments.output), found, counts, words, loaded, steps)


def planned(
    folder: Path, files: Mapping, num_pairs: int, steps: Mapping, num_seeds: int
) -> dict[str, common.Command]:
  """What is run, in this order: who begins from another's model comes behind it."""
  packed = {'score.packed_columns': SIZES['context_length']}
  rows = {'rollout.batch_size': 32, **packed}
  texts = {'train': files['texts'], 'held_out': files['texts_held_out']}
  read = {'evals.held_out.problems': 64, **packed}
  sft = lambda model, num, rate, seed=0: _run(
      'llm/sft', {'model': model, **texts}, num, rate, {**read, **rows, 'seed': seed}
  )
  runs = {
      'pretrained': sft(folder / 'base', steps['pretrained'], 2e-3),
      'student': sft(folder / 'smaller', steps['student'], 2e-3),
  }
  start, student = folder / 'pretrained' / 'model', folder / 'student' / 'model'
  data = {'model': start, 'train': files['train'], 'held_out': files['held_out']}
  taught = {'model': student, 'teacher': start, **texts}
  for seed in range(num_seeds):
    judged = {'evals.held_out.pairs': num_pairs, **rows, 'seed': seed}
    runs[f'reward_{seed}'] = _run('preferences/reward', data, steps['reward'], 3e-4, judged)
    for method in _OFFLINE:
      runs[f'{method}_{seed}'] = _run(f'preferences/{method}', data, steps[method], 1e-4, judged)
    runs[f'ppo_{seed}'] = _run(
        'preferences/rlhf', {**data, 'judge': folder / f'reward_{seed}' / 'judge' / 'model'}, steps['ppo'],
        1e-4, {**rows, 'decoding.max_tokens': 48, 'seed': seed},
    )
    runs |= _in_one_run(data, rows, packed, steps, seed)
    runs[f'sft_{seed}'] = sft(student, steps['gkd'], 5e-4, seed)
    runs[f'gkd_{seed}'] = _run(
        'preferences/gkd', taught, steps['gkd'], 5e-4, {**read, 'seed': seed}
    )
  return runs


def _in_one_run(data: Mapping, rows: Mapping, packed: Mapping, steps: Mapping, seed: int) -> dict:
  """SFT, a reward model and what learns from it, as stages."""
  stages = {
      'sft.steps': steps['sft'], 'sft.optimizer.learning_rate': 3e-4,
      'rewarding.steps': steps['reward'], 'rewarding.optimizer.learning_rate': 3e-4,
  }
  drawn = lambda method: 'rollout.rollout.batch_size' if method == 'online_dpo' else 'rollout.batch_size'
  return {
      f'staged_{method}_{seed}': _run(
          'preferences/rlhf', {**data, 'method': method}, steps['ppo'], 1e-4,
          {drawn(method): rows['rollout.batch_size'], **packed, **stages, 'decoding.max_tokens': 48,
           'seed': seed},
      ) for method in _STAGED
  }


def _run(config: str, argument: Mapping, steps: int, rate: float, changes: Mapping) -> common.Command:
  """Of so many train steps, with four evaluations and checkpoints."""
  every = max(1, steps // 4)
  return common.Command(config, argument, {
      'steps': steps, 'checkpoint.every': every, 'evals.held_out.every': every,
      'optimizer.learning_rate': rate, 'optimizer.decay_steps': steps, 'log.samples': 2, **changes,
  })


# --- data ---------------------------------------------------------------------------------------------------


def prepare(pairs: Path, folder: Path) -> tuple[dict[str, Path], Counter]:
  """Files of texts and of comparisons in a folder, and how many rows there are, or why they are not."""
  folder.mkdir(parents=True, exist_ok=True)
  counts, parts, texts = Counter(), {'train': [], 'held_out': []}, {'texts': [], 'texts_held_out': []}
  with gzip.open(pairs, 'rt') as lines:
    for line in lines:
      row = compared(json.loads(line))
      counts['all'] += 1
      if isinstance(row, str):
        counts[row] += 1
        continue
      is_held_out = zlib.crc32(row['prompt'].encode()) % 5 == 0
      parts['held_out' if is_held_out else 'train'].append(row)
      texts['texts_held_out' if is_held_out else 'texts'] += [
          {'prompt': row['prompt'], 'completion': row[name]} for name in ('chosen', 'rejected')
      ]
  counts |= {'train': len(parts['train']), 'held out': len(parts['held_out'])}
  files = {}
  for name, rows in {**parts, **texts}.items():
    files[name] = folder / f'{name}.jsonl'
    files[name].write_text(''.join(json.dumps(row) + '\n' for row in rows))
  return files, counts


def compared(row: Mapping[str, str]) -> dict[str, str] | str:
  """The last question of a row and both answers to it; or why there are none.

  >>> asked = 'x\\n\\nHuman: Why?\\n\\nAssistant:'
  >>> compared({'chosen': f'{asked} So.', 'rejected': f'{asked} No.'})
  {'prompt': 'Human: Why?\\n\\nAssistant:', 'chosen': ' So.', 'rejected': ' No.'}
  """
  sides = [row[name].rpartition(ANSWER) for name in ('chosen', 'rejected')]
  if sides[0][0] != sides[1][0]:
    return 'differ before the last answer'
  question = sides[0][0].rpartition(QUESTION)[2]
  answers = [side[2] for side in sides]
  if not all(answer.strip() for answer in answers) or answers[0] == answers[1]:
    return 'no two answers'
  if len(question) > LONGEST['prompt'] or max(map(len, answers)) > LONGEST['answer']:
    return 'too long'
  prompt = f'{QUESTION.strip()}{question}{ANSWER}'
  return {'prompt': prompt, 'chosen': answers[0], 'rejected': answers[1]}


def bag_of_words(train: Path, held_out: Path) -> float:
  """Held-out accuracy of a logistic regression of comparisons on which words an answer has."""
  words = lambda text: set(re.findall(r"[a-z']+", text.lower()))
  rows = {path: [json.loads(line) for line in path.read_text().splitlines()] for path in (train, held_out)}
  seen = Counter(word for row in rows[train] for side in ('chosen', 'rejected') for word in words(row[side]))
  index = {word: i for i, word in enumerate(word for word, num in seen.items() if num >= 5)}

  def features(path):
    x = np.zeros((len(rows[path]), len(index)))
    for i, row in enumerate(rows[path]):
      for sign, side in ((1, 'chosen'), (-1, 'rejected')):
        x[i, [index[word] for word in words(row[side]) if word in index]] += sign
    return x

  x = features(train)

  def loss(weights):
    margin = x @ weights
    slope = -1 / (1 + np.exp(margin))
    return np.logaddexp(0, -margin).sum() + weights @ weights / 2, x.T @ slope + weights

  weights = optimize.minimize(loss, np.zeros(len(index)), jac=True, method='L-BFGS-B').x
  return float(np.mean(features(held_out) @ weights > 0))


# --- what came out ------------------------------------------------------------------------------------------


def transformers_says(python: str, folder: Path) -> str:
  """How far what transformers computes of exported models is from what rlx does, in words."""
  script = Path(__file__).with_name('harmless_loaded.py')
  text = subprocess.run([python, script, folder], check=True, capture_output=True, text=True).stdout
  return text.strip().splitlines()[-1]


def last_stage(rows: list[dict]) -> list[dict]:
  """Evaluations of the last stage of a run, from the end of the one before on."""
  first = next(i for i, row in enumerate(rows) if row['stage'] == rows[-1]['stage'])
  return rows[max(first - 1, 0):]


def write(output: Path, found: Mapping, counts: Counter, words: float, loaded: str, steps: Mapping) -> None:
  """The page.

  Args:
    output: its name, without the ending.
    found: rows of evaluations by run, `RUN_SEED`, and `pretrained` and `student`, which all seeds share.
    counts: of `prepare`.
    words: of `bag_of_words`.
    loaded: of `transformers_says`.
    steps: of training, by run.
  """
  num_seeds = sum(name.startswith('reward_') for name in found)

  def ends(run, metric):  # the first and the last, [2, seeds]
    rows = [found[run]] if run in found else [found[f'{run}_{seed}'] for seed in range(num_seeds)]
    return np.array([[row[at][f'eval/held_out/{metric}'] for row in rows] for at in (0, -1)])

  def line(label, run, what, metric, told):
    first, last = ends(run, metric)
    cells = (np.median(first), np.median(last), last.min(), last.max())
    return f'| {label} | {what} | ' + ' | '.join(map(told.format, cells)) + ' |'

  changes = {name: ends(*read)[1] - ends(*read)[0] for name, read in _CHANGES.items()}
  changes['GKD less as much SFT, nats a token'] = ends('gkd', 'nll')[1] - ends('sft', 'nll')[1]
  left_out = ', '.join(f'{counts[why]} {why}' for why in sorted(counts) if why not in _KEPT)
  page = PAGE.format(
      all=counts['all'], train=counts['train'], held_out=counts['held out'], left_out=left_out,
      shorter=f'{100 * ends("reward", "shorter")[1].mean():.1f} %', words=f'{100 * words:.1f} %',
      loaded=loaded, seeds=num_seeds, steps=', '.join(f'{name} {num}' for name, num in steps.items()),
      sizes=', '.join(f'{name} {num}' for name, num in SIZES.items()),
      smaller=', '.join(f'{name} {num}' for name, num in SMALLER.items() if num != SIZES[name]), **LONGEST,
  )
  tables = (
      (*_HEAD, *(line(*row) for row in _ROWS)),
      (*_HEAD_OF_CHANGES, *(f'| {name} | {common.interval(x)} |' for name, x in changes.items())),
  )
  paragraphs = [textwrap.fill(' '.join(part.split()), 110) for part in page.strip().split('\n\n')]
  text = '\n\n'.join((*paragraphs, *('\n'.join(table) for table in tables)))
  output.parent.mkdir(parents=True, exist_ok=True)
  output.with_suffix('.md').write_text(f'{text}\n')


_OFFLINE = ('dpo', 'kto', 'orpo')
_STAGED = {'ppo': 'PPO', 'grpo': 'GRPO', 'online_dpo': 'online DPO'}  # behind SFT and a reward model
_KEPT = ('all', 'train', 'held out')
_HEAD = ('| run | held out | first | last | least | most |', '|---|---|---|---|---|---|')
_ROWS = (  # label, run, what, metric, how it is told
    ('pretrained, once', 'pretrained', 'nats a token', 'nll', '{:.2f}'),
    ('reward model', 'reward', 'accuracy', 'accuracy', '{:.3f}'),
    *((name.upper(), name, 'implicit accuracy', 'accuracy', '{:.3f}') for name in _OFFLINE),
    *((name.upper(), name, 'margin, nats', 'margin', '{:.2f}') for name in _OFFLINE),
    ('PPO', 'ppo', 'reward', 'reward', '{:.3f}'),
    ('PPO', 'ppo', 'KL, nats an answer', 'kl', '{:.2f}'),
    ('PPO', 'ppo', 'tokens an answer', 'tokens', '{:.1f}'),
    *((f'{label}, in one run', f'staged_{name}', what, metric, '{:.3f}') for name, label in _STAGED.items()
      for what, metric in (('reward', 'reward'), ('KL, nats an answer', 'kl'))),
    ('student, once', 'student', 'nats a token', 'nll', '{:.2f}'),
    ('student, more SFT', 'sft', 'nats a token', 'nll', '{:.3f}'),
    ('student, GKD', 'gkd', 'nats a token', 'nll', '{:.3f}'),
)
_HEAD_OF_CHANGES = ('| last less first, or less that of another | mean (95 %) |', '|---|---|')
_CHANGES = {  # of which the mean over seeds is told
    'reward model, accuracy': ('reward', 'accuracy'),
    **{f'{name.upper()}, implicit accuracy': (name, 'accuracy') for name in _OFFLINE},
    'PPO, reward': ('ppo', 'reward'),
    **{f'{label}, in one run, reward': (f'staged_{name}', 'reward') for name, label in _STAGED.items()},
}
PAGE = """# Preferences of people: harmless answers

Written by `python -m rlx.experiments.studies.harmless`. Comparisons are Anthropic's HH, the test split of
`harmless-base`: {all} rows, of which {left_out} (characters at most: {prompt} of a question, {answer} of an
answer) are left out; {train} to train on, {held_out} held out by their prompts. Prompts are cut at the last
question. The decoder begins from nothing ({sizes}) and is pretrained on the training texts. It is the teacher
of a student ({smaller}). *In one run* are SFT on the chosen answers, a reward model and what learns from it
as three stages of one config. Rewards are those of each seed's own reward model, whose levels differ: what
counts is the change of a seed, in the second table. Train steps: {steps}; 32 rows
each. Medians of {seeds} seeds, which all begin from the one pretrained decoder and the one student, and the
least and the most of them. Every run was stopped behind its first checkpoint, and went on.

To be beaten on the held-out comparisons: the shorter answer is the better one in {shorter}; a logistic
regression on words is right in {words}. In transformers: {loaded}.
"""


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(prog='harmless', description=__doc__.partition('\n')[0])
  parser.add_argument('--pairs', required=True, help='rows chosen, rejected, as .jsonl.gz')
  parser.add_argument('--folder', required=True, help='where runs are kept')
  parser.add_argument('--output', default=str(common.RESULTS / 'harmless'))
  parser.add_argument('--seeds', type=int, default=SEEDS, help='at least 3, of which an interval can be had')
  parser.add_argument('--scale', type=float, default=1.0, help='of all numbers of steps')
  parser.add_argument('--torch_python', default='', help='the interpreter of an environment with torch')
  return parser


if __name__ == '__main__':
  main()
