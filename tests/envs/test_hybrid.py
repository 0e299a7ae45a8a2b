"""Thinking or not: solutions in both modes, and the contract of a task."""

import re

import jax
import numpy as np
import pytest

from rlx.envs.conformance import check_task
from rlx.envs.hybrid import composed, hybrid
from rlx.envs.text import EOS_ID
from tests.cases import cases

TASK = hybrid(modulus=4, min_steps=2, max_steps=3, held_out_share=0.25)
COMPOSED = composed(
    modulus=5, num_skills=3, used=(0, 1, 2), min_steps=1, max_steps=2, held_out_share=0.4
)


def assert_verified(task, answer, right):
  """Of a problem whose answer is 2; `$` is the end token, and behind it there may be nothing."""
  tokens = [EOS_ID if c == '$' else task.encode(c)[0] for c in answer]
  for width in (len(tokens), 12):
    completions = np.zeros((1, width), np.int32)
    completions[0, :len(tokens)] = tokens
    assert task.verify({'answers': task.encode('2')[None]}, completions).tolist() == [float(right)]


@pytest.mark.slow
def test_the_task_keeps_the_contract():
  check_task(TASK, num=500)


@pytest.mark.slow
def test_both_modes_are_shown_as_often():
  problems = jax.tree.map(np.asarray, TASK.sample(jax.random.key(0), 400, False))
  thought = 0
  for prompt, solution in zip(problems['prompts'], problems['solutions'], strict=True):
    digits, solution = TASK.decode(prompt)[:-1], TASK.decode(solution)
    answer = sum(map(int, digits)) % 4
    if solution[0] == '!':
      assert solution == f'!#{answer}'
    else:
      assert re.fullmatch(rf'\?([0-3];){{{len(digits)}}}#{answer}', solution)
      thought += 1
  assert 150 < thought < 250


@pytest.mark.parametrize(('answer', 'right'), cases(
    [
        ('!#2$', True), ('?3;#2$', True), ('?3;1;2;#2$', True), ('?#2$', False), ('!3;#2$', False),
        ('#2$', False), ('!#1$', False), ('!#2', False), ('3;#2$', False), ('!!#2$', False), ('?', False),
    ],
    at_once=[('?3;#2$', True), ('!3;#2$', False), ('#2$', False)],
))
def test_a_mode_is_kept(answer, right):
  assert_verified(TASK, answer, right)


@pytest.mark.slow
def test_the_composed_task_keeps_the_contract():
  check_task(COMPOSED, num=500)


@pytest.mark.slow
def test_composed_solutions_say_the_values_or_the_last_one():
  problems = jax.tree.map(np.asarray, COMPOSED.sample(jax.random.key(0), 400, False))
  thought = 0
  for prompt, solution in zip(problems['prompts'], problems['solutions'], strict=True):
    prompt, solution, values = COMPOSED.decode(prompt), COMPOSED.decode(solution), ''
    for letter in prompt[1:-1].rstrip('?'):
      slope = 'abc'.index(letter) + 1  # x -> a x + 1 modulo 5
      values += str((slope * int((prompt[0] + values)[-1]) + 1) % 5)
    assert solution in (f'!={values[-1]}', f'?{values}={values[-1]}')
    thought += solution[0] == '?'
  assert 150 < thought < 250


@pytest.mark.parametrize(('answer', 'right'), cases(
    [
        ('!=2$', True), ('?3=2$', True), ('?312=2$', True), ('?=2$', False), ('!3=2$', False), ('=2$', False),
        ('!=1$', False), ('!=2', False), ('3=2$', False), ('!=22$', False), ('?a=2$', False), ('?3', False),
        ('?3=', False),
    ],
    at_once=[('?3=2$', True), ('!3=2$', False), ('=2$', False), ('?3=', False)],
))
def test_a_composed_mode_is_kept(answer, right):
  assert_verified(COMPOSED, answer, right)
