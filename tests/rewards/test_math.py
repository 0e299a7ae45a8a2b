"""Answers: where they stand in a text, and when two of them are the same."""

import pickle
import subprocess
import sys
import time

import numpy as np
import pytest

from rlx.rewards.math import boxed, final_answer, math_answer
from rlx.rewards.pool import RewardFunction, RewardPool


def reward(completion, gold, *, tolerance=1e-6):
  (value,) = math_answer([completion], [gold], tolerance=tolerance)
  return value


@pytest.mark.parametrize(
    ('text', 'inside'),
    [
        (r'\boxed{5}', '5'),
        (r'so \boxed{ \frac{1}{2} }.', r'\frac{1}{2}'),
        (r'\boxed{1} or \boxed{2}', '2'),
        (r'\boxed {3}', '3'),
        (r'\\boxed{4}', '4'),  # escaped once too often
        (r'{a} } \boxed{5} {', '5'),
        (r'\boxed{\{1, 2\}}', r'\{1, 2\}'),
        (r'\boxed{\left\{ x \right.}', r'\left\{ x \right.'),
        (r'\boxed{a \boxed{b}}', 'b'),
        (r'\boxed{1} and \boxed{2', '1'),
        (r'\boxed{1 {2}', None),
        (r'\boxed{}', ''),
        ('boxed{5}', None),
        ('', None),
        (r'\boxed{' * 100_000, None),
    ],
)
def test_boxed(text, inside):
  assert boxed(text) == inside


@pytest.mark.parametrize(
    ('text', 'answer'),
    [
        (r'\boxed{5} #### 6 and 7', '5'),
        ('2 + 3 = 5\n#### 5', '5'),
        ('#### 4\n#### $1,234\nI hope it is correct', '$1,234'),
        ('####\n7\n8', '7'),
        ('####', ''),
        ('3 apples and 4,500.50 pears.', '4,500.50'),
        ('between 3-5', '5'),
        ('x=-5', '-5'),
        ('it is 3/4.', '3/4'),
        ('of 1, 2, 3, ...', '3'),
        ('A1 has 25 % of .5', '.5'),
        ('no number', None),
    ],
)
def test_final_answer(text, answer):
  assert final_answer(text) == answer


SAME_NUMBERS = [
    ('1,234', '1234'),
    ('1234', '1,234'),
    ('12,345,678.5', '12345678.5'),
    (r'1{,}234', '1234'),
    (r'1\,234', '1234'),
    ('$18', '18'),
    (r'\$18.00', '18'),
    ('$18$', '18'),
    ('€5', '5'),
    ('-$7', '-7'),
    ('−7', '-7'),
    ('+7', '7'),
    ('18.', '18'),
    ('18 dollars.', '18'),
    ('18 dollars per day', '$18'),
    (r'18\text{ cm}', '18'),
    (r'90^\circ', '90'),
    ('**18**', '18'),
    (r'\(18\)', '18'),
    ('.5', '0.5'),
    ('1/2', '0.5'),
    (r'\frac{1}{2}', '1/2'),
    (r'-\dfrac12', '-0.5'),
    ('2 1/2', '2.5'),
    (r'-2\frac{1}{2}', '-2.5'),
    ('5e3', '5000'),
    ('25%', '25'),
    ('25', '25%'),
    (r'25\%', '0.25'),
    ('0.25', '25 percent'),
    ('25%', r'25\%'),
]
OTHER_NUMBERS = [
    ('1234', '1235'),
    ('-7', '7'),
    ('5 million', '5'),
    ('5 dozen', '5'),
    ('1,23', '123'),
    ('5 or 6', '5'),
    ('5 pi', '5'),
    (r'\frac{1}{2}3', '1/23'),
    ('25%', '2500'),
    ('0.25%', '25%'),
    ('1/0', '1'),
    ('2', '2 1/2'),
    ('', '0'),
    ('x', '0'),
]


@pytest.mark.parametrize(('answer', 'gold'), SAME_NUMBERS)
def test_same_numbers(answer, gold):
  assert reward(f'It is \\boxed{{{answer}}}, I think.', gold) == 1
  assert reward(f'so 2 + 2.\n#### {answer}', f'by counting\n#### {gold}') == 1


@pytest.mark.parametrize(('answer', 'gold'), OTHER_NUMBERS)
def test_other_numbers(answer, gold):
  assert reward(f'It is \\boxed{{{answer}}}, I think.', gold) == 0
  assert reward(f'so 2 + 2.\n#### {answer}', f'by counting\n#### {gold}') == 0


