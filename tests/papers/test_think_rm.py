"""Think-RM: thoughts before the verdict, a head that reads one answer, advantages from verdicts on pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages.pairwise import pairwise
from rlx.envs import weighing
from rlx.envs.conformance import check_task
from rlx.envs.text import EOS_ID
from tests.cases import cases

SMALL = dict(modulus=3, length=2, held_out_share=0.25)
TASK = weighing.weighed(modulus=7, length=3, held_out_share=0.25)


# --- advantages ---------------------------------------------------------------------------------------------


def test_advantages_by_hand_sum_to_zero():
  """Three samples: the first beats the second for sure, and the third in three of four; they are as good.

  The judge has a tenth for whoever is shown first, which falls out: A_0 = (1 + 1/2) / 4, A_1 = -1 / 4.
  """
  wins = jnp.array([[0.5, 1.0, 0.75], [0.0, 0.5, 0.5], [0.25, 0.5, 0.5]])
  expected = [0.375, -0.25, -0.125]
  np.testing.assert_allclose(pairwise(wins), expected, atol=1e-6)
  np.testing.assert_allclose(pairwise(wins + 0.1), expected, atol=1e-6)
  np.testing.assert_allclose(pairwise(wins.at[1, 1].set(9.0)), expected, atol=1e-6)  # nobody plays itself


def test_advantages_of_any_judge_sum_to_zero():
  """Also of one that goes in circles, leaves pairs out, or says the first one always, which tells nothing."""
  random = np.random.default_rng(0).uniform(size=(4, 5, 5)).astype(np.float32)
  random[0, 1, 2] = random[2, 3, 0] = np.nan
  advantages = pairwise(jnp.asarray(random))
  np.testing.assert_allclose(advantages.sum(axis=-1), 0, atol=1e-6)
  assert np.abs(advantages).min() > 0
  without = jnp.asarray(random).at[0, 2, 1].set(jnp.nan)  # the other order of what was left out
  np.testing.assert_allclose(pairwise(without), advantages)
  np.testing.assert_array_equal(pairwise(jnp.ones((3, 3))), 0)
  np.testing.assert_array_equal(pairwise(jnp.ones((2, 1, 1))), 0)


def test_a_consistent_judge_gives_win_rates():
  chances = np.random.default_rng(1).uniform(size=(4, 4))
  chances = np.where(np.arange(4)[:, None] < np.arange(4)[None], chances, 1 - chances.T)
  rates = np.sum(np.where(np.eye(4, dtype=bool), 0, chances), axis=1) / 3 - 0.5
  np.testing.assert_allclose(pairwise(jnp.asarray(chances)), rates, atol=1e-6)


# --- the task -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize('make', [weighing.weighed, weighing.weighed_at_once])
def test_the_task_keeps_the_contract(make):
  check_task(make(**SMALL), num=500)


def test_the_better_answer_is_worth_more():
  """By hand for each pair: running sums modulo 7, and who is ahead; no part of the digits tells of it."""
  draw = jax.jit(TASK.sample, static_argnums=(1, 2))
  problems = jax.tree.map(np.asarray, draw(jax.random.key(0), 64, False))
  for prompt, solution, worth in zip(*(problems[k] for k in ('prompts', 'solutions', 'worth')), strict=True):
    answers = TASK.decode(prompt)[:-1].split(',')
    sums = [[sum(map(int, answer[: i + 1])) % 7 for i in range(3)] for answer in answers]
    assert worth.tolist() == [sums[0][-1], sums[1][-1]] and worth[0] != worth[1]
    thoughts = ','.join(''.join(map(str, x)) for x in sums)
    assert TASK.decode(solution) == thoughts + '#' + ('>' if worth[0] > worth[1] else '<')
  assert 16 < (problems['worth'][:, 0] > problems['worth'][:, 1]).sum() < 48


@pytest.mark.parametrize(('answer', 'right'), cases(
    [
        ('141,212#<$', True), ('141,211#<$', True), ('#<$', True), (',,1#<$', True), ('141,212#>$', False),
        ('141,212<$', False), ('141,212#<', False), ('14#<1#<$', False), ('<$', False), ('141=#<$', False),
    ],
    at_once=[('141,212#<$', True), ('#<$', True), ('141,212#>$', False)],
))
def test_the_verdict_alone_is_paid(answer, right):
  tokens = [EOS_ID if c == '$' else TASK.encode(c)[0] for c in answer]
  completions = np.zeros((1, 12), np.int32)
  completions[0, :len(tokens)] = tokens
  verdicts = jnp.asarray(TASK.encode('<'))
  assert TASK.verify({'verdicts': verdicts}, jnp.asarray(completions)).tolist() == [float(right)]


def test_a_head_reads_each_answer_by_itself():
  """315 is worth 9 modulo 7, which is 2, and 131 is worth 5: the second one comes first."""
  problems = {
      'answers': jnp.array([[[3, 1, 5], [1, 3, 1]], [[6, 0, 0], [1, 0, 1]]]),
      'worth': jnp.array([[2, 5], [6, 2]]),
  }
  rows = weighing.answer_rows(problems)
  assert [TASK.decode(row) for row in rows['tokens']] == ['131=', '315=', '600=', '101=']
  assert rows['preferred'].tolist() == [True, False] * 2 and rows['groups'].tolist() == [0, 0, 1, 1]
