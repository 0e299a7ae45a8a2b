"""Makes the small files of this folder, with which the configs' `:smoke` runs and the tests work offline.

    python -m rlx.experiments.data.generate

With `--word_problems=N --output=DIR` it makes N word problems to train on, and 256 others to be asked,
instead; with `--long` such of two to four steps. With `--solutions=N --output=DIR` it makes N right, N
labelled and N parted solutions and 256 others of each, of problems that are all different.

Word problems in the form of GSM8K, programming problems in that of HumanEval, conversations, comparisons of
answers, and solutions step by step, all by rule; and `tiny_model`, a random Hugging Face directory whose
tokenizer was trained on the first three.
"""

import argparse
import json
from pathlib import Path
import random
import shutil

from rlx.experiments.data import FOLDER
from rlx.experiments.init_model import init_model

HERE = Path(FOLDER)

NUM_ASKED = 256
_NAMES = ('Ada', 'Ben', 'Chloe', 'David', 'Emma', 'Femi', 'Grace', 'Hugo')
_THINGS = ('apples', 'books', 'coins', 'marbles', 'pencils', 'shells', 'stamps', 'tickets')
_TIMES = {2: 'twice', 3: 'three times'}
_TOLD = {  # of a step of a long word problem
    '+': (' {name} buys {number} more.', ' A friend gives {name} {number} {thing}.'),
    '-': (' {number} of them get lost.', ' {name} gives {number} {thing} away.'),
    '*': (' Soon {name} has {times} as many.', ' Then there are {times} as many {thing}.'),
}

_FUNCTIONS = (
    ('add', 'a, b', 'The sum of two numbers.', 'a + b', ((1, 2), (-3, 3), (10, 5))),
    ('subtract', 'a, b', 'The first number minus the second.', 'a - b', ((5, 2), (0, 3), (7, 7))),
    ('double', 'x', 'Twice a number.', '2 * x', ((0,), (4,), (-1,))),
    ('square', 'x', 'The square of a number.', 'x * x', ((0,), (3,), (-2,))),
    ('is_even', 'n', 'Whether a whole number is even.', 'n % 2 == 0', ((0,), (3,), (10,))),
    ('largest', 'numbers', 'The largest number of a list.', 'max(numbers)', (([1, 5, 2],), ([-3, -1],))),
    ('total', 'numbers', 'The sum of a list of numbers.', 'sum(numbers)', (([1, 2, 3],), ([],))),
    ('reverse', 'text', 'A text backwards.', 'text[::-1]', (('abc',), ('',))),
    ('shout', 'text', 'A text in capital letters.', 'text.upper()', (('abc',), ('a b',))),
    ('count_letter', 'text, letter', 'How often a letter is in a text.', 'text.count(letter)',
     (('banana', 'a'), ('banana', 'x'))),
    ('first', 'items', 'The first item of a list.', 'items[0]', (([1, 2],), (['a'],))),
    ('last', 'items', 'The last item of a list.', 'items[-1]', (([1, 2],), (['a'],))),
)


def word_problem(rng: random.Random) -> dict:
  """One or two steps of addition and subtraction, with the solution written out."""
  name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
  have, more, less = rng.randint(10, 50), rng.randint(2, 40), rng.randint(1, 9)
  question = f'{name} has {have} {thing} and gets {more} more. '
  steps = [f'{name} then has {have}+{more} = <<{have}+{more}={have + more}>>{have + more} {thing}.']
  result = have + more
  if rng.random() < 0.5:
    question += f'Then {name} gives {less} away. '
    left = result - less
    steps.append(f'After that {name} has {result}-{less} = <<{result}-{less}={left}>>{left}.')
    result = left
  question += f'How many {thing} does {name} have now?'
  return {'question': question, 'answer': '\n'.join([*steps, f'#### {result}'])}


