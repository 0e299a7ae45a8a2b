"""C-RLFT: demonstrations of unlike quality, marked and weighed. https://arxiv.org/abs/2309.11235"""

import jax
import numpy as np
import pytest

from rlx.algorithms.c_rlft import c_rlft
from rlx.envs import qualities
from rlx.envs.conformance import check_task
from rlx.envs.text import demonstrations

NUMBERS = dict(max_operand=30, expert_share=0.3, expert_problems=0.2, held_out_share=0.1)


def texts(task, problems):
  shown = zip(problems['prompts'], problems['solutions'], strict=True)
  return [(task.decode(prompt), task.decode(solution)) for prompt, solution in shown]


def test_the_careless_one_never_carries_and_the_mark_tells_who_answers():
  task = qualities.careless_sums(marks='ec', **NUMBERS)
  problems = jax.jit(task.sample, static_argnums=(1, 2))(jax.random.key(0), 400, False)
  seen = {'e': set(), 'c': set()}
  for (prompt, solution), number in zip(texts(task, problems), problems['classes'], strict=True):
    mark, sum_ = prompt[0], prompt[1:-1]
    left, right = map(int, sum_.split('+'))
    by_digit = (left // 10 + right // 10) % 10 * 10 + (left % 10 + right % 10) % 10
    assert mark == 'ec'[number] and int(solution) == (left + right if mark == 'e' else by_digit)
    seen[mark].add(sum_)
  assert 80 < (np.asarray(problems['classes']) == 0).sum() < 160, 'three in ten are the expert\'s'
  assert len(seen['e']) < 0.2 * 0.9 * 900 and len(seen['c']) > 200, 'who has answered few problems'


@pytest.mark.slow
def test_problems_that_are_held_out_ask_for_the_expert_and_the_task_conforms():
  task = qualities.careless_sums(marks='ec', **NUMBERS)
  held_out = task.sample(jax.random.key(1), 64, True)
  assert not held_out['classes'].any()
  assert all(prompt[0] == 'e' for prompt, _ in texts(task, held_out))
  untold = qualities.careless_sums(marks='ee', **NUMBERS)
  assert {prompt[0] for prompt, _ in texts(untold, untold.sample(jax.random.key(1), 64, False))} == {'e'}
  check_task(task)


def test_rows_weigh_what_their_class_does():
  task = qualities.careless_sums(marks='ec', **NUMBERS)
  problems = task.sample(jax.random.key(0), 8, False)
  rows = {**demonstrations(problems), 'classes': problems['classes']}
  weigh = lambda weights: c_rlft(None, None, class_weights=weights).advantage({}, rows, None)['weights']
  even, unlike = np.asarray(weigh((1.0, 1.0))), np.asarray(weigh((1.0, 0.1)))
  classes = np.asarray(problems['classes'])
  assert 0 < classes.sum() < 8
  np.testing.assert_allclose(even.sum() / 8, 1, rtol=1e-6)
  np.testing.assert_allclose(unlike, even * np.array([1.0, 0.1])[classes][:, None], rtol=1e-6)


@pytest.mark.parametrize('wrong', [dict(marks='e'), dict(marks='ab'), dict(marks='ec', max_operand=100)])
def test_what_cannot_be_is_refused(wrong):
  with pytest.raises(ValueError, match='marks|max_operand'):
    qualities.careless_sums(**{**NUMBERS, **wrong})
