"""The tasks against plain Python, and the contract that they all keep."""

import collections
import dataclasses
import itertools
import random
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import countdown as countdown_module
from rlx.envs.arithmetic import arithmetic
from rlx.envs.conformance import check_task
from rlx.envs.countdown import TARGET_LIMIT, countdown
from rlx.envs.programs import programs
from rlx.envs.sorting import sorting
from rlx.envs.text import EOS_ID
from tests.cases import cases

TASKS = {  # shared, so that each is compiled once
    'sums': arithmetic(min_operand=0, max_operand=9, operators='+', held_out_share=0.2),
    'sums and differences': arithmetic(min_operand=0, max_operand=12, operators='+-', held_out_share=0.2),
    'sorting': sorting(length=2, held_out_share=0.2),
    'countdown': countdown(num_numbers=3, max_number=10, held_out_share=0.2),
    'programs': programs(operations=2, modulus=5, tests=2, held_out_share=0.25),
}


def draw(task, held_out=False, seed=0):
  """2000 problems as NumPy, and their prompts and solutions as text."""
  problems = jax.jit(task.sample, static_argnums=(1, 2))(jax.random.key(seed), 2000, held_out)
  problems = {name: np.asarray(array) for name, array in problems.items()}
  return problems, *([task.decode(row) for row in problems[name]] for name in ('prompts', 'solutions'))


def prompts_of(task, held_out):
  """All prompts of a small task, as a set; 10,000 draws miss none of a few hundred."""
  return set().union(*(draw(task, held_out, seed)[1] for seed in range(5)))


def completions(task, texts, width=20):
  """[N, width or more] tokens: each text and an end token; `$` in a text is an end token, `_` is padding."""
  special = {'$': EOS_ID, '_': 0}
  rows = [[special[c] if c in special else task.encode(c)[0] for c in text + '$'] for text in texts]
  width = max(width, *map(len, rows))
  return np.array([row + [0] * (width - len(row)) for row in rows], np.int32)


# --- the contract -----------------------------------------------------------------------------------------


@pytest.mark.parametrize('name', TASKS)
@pytest.mark.slow
def test_tasks_keep_the_contract(name):
  check_task(TASKS[name])


BROKEN = {}


def broken(message):
  """Files a fault under the message that it must cause; a fault is `task -> fields to replace`."""
  return lambda fault: BROKEN.setdefault(fault.__name__, (fault, message))


@broken('drawn for training and held out')
def leaky_split(task):
  return {'sample': lambda key, num, held_out: task.sample(key, num, False)}


@broken('drawn for training and held out')
def split_that_depends_on_the_key(task):
  def sample(key, num, held_out):
    swap = jax.random.bernoulli(jax.random.fold_in(key, 1))
    one, other = task.sample(key, num, held_out), task.sample(key, num, not held_out)
    return jax.tree.map(lambda a, b: jnp.where(swap, a, b), one, other)

  return {'sample': sample}


@broken('if both keys drew from the same set')
def held_out_problems_that_depend_on_the_key(task):
  def sample(key, num, held_out):
    problems = task.sample(key, num, held_out)
    return jax.tree.map(lambda a: jnp.resize(a[:3], a.shape), problems) if held_out else problems

  return {'sample': sample}


@broken('different keys draw the same')
def constant_key(task):
  return {'sample': lambda key, num, held_out: task.sample(jax.random.key(0), num, held_out)}


@broken('other problems when traced again')
def randomness_beside_the_key(task):
  traces = itertools.count()
  mix = lambda key: jax.random.fold_in(key, next(traces))
  return {'sample': lambda key, num, held_out: task.sample(mix(key), num, held_out)}


@broken('a solution does not verify')
def verify_that_accepts_nothing(task):
  return {'verify': lambda problems, rows: 0 * task.verify(problems, rows)}


@broken('without its end token verifies')
def verify_that_accepts_everything(task):
  return {'verify': lambda problems, rows: 0 * task.verify(problems, rows) + 1}


@broken('still verify with one character changed')
def verify_that_only_looks_for_an_end(task):
  ended = lambda rows: (rows[:, 0] != EOS_ID) & (rows == EOS_ID).any(1)
  return {'verify': lambda problems, rows: ended(rows).astype(jnp.float32)}


@broken('something behind its end token')
def verify_that_reads_on(task):
  def verify(problems, rows):
    return task.verify(problems, rows) * (rows[:, task.answer_columns :] == 0).all(1)

  return {'verify': verify}


@broken('depends on the other rows')
def verify_that_looks_at_the_first_row(task):
  return {'verify': lambda problems, rows: task.verify(problems, rows) * (rows[0, 0] > 1)}