def long_word_problem(rng: random.Random) -> dict:
  """Two to four steps of addition, subtraction and multiplication; the solution is the calculations alone."""
  name, thing = rng.choice(_NAMES), rng.choice(_THINGS)
  result = rng.randint(5, 30)
  question, steps = f'{name} has {result} {thing}.', []
  for _ in range(rng.randint(2, 4)):
    sign = rng.choice('+-*' if result <= 40 else '+-')
    number = {'+': rng.randint(2, 40), '-': rng.randint(1, max(result // 2, 1)), '*': rng.randint(2, 3)}[sign]
    before, result = result, {'+': result + number, '-': result - number, '*': result * number}[sign]
    told = rng.choice(_TOLD[sign])
    question += told.format(name=name, thing=thing, number=number, times=_TIMES.get(number))
    steps.append(f'{before}{sign}{number}={result}')
  question += f' How many {thing} does {name} have now?'
  return {'question': question, 'answer': '\n'.join([*steps, f'#### {result}'])}


def program(index: int) -> dict:
  """A function of one line with its tests."""
  name, arguments, what, expression, calls = _FUNCTIONS[index]
  checks = []
  for call in calls:
    expected = eval(f'lambda {arguments}: {expression}')(*call)  # our own text, above
    checks.append(f'  assert candidate({", ".join(map(repr, call))}) == {expected!r}')
  return {
      'task_id': f'Small/{index}',
      'prompt': f'def {name}({arguments}):\n    """{what}"""\n',
      'canonical_solution': f'    return {expression}\n',
      'test': '\n'.join(['def check(candidate):', *checks, '']),
      'entry_point': name,
  }


def conversation(rng: random.Random) -> dict:
  """A question, an answer, a thank-you."""
  a, b = rng.randint(1, 20), rng.randint(1, 20)
  return {
      'messages': [
          {'role': 'user', 'content': f'What is {a} plus {b}?'},
          {'role': 'assistant', 'content': f'{a} plus {b} is {a + b}.'},
          {'role': 'user', 'content': 'Thank you!'},
          {'role': 'assistant', 'content': 'You are welcome.'},
      ]
  }


def comparison(rng: random.Random) -> dict:
  """A right answer, which is preferred, and a wrong or a longer one."""
  a, b = rng.randint(1, 20), rng.randint(1, 20)
  wrong = a + b + rng.choice((-3, -2, -1, 1, 2, 3))
  longer = f' Thank you! {a} plus {b} is {a + b}.'
  worse = rng.choice((f' {a} plus {b} is {wrong}.', f' That is {wrong}.', longer))
  return {'prompt': f'What is {a} plus {b}?', 'chosen': f' {a} plus {b} is {a + b}.', 'rejected': worse}


def solution(rng: random.Random, wrong_from: int) -> tuple[str, list[str], list[bool]]:
  """A sum of four numbers, the steps to it, and which are right: none from step `wrong_from` on, from 0."""
  first, *rest = (rng.randint(2, 30) for _ in range(4))
  total, truth, steps, right = first, first, [], []
  for place, number in enumerate(rest):
    new = total + number + (rng.choice((-2, -1, 1, 2)) if place == wrong_from else 0)
    truth += number
    steps.append(f'{total} plus {number} is {new}.')
    right.append(new == truth)
    total = new
  return f'What is {first} plus {" plus ".join(map(str, rest))}?\n', steps, right


def right_solution(rng: random.Random) -> dict:
  """A solution as it is to be imitated, a line a step, and its result."""
  prompt, steps, _ = solution(rng, 3)  # from no step on
  answer = steps[-1].rstrip('.').rpartition(' ')[2]
  return {'prompt': prompt, 'completion': ''.join(f'{step}\n' for step in steps), 'answer': answer}


def labelled_steps(rng: random.Random) -> dict:
  """A solution whose steps are labelled; half of them go wrong somewhere."""
  prompt, steps, right = solution(rng, rng.choice((0, 1, 2, 3, 3, 3)))
  return {'prompt': prompt, 'completions': steps, 'labels': right}


def parted_solutions(rng: random.Random) -> dict:
  """The right solution and one that parts from it by a wrong step, with what then follows."""
  wrong_from, state = rng.randint(0, 2), rng.getstate()
  prompt, right, _ = solution(rng, 3)
  rng.setstate(state)
  _, wrong, _ = solution(rng, wrong_from)
  return {'prompt': prompt, 'chosen': right, 'rejected': wrong}


def write(name: str, rows: list[dict]) -> None:
  write_to(HERE / name, rows)


def write_to(path: Path, rows: list[dict]) -> None:
  path.write_text(''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows))


def word_problems(*, num: int, long: bool = False) -> dict[str, list[dict]]:
  """Different problems, as the `rows` of `dataset.of_rows`: `num` to train on, and 256 others to be asked."""
  rng, seen = random.Random(1), {}
  while len(seen) < num + NUM_ASKED:
    problem = long_word_problem(rng) if long else word_problem(rng)
    seen[problem['question']] = problem
  problems = [*seen.values()]
  return {'train': problems[:num], 'held_out': problems[num:]}


def more_word_problems(num: int, folder: Path, *, long: bool) -> None:
  """Files of them, `train.jsonl` and `test.jsonl`."""
  problems = word_problems(num=num, long=long)
  folder.mkdir(parents=True, exist_ok=True)
  for name, rows in (('train', problems['train']), ('test', problems['held_out'])):
    write_to(folder / f'{name}.jsonl', rows)


def more_solutions(num: int, folder: Path) -> None:
  """Files of them, as those of this folder: `steps_train.jsonl`, `step_pairs_test.jsonl`, ...; and of right
  ones to be imitated, `solutions_train.jsonl`."""
  folder.mkdir(parents=True, exist_ok=True)
  makers = {'solutions': right_solution, 'steps': labelled_steps, 'step_pairs': parted_solutions}
  for name, make in makers.items():
    rng, seen = random.Random(1), {}
    while len(seen) < num + NUM_ASKED:
      row = make(rng)
      seen[row['prompt']] = row
    rows = [*seen.values()]
    write_to(folder / f'{name}_train.jsonl', rows[:num])
    write_to(folder / f'{name}_test.jsonl', rows[num:])


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--word_problems', type=int, default=0)
  parser.add_argument('--long', action='store_true', help='of two to four steps')
  parser.add_argument('--solutions', type=int, default=0)
  parser.add_argument('--output', type=Path, default=None)
  arguments = parser.parse_args()
  if arguments.word_problems:
    more_word_problems(arguments.word_problems, arguments.output, long=arguments.long)
  elif arguments.solutions:
    more_solutions(arguments.solutions, arguments.output)
  else:
    the_files_of_this_folder()


def the_files_of_this_folder() -> None:
  """Writes all of them anew."""
  rng = random.Random(0)
  problems = [word_problem(rng) for _ in range(80)]
  write('word_problems_train.jsonl', problems[:64])
  write('word_problems_test.jsonl', problems[64:])
  programs = [program(index) for index in range(len(_FUNCTIONS))]
  write('programs_train.jsonl', programs[:8])
  write('programs_test.jsonl', programs[8:])
  chats = [conversation(rng) for _ in range(40)]
  write('chats_train.jsonl', chats[:32])
  write('chats_test.jsonl', chats[32:])
  pairs = [comparison(rng) for _ in range(96)]
  write('pairs_train.jsonl', pairs[:64])
  write('pairs_test.jsonl', pairs[64:])
  for name, make in (('steps', labelled_steps), ('step_pairs', parted_solutions)):
    rows = [make(rng) for _ in range(48)]
    write(f'{name}_train.jsonl', rows[:32])
    write(f'{name}_test.jsonl', rows[32:])
  model = HERE / 'tiny_model'
  shutil.rmtree(model, ignore_errors=True)
  init_model(
      [HERE / f'{name}_train.jsonl' for name in ('word_problems', 'programs', 'chats')], model,
      family='qwen2', vocab_size=384, layers=2, width=32, heads=4, kv_heads=2, mlp_size=64,
      context_length=512, chat_template='chatml', seed=0, dtype='float32',
  )


if __name__ == '__main__':
  main()
