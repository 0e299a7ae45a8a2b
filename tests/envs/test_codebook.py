"""Codes that are learnt by heart, against plain Python, and the contract of a task."""

import collections
import re

import jax
import numpy as np
import pytest

from rlx.envs.codebook import codebook, half_known
from rlx.envs.conformance import check_task

GOOD = dict(
    num_keys=12, num_levels=3, used=(0, 1, 2), marks=4, choices=3, length=2, held_out_share=0.25
)
TASK = codebook(**GOOD)


def texts(task, held_out=False):
  """Of 1000 problems: prompt, solution and level."""
  problems = jax.tree.map(np.asarray, task.sample(jax.random.key(0), 1000, held_out))
  columns = ([task.decode(row) for row in problems[name]] for name in ('prompts', 'solutions'))
  return list(zip(*columns, problems['level'].tolist(), strict=True))


@pytest.mark.slow
def test_the_task_keeps_the_contract():
  check_task(TASK, num=500)


def test_a_key_has_one_code_whatever_stands_behind_it_and_also_where_it_is_held_out():
  said, marks = collections.defaultdict(set), collections.defaultdict(set)
  for held_out in (False, True):
    for prompt, solution, level in texts(TASK, held_out):
      assert re.fullmatch('[kl][0-9][a-d]=', prompt) and re.fullmatch('[A-C]{2}', solution)
      assert level == (10 * 'kl'.index(prompt[0]) + int(prompt[1])) % 3
      said[prompt[:2]].add(solution)
      marks[held_out].add(prompt)
  assert len(said) == 12 and all(len(codes) == 1 for codes in said.values())
  assert len(set.union(*said.values())) > 4  # of nine: keys differ
  assert not marks[False] & marks[True] and len(marks[False] | marks[True]) == 48


def test_the_hard_levels_alone_are_the_same_codes():
  code_of = lambda task: {prompt[:2]: solution for prompt, solution, _ in texts(task)}
  hard = codebook(**{**GOOD, 'used': (2,)})
  assert {level for _, _, level in texts(hard)} == {2}
  assert hard.alphabet == TASK.alphabet and code_of(hard).items() <= code_of(TASK).items()


def test_demonstrations_of_a_level_are_right_by_its_share_and_by_chance():
  """Of nine codes one is right by chance."""
  task, code_of = half_known(**GOOD, right_shares=(1.0, 0.5, 0.0)), {p[:2]: s for p, s, _ in texts(TASK)}
  right = collections.defaultdict(list)
  for prompt, solution, level in texts(task):
    right[level].append(solution == code_of[prompt[:2]])
  assert [round(float(np.mean(right[level])), 1) for level in range(3)] == [1.0, 0.6, 0.1]


@pytest.mark.parametrize('change, message', [
    ({'num_keys': 161}, 'num_keys=161'), ({'num_levels': 13}, 'num_levels=13'), ({'used': (3,)}, 'used='),
    ({'used': ()}, 'used='), ({'marks': 11}, 'marks=11'), ({'choices': 9}, 'choices=9'),
    ({'length': 0}, 'length=0'),
])
def test_bad_arguments_are_refused(change, message):
  with pytest.raises(ValueError, match=message):
    codebook(**{**GOOD, **change})


@pytest.mark.parametrize('shares', [(0.5, 0.5), (0.5, 0.5, 1.5)])
def test_shares_that_do_not_fit_the_levels_are_refused(shares):
  with pytest.raises(ValueError, match='right_shares='):
    half_known(**GOOD, right_shares=shares)