@broken('it needs float32')
def verify_that_returns_bool(task):
  return {'verify': lambda problems, rows: task.verify(problems, rows) > 0}


@broken('it needs 0 or 1')
def verify_that_returns_shares(task):
  return {'verify': lambda problems, rows: task.verify(problems, rows) / 2}


def column(task, name, change):
  """A task whose problems have one column changed."""

  def sample(key, num, held_out):
    problems = task.sample(key, num, held_out)
    return {**problems, name: change(problems.get(name, jnp.zeros(num, jnp.int32)))}

  return {'sample': sample}


@broken('characters from column 0')
def prompts_on_the_right(task):
  return {**column(task, 'prompts', lambda a: jnp.pad(a, ((0, 0), (1, 0)))), 'prompt_columns': 4}


@broken('characters from column 0')
def lengths_that_are_one_short(task):
  return column(task, 'prompt_lengths', lambda a: a - 1)


@broken('one end token, and then padding')
def solutions_without_an_end(task):
  return column(task, 'solutions', lambda a: jnp.where(a == EOS_ID, 0, a))


@broken(r'it needs int32\(2000, 3\)')
def prompts_that_are_floats(task):
  return column(task, 'prompts', lambda a: a.astype(jnp.float32))


@broken('rename them')
def columns_that_a_batch_uses(task):
  return column(task, 'groups', lambda a: a)


@broken('repeats a character')
def alphabet_with_a_repeat(task):
  return {'alphabet': '0123456788='}


@pytest.mark.parametrize('name', cases(BROKEN, at_once=list(BROKEN)[::3]))
def test_conformance_finds_the_fault(name):
  fault, message = BROKEN[name]
  task = TASKS['sorting']
  with pytest.raises(ValueError, match=message):
    check_task(dataclasses.replace(task, **fault(task)))


# --- arithmetic -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('operands', 'operators', 'task'),
    [
        ((0, 9), '+', TASKS['sums']),
        ((0, 12), '+-', TASKS['sums and differences']),
        ((10, 99), '+', arithmetic(min_operand=10, max_operand=99, operators='+', held_out_share=0.1)),
        ((0, 9999), '-', arithmetic(min_operand=0, max_operand=9999, operators='-', held_out_share=0.5)),
    ],
)
def test_arithmetic_is_that_of_python(operands, operators, task):
  _, prompts, solutions = draw(task)
  seen = set()
  for prompt, solution in zip(prompts, solutions, strict=True):
    left, operator, right = re.fullmatch(r'(\d+)([+-])(\d+)=', prompt).groups()
    assert operands[0] <= int(left) <= operands[1] and operands[0] <= int(right) <= operands[1]
    assert (str(int(left)), str(int(right))) == (left, right)
    assert solution == str(int(left) + int(right) if operator == '+' else int(left) - int(right))
    seen.add(operator)
  assert seen == set(operators)
  assert any(solution[0] == '-' for solution in solutions) == ('-' in operators)


def test_arithmetic_splits_all_problems_in_two():
  training, held_out = (prompts_of(TASKS['sums and differences'], part) for part in (False, True))
  assert training | held_out == {f'{a}{o}{b}=' for a in range(13) for b in range(13) for o in '+-'}
  assert len(held_out) == 67 and not training & held_out


def test_arithmetic_asks_for_the_exact_answer():
  task = TASKS['sums and differences']
  problems, _, solutions = draw(task)
  row = next(i for i, solution in enumerate(solutions) if solution[0] == '-')
  texts = [solutions[row], solutions[row][1:], '0' + solutions[row], '-0' + solutions[row][1:], '', '-', '=']
  repeated = {name: jnp.repeat(array[row : row + 1], len(texts), axis=0) for name, array in problems.items()}
  assert task.verify(repeated, completions(task, texts)).tolist() == [1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize('operators', ['', '*', '+*', '++'])
def test_arithmetic_refuses_operators(operators):
  with pytest.raises(ValueError, match='operators='):
    arithmetic(min_operand=0, max_operand=9, operators=operators, held_out_share=0.2)


@pytest.mark.parametrize('max_operand', [0, 10_000])
def test_arithmetic_refuses_operands(max_operand):
  with pytest.raises(ValueError, match='max_operand='):
    arithmetic(min_operand=0, max_operand=max_operand, operators='+', held_out_share=0.2)


# --- sorting ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ('length', 'task'), [(2, TASKS['sorting']), (8, sorting(length=8, held_out_share=0.2))]
)
def test_sorting_sorts(length, task):
  _, prompts, solutions = draw(task)
  for prompt, solution in zip(prompts, solutions, strict=True):
    assert re.fullmatch(r'\d+=', prompt) and len(prompt) == length + 1
    assert solution == ''.join(sorted(prompt[:-1]))


