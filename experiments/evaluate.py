"""`rlx evaluate --model=DIR --data=FILE --reward=FUNCTION`: pass@k, majority@k and lengths on a JSONL.

`rlx evaluate --workdir=DIR` measures a run instead, with its own evaluations: `evaluate_run.py`. Where the
reward is the directory of a reward model, that is what is measured: `evaluate_reward.py`.
"""

import argparse
import ast
import json
from pathlib import Path

import numpy as np

from rlx.experiments import evaluate_reward, evaluate_run
from rlx.experiments.commands import EXIT_DONE, CommandError, Parser, natural, positive
from rlx.experiments.generate import add_model_options, add_sampling_options, other_numbers


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  if any(argument.partition('=')[0] == '--workdir' for argument in argv):
    return evaluate_run.main(argv)
  if _is_model(argv):
    return evaluate_reward.main(argv)
  arguments = _parser().parse_args(argv)
  try:
    ks = sorted({int(k) for k in arguments.k.split(',')})
  except ValueError:
    raise CommandError(f'--k={arguments.k}: needs whole numbers, like 1,8') from None
  if ks[0] < 1 or ks[-1] > arguments.samples:
    raise CommandError(f'--k={arguments.k}: each k is between 1 and --samples={arguments.samples}')
  try:
    rows = _answered(arguments)
  except ValueError as error:
    raise CommandError(error) from error
  if arguments.output:
    Path(arguments.output).write_text(
        ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows)
    )
  try:
    lines = summary(rows, ks, seed=arguments.seed)
  except ValueError as error:
    raise CommandError(f'--answer={arguments.answer}: {error}') from error
  for name, value in lines.items():
    print(f'{name:<20}{value}')
  return EXIT_DONE


def _is_model(argv: list[str]) -> bool:
  """Whether the reward is a directory, and no function.

  Raises:
    CommandError: it looks like one, and is none.
  """
  parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
  parser.add_argument('--reward', default='')
  reward = parser.parse_known_args(argv)[0].reward
  is_model = bool(reward) and Path(reward).is_dir()
  if '/' in reward and not is_model:
    raise CommandError(f'--reward={reward}: there is no such directory, and names of functions have no /')
  return is_model


def summary(rows: list[dict], ks: list[int], *, seed: int) -> dict[str, str]:
  """Estimates over all problems, with 95 % bootstrap intervals over problems.

  Args:
    rows: a problem each, with `correct` (a bool a sample, None where the reward function failed), `answers`
      (text or None a sample, or no entry at all), `tokens` (length of each sample) and `truncated`.
    ks: samples a problem, for pass@k and majority@k.
    seed: of the bootstrap.
  """
  from rlx.evaluation import passk

  known = [row for row in rows if None not in row['correct']]
  failed = len(rows) - len(known)
  lines = {'problems': f'{len(known)} ({failed} failed)' if failed else f'{len(known)}'}
  counts = np.array([len(row['correct']) for row in known])
  right = np.array([sum(row['correct']) for row in known])
  for k in ks if known else []:
    lines[f'pass@{k}'] = _percent(passk.pass_at_k(counts, right, k), seed)
  for k in [k for k in ks if k > 1] if known and known[0]['answers'] else []:
    votes = passk.majority_at_k([row['answers'] for row in known], [row['correct'] for row in known], k)
    lines[f'majority@{k}'] = _percent(votes, seed)
  lines['mean length'] = f'{np.mean([n for row in rows for n in row["tokens"]]):.1f} tokens'
  lines['truncated'] = f'{100 * np.mean([t for row in rows for t in row["truncated"]]):.1f} %'
  return lines


def _percent(values: np.ndarray, seed: int) -> str:
  from rlx.evaluation import passk

  low, high = passk.bootstrap_interval(values, level=0.95, seed=seed)
  return f'{100 * values.mean():.1f} %  [{100 * low:.1f}, {100 * high:.1f}]'