@pytest.mark.parametrize(
    ('completion', 'gold', 'expected'),
    [
        (r'\boxed{\frac{2}{4}}', r'\boxed{\frac{1}{2}}', 1),
        (r'\boxed{2\sqrt{2}}', r'\sqrt{8}', 1),
        (r'\boxed{x + 1}', '1+x', 1),
        (r'\boxed{x + 1}', 'x+2', 0),
        (r'\boxed{x = 5}', '5', 1),
        (r'\boxed{2^{10}}', '1024', 1),
        (r'\boxed{1024}', '2^{10}', 1),
        (r'\boxed{\{2, 1\}}', r'\{1, 2\}', 1),
        (r'\boxed{(2, 1)}', '(1, 2)', 0),
        (r'\boxed{\text{Monday}}', 'Monday', 1),
        (r'\boxed{B}', '(B)', 1),
        (r'\boxed{Monday}', 'Tuesday', 0),
        (r'\boxed{???}', '5', 0),
        (r'\boxed{\frac{}', 'x', 0),
        ('so the answer is $x + 1$.', '1+x', 1),
        ('I do not know', 'x', 0),
        ('I do not know', '5', 0),
        ('', '5', 0),
        ('it is 4, no, 5', '5', 1),
    ],
)
def test_other_answers_go_through_math_verify(completion, gold, expected):
  assert reward(completion, gold) == expected


@pytest.mark.parametrize('gold', ['', '  ', '####', r'\boxed{}', '???', None, float('nan'), 'x' * 2000])
def test_an_answer_of_the_data_set_that_cannot_be_parsed_does_not_apply(gold):
  assert reward(r'\boxed{5}', gold) is None


def test_answers_of_the_data_set_may_be_numbers():
  golds = [5, 5.0, np.int64(5), np.float32(5), 6, 1e-5]
  completions = [r'\boxed{5}'] * 5 + [r'\boxed{0.00001}']
  assert math_answer(completions, golds, tolerance=0.0) == [1, 1, 1, 1, 0, 1]
  with pytest.raises(ValueError, match='texts and numbers, not list'):
    reward('5', ['5'])


def test_the_tolerance_is_relative_above_one_and_absolute_below():
  for answer, gold, difference in (('1010', '1000', 0.01), ('0.51', '0.5', 0.01), ('-99', '-100', 0.01)):
    assert reward(answer, gold, tolerance=difference * 1.001) == 1
    assert reward(answer, gold, tolerance=difference * 0.999) == 0
  assert reward('0.1', '1/10', tolerance=0.0) == 1  # exact, not as floats
  assert reward('0.333333', '1/3', tolerance=0.0) == 0
  assert reward(r'\boxed{\sqrt{2}}', '1.414', tolerance=1e-2) == 1  # also behind math-verify
  assert reward(r'\boxed{\sqrt{2}}', '1.414', tolerance=1e-5) == 0
  for bad in (-1.0, float('nan'), float('inf')):
    with pytest.raises(ValueError, match='tolerance'):
      reward('1', '1', tolerance=bad)


def test_rows_are_independent_and_messages_are_read():
  completions = ['#### 1', [{'role': 'assistant', 'content': r'\boxed{2}'}], '#### 4', '#### 9']
  assert math_answer(completions, ['1', '2', '3', '???'], tolerance=0.0) == [1, 1, 0, None]


def test_numbers_do_not_import_math_verify():
  code = (
      'import sys; from rlx.rewards.math import math_answer;'
      'assert math_answer(["#### $1,234"], ["x #### 1234"], tolerance=0.0) == [1.0];'
      'assert not {"math_verify", "sympy", "jax", "numpy"} & sys.modules.keys()'
  )
  subprocess.run([sys.executable, '-c', code], check=True)


# --- in a pool ----------------------------------------------------------------------------------------------

TIMEOUT = 1.0
PATHOLOGICAL = [
    r'\boxed{9^9^9^9}',
    r'\boxed{9^{9^{9^9}}}',
    r'\boxed{100000000!}',
    r'\boxed{\sum_{k=1}^{10^9} \frac{1}{k^2+1}}',
    r'\boxed{' + '(' * 400 + '1' + ')' * 400 + '}',
    r'\boxed{' + r'\frac{1}{' * 90 + '1' + '}' * 90 + '}',
    r'\boxed{' + '7' * 10**6 + '}',
    '7' * 10**6,
    r'\boxed{' * 10**5,
]


@pytest.mark.slow
def test_pathological_answers_are_resolved_in_time_and_never_right():
  function = RewardFunction(name='math', function=math_answer, weight=1.0, arguments={'tolerance': 1e-6})
  good, bad = r'\boxed{\frac{10}{2}}', PATHOLOGICAL
  completions = [text for row in bad for text in (good, row)]
  rows = [''] * len(completions), completions, [[]] * len(completions)
  with RewardPool([function], timeout_seconds=TIMEOUT, workers=2, rows_per_call=1) as pool:
    start = time.monotonic()
    scores = pool.score(*rows, {'answer': ['5'] * len(completions)})
    seconds = time.monotonic() - start
  assert scores.values['math'][::2].tolist() == [1] * len(bad) and scores.scored[::2].all()
  assert seconds < 2 * (len(bad) + 1) // 2 * (TIMEOUT + 1) + 1  # what is stopped is tried once more
  hostile = scores.values['math'][1::2]
  assert ((hostile == 0) | scores.failed['math'][1::2]).all()
  # The tower of powers, for one, is stopped, twice: it is wrong, and not better off than what is wrong.
  assert scores.faults.keys() == {'stopped'} and scores.values['math'][3] == 0 and scores.scored.all()


def test_math_answer_can_be_sent_to_a_worker():
  assert pickle.loads(pickle.dumps(math_answer)) is math_answer
  assert math_answer.imports == ('math_verify',)