def test_sorting_splits_all_problems_in_two():
  training, held_out = (prompts_of(TASKS['sorting'], part) for part in (False, True))
  assert training | held_out == {f'{i:02d}=' for i in range(100)}
  assert len(held_out) == 20 and not training & held_out


@pytest.mark.parametrize('length', [1, 9])
def test_sorting_refuses_lengths(length):
  with pytest.raises(ValueError, match='length='):
    sorting(length=length, held_out_share=0.2)


# --- countdown --------------------------------------------------------------------------------------------


def solves(numbers, target, text):
  """What `verify` computes, by Python: digits and operators only, each number once, the right value."""
  answer, end, _ = text.partition('$')
  if not end or not re.fullmatch(r'[1-9][0-9]*([-+*][1-9][0-9]*)*', answer):
    return False
  used = collections.Counter(map(int, re.findall('[0-9]+', answer)))
  return used == collections.Counter(numbers) and eval(answer) == target


def compare(problems):
  """`verify` agrees with `solves` on all (numbers, target, text); texts get an end token behind them."""
  task = countdown(num_numbers=len(problems[0][0]), max_number=99, held_out_share=0.2)
  numbers, targets, texts = zip(*problems, strict=True)
  columns = {'numbers': np.array(numbers, np.int32), 'targets': np.array(targets, np.int32)}
  rewards = np.asarray(jax.jit(task.verify)(columns, completions(task, texts, width=70)))
  expected = np.array([solves(n, t, text + '$') for n, t, text in problems])
  wrong = np.flatnonzero(rewards != expected)
  assert not wrong.size, (problems[wrong[0]], rewards[wrong[0]])
  return expected.mean()


def expressions(numbers):
  for terms in itertools.permutations(map(str, numbers)):
    for operators in itertools.product('+-*', repeat=len(terms) - 1):
      yield terms[0] + ''.join(map(''.join, zip(operators, terms[1:], strict=True)))


@pytest.mark.parametrize(('num_numbers', 'max_number'), cases([(2, 2), (6, 99)], at_once=[(2, 2)]))
def test_countdown_problems_are_what_they_say(num_numbers, max_number):
  task = countdown(num_numbers=num_numbers, max_number=max_number, held_out_share=0.5)
  problems, prompts, solutions = draw(task)
  for prompt, solution, numbers, target in zip(
      prompts, solutions, problems['numbers'].tolist(), problems['targets'].tolist(), strict=True
  ):
    assert numbers == sorted(numbers)
    assert all(1 <= number <= max_number for number in numbers)
    assert prompt == f'{",".join(map(str, numbers))}:{target}='
    assert 0 <= target < TARGET_LIMIT
    assert solves(numbers, target, solution + '$')
  assert max(map(len, solutions)) <= task.answer_columns - 1
  plain_sums = np.mean(problems['targets'] == problems['numbers'].sum(axis=1))
  assert plain_sums < 0.6  # half of those with two numbers: a negative difference is drawn again
  assert set('+-*') <= set(''.join(solutions))


@pytest.mark.parametrize(('num_numbers', 'max_number'), [(2, 4), (3, 10), (6, 6)])
def test_multiset_enumerates_each_once(num_numbers, max_number):
  expected = list(itertools.combinations_with_replacement(range(1, max_number + 1), num_numbers))
  found = countdown_module.multiset(jnp.arange(len(expected)), num_numbers, max_number)
  assert sorted(map(tuple, found.tolist())) == expected


def test_multiset_reaches_the_last_of_the_largest_enumeration():
  assert countdown_module.multiset(jnp.array([0, 1_517_381_579]), 6, 99).tolist() == [[1] * 6, [99] * 6]


def test_countdown_splits_multisets_in_two():
  numbers = lambda part: {prompt.partition(':')[0] for prompt in prompts_of(TASKS['countdown'], part)}
  training, held_out = numbers(False), numbers(True)
  assert len(training) == 176 and len(held_out) == 44 and not training & held_out


def test_countdown_accepts_exactly_the_expressions_with_the_value():
  """Every expression over the numbers, for targets that some of them have."""
  chooser = random.Random(0)
  problems = []
  for _ in range(100):
    numbers = sorted(chooser.choices(range(1, 13), k=3))
    texts = list(expressions(numbers))
    values = [eval(text) for text in texts]
    target = chooser.choice([value for value in values if 0 <= value < TARGET_LIMIT])
    problems += [(numbers, target, text) for text in texts]
  assert compare(problems) > 0.05