def _answered(arguments) -> list[dict]:
  """The rows of the file with the model's completions and their scores."""
  from rlx.data.dataset import dataset
  from rlx.experiments import talk
  from rlx.names import resolve

  talker = talk.load(
      arguments.model, adapter=arguments.adapter, context_length=arguments.context_length,
      dtype=arguments.dtype,
  )
  columns = {'prompt': arguments.prompt.replace('\\n', '\n')} if arguments.prompt else {}
  task = dataset(
      directory=arguments.model, train=arguments.data, held_out='', columns=columns, chat=arguments.chat,
      system=arguments.system, max_prompt_tokens=talker.model.context_length - arguments.max_tokens,
      max_completion_tokens=talker.model.context_length, malformed='strict',
  )
  numbers = np.arange(len(task.data['prompts']))[: arguments.problems or None]
  decoding = talker.decoding(
      max_tokens=arguments.max_tokens, temperature=arguments.temperature, top_k=arguments.top_k,
      top_p=arguments.top_p, chat=task.conversational, **other_numbers(arguments),
  )
  prompts = [task.data['prompts'][i, : task.data['prompt_lengths'][i]] for i in numbers]
  tokens = talker.answer(
      prompts, decoding, num_samples=arguments.samples, seed=arguments.seed, batch_size=arguments.batch_size
  )
  correct = _score(arguments, task, numbers, tokens)
  extract = resolve(arguments.answer, 'rlx.rewards') if arguments.answer else None
  rows = []
  for i, prompt, samples, marks in zip(numbers, prompts, tokens, correct, strict=True):
    texts = [talker.tokenizer.decode(sample) for sample in samples]
    rows.append({
        'row': int(i),
        'prompt': talker.tokenizer.decode(prompt),
        'completions': texts,
        'answers': [extract(text) for text in texts] if extract else [],
        'correct': marks,
        'tokens': [len(sample) for sample in samples],
        'truncated': [not sample or sample[-1] not in decoding.eos_ids for sample in samples],
    })
  return rows


def _score(arguments, task, numbers, tokens) -> list[list[bool | None]]:
  """For each problem and sample: whether the reward is 1; None where the function failed or says None."""
  from rlx.rewards.host import host

  functions = {'correct': {'name': arguments.reward, 'weight': 1.0, **_reward_arguments(arguments)}}
  reward = host(
      task, functions=functions, timeout_seconds=arguments.timeout_seconds, workers=arguments.workers,
      rows_per_call=1,
  )
  try:
    flat = [sample for samples in tokens for sample in samples]
    scores = reward.score(np.repeat(numbers, arguments.samples), flat)
  finally:
    reward.close()
  for message in scores.messages:
    print(f'reward function failed: {message}')
  values = scores.values['correct'].reshape(len(numbers), -1)
  return [[None if np.isnan(x) else bool(x == 1) for x in row] for row in values]


def _reward_arguments(arguments) -> dict:
  """`--reward_argument name=value` as Python values, text where they are none."""
  values = {}
  for text in arguments.reward_argument:
    name, equals, value = text.partition('=')
    if not equals:
      raise CommandError(f'--reward_argument={text}: needs name=value')
    try:
      values[name] = ast.literal_eval(value)
    except (ValueError, SyntaxError):
      values[name] = value
  return values


def _parser() -> Parser:
  parser = Parser(
      prog='rlx evaluate',
      description='Samples every problem of a file and scores the samples with a reward function.',
  )
  parser.add_argument(  # `main` asks for it first, and then the line has other options
      '--workdir', metavar='DIR', help='measure a run instead; rlx evaluate --workdir=DIR --help says how'
  )
  add_model_options(parser)
  add_sampling_options(parser, max_tokens=256, temperature=1.0)
  parser.add_argument('--data', required=True, metavar='FILE', help='JSONL, a problem a line')
  parser.add_argument(
      '--prompt', default='', metavar='TEMPLATE', help='e.g. "Question: {question}\\nAnswer:"'
  )
  parser.add_argument('--problems', type=natural, default=0, help='the first so many; 0: all')
  parser.add_argument('--samples', type=positive, default=1, help='a problem')
  parser.add_argument('--k', default='1', metavar='K,K', help='for pass@k and majority@k')
  parser.add_argument('--reward', required=True, metavar='FUNCTION', help='rlx.rewards.math.math_answer')
  parser.add_argument('--reward_argument', action='append', default=[], metavar='NAME=VALUE')
  parser.add_argument(
      '--answer', default='', metavar='FUNCTION',
      help='text -> the answer that votes, or None, for majority@k: rlx.rewards.math.final_answer',
  )
  parser.add_argument('--timeout_seconds', type=float, default=10.0, help='for one call of the function')
  parser.add_argument('--workers', type=positive, default=2, help='processes that score')
  parser.add_argument('--batch_size', type=positive, default=16, help='problems in one program')
  parser.add_argument('--output', metavar='FILE', help='JSONL with every sample')
  return parser
