"""Thinking or not: solutions in both modes, and the contract of a task."""

import re

import jax
import numpy as np
import pytest

from rlx.envs.conformance import check_task
from rlx.envs.hybrid import hybrid
from rlx.envs.text import EOS_ID
from tests.cases import cases

TASK = hybrid(modulus=4, min_steps=2, max_steps=3, held_out_share=0.25)


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
  tokens = [EOS_ID if c == '$' else TASK.encode(c)[0] for c in answer]
  for width in (len(tokens), 12):
    completions = np.zeros((1, width), np.int32)
    completions[0, :len(tokens)] = tokens
    assert TASK.verify({'answers': TASK.encode('2')[None]}, completions).tolist() == [float(right)]