@pytest.mark.slow
def test_countdown_agrees_with_python_on_spoilt_expressions():
  """Random expressions with characters inserted, removed and replaced; some stay right or become right."""
  chooser = random.Random(1)
  alphabet = '0123456789+-*+-*,:=$_'
  problems = []
  for _ in range(6000):
    numbers = sorted(chooser.choices(range(1, 31), k=4))
    terms = chooser.sample(numbers, k=4)
    text = str(terms[0]) + ''.join(chooser.choice('+-*') + str(term) for term in terms[1:])
    target = eval(text) if 0 <= eval(text) < TARGET_LIMIT else chooser.randrange(TARGET_LIMIT)
    for _ in range(chooser.randrange(3)):
      at = chooser.randrange(len(text))
      text = text[:at] + chooser.choice(['', *alphabet]) + text[at + chooser.randrange(2) :]
    problems.append((numbers, target, text or '_'))
  assert 0.1 < compare(problems) < 0.9


def test_countdown_agrees_with_python_on_noise():
  chooser = random.Random(2)
  noise = lambda: ''.join(chooser.choices('1122+-*=$', k=chooser.randrange(1, 8)))
  problems = [([1, 2], chooser.randrange(4), noise()) for _ in range(6000)]
  assert compare(problems) > 0.001


@pytest.mark.parametrize(
    ('numbers', 'target', 'text', 'expected'),
    [
        ([2, 3, 7], 17, '2*7+3', 1),
        ([2, 3, 7], 17, '3+7*2', 1),
        ([2, 3, 7], 17, '3+2*7$*9', 1),
        ([2, 3, 7], 20, '3+7*2', 0),  # precedence
        ([2, 3, 7], 17, '+3+7*2', 0),  # a sign
        ([2, 3, 7], 4, '-3+7', 0),
        ([2, 3, 7], 17, '3+7*02', 0),  # a leading zero
        ([2, 3, 7], 17, '3+0+7*2', 0),  # a number that is not given
        ([2, 3, 7], 17, '3++7*2', 0),
        ([2, 3, 7], 17, '3+7**2', 0),
        ([2, 3, 7], 17, '3+7*2+', 0),
        ([2, 3, 7], 10, '3+7', 0),  # a number is missing
        ([3, 3, 7], 13, '3+3+7', 1),
        ([3, 3, 7], 10, '3+7', 0),
        ([3, 7, 7], 13, '3+3+7', 0),  # the wrong one twice
        ([2, 3, 7], 17, '3+7_*2', 0),  # padding inside
        ([2, 3, 7], 17, '3+7=*2', 0),
        ([5, 5, 5], 5, '5-5+5', 1),  # from left to right
        ([1, 12, 11], 0, '12-11-1', 1),
        ([1, 11, 11], 0, '12-11-1', 0),
        ([96, 97, 98, 99, 99, 99], 198, '97*98*99-96*99*99', 1),  # large products that cancel
        ([4, 64, 64, 64, 64, 64], 0, '4*64*64*64*64*64', 0),  # 2**32, which is 0 in 32 bits
        ([4, 64, 64, 64, 64, 64], 4, '4+64*64*64-64*64', 0),
        ([1, 2, 3], 6, '4294967297*2*3', 0),  # 2**32 + 1
        ([1, 2, 3], 6, '1+2+' + '0' * 30 + '3', 0),
        ([1, 2, 3], 6, '1+2+3' + '+3' * 30, 0),
    ],
)
def test_countdown_by_hand(numbers, target, text, expected):
  assert compare([(numbers, target, text)]) == expected


def test_countdown_needs_the_end_token():
  task = TASKS['countdown']
  columns = {'numbers': np.array([[2, 3, 7]], np.int32), 'targets': np.array([17], np.int32)}
  tokens = completions(task, ['2*7+3'])
  end = tokens.tolist()[0].index(EOS_ID)
  beyond_the_alphabet = np.where(tokens == EOS_ID, np.int32(task.vocab_size + 3), tokens)
  verify = jax.jit(task.verify)
  assert verify(columns, tokens[:, : end + 1]).tolist() == [1]
  assert verify(columns, tokens[:, :end]).tolist() == [0]
  assert verify(columns, completions(task, ['2*7+3+'])[:, : end + 1]).tolist() == [0]
  assert verify(columns, beyond_the_alphabet).tolist() == [0]


@pytest.mark.parametrize(('num_numbers', 'max_number'), [(1, 9), (7, 9), (3, 1), (3, 100)])
def test_countdown_refuses_sizes(num_numbers, max_number):
  with pytest.raises(ValueError, match='num_numbers=|max_number='):
    countdown(num_numbers=num_numbers, max_number=max_number, held_out_share=0.2)
