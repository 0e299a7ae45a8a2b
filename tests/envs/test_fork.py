"""The fork task against plain Python, and the contract of a task."""

import re

import jax
import numpy as np
import pytest

from rlx.envs.conformance import check_task
from rlx.envs.fork import fork, undecided
from rlx.envs.text import EOS_ID
from tests.cases import cases

TASK = fork(choices=4, length=3, before=2, after=2, letters=4, held_out_share=0.25)
OTHERS = {
    'decides at once': fork(choices=3, length=4, before=0, after=3, letters=2, held_out_share=0.25),
    'decides last': fork(choices=10, length=2, before=3, after=0, letters=10, held_out_share=0.25),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', cases(['this one', *OTHERS], at_once=['this one']))
def test_the_task_keeps_the_contract(name):
  check_task(OTHERS.get(name, TASK), num=500)


def test_problems_and_solutions_are_as_described():
  problems = jax.tree.map(np.asarray, TASK.sample(jax.random.key(0), 300, False))
  lengths, fillers = set(), set()
  for prompt, solution in zip(problems['prompts'], problems['solutions'], strict=True):
    prompt, solution = TASK.decode(prompt), TASK.decode(solution)
    assert re.fullmatch('[0-3]{3}=', prompt) and re.fullmatch(f'[a-d]{{2}}{prompt[0]}[a-d]{{0,2}}', solution)
    lengths.add(len(solution))
    fillers.add(solution[:2])
  assert lengths == {3, 4, 5} and len(fillers) == 16


@pytest.mark.parametrize('right_share, low, high', [(0.0, 0.2, 0.3), (0.5, 0.57, 0.68)])
def test_undecided_solutions_are_right_by_chance_and_by_their_share(right_share, low, high):
  """Of four digits one is right by chance: 1/4 of all solutions, or 1/2 + 1/8; the rest is as in the fork."""
  task = undecided(
      choices=4, length=3, before=2, after=2, letters=4, held_out_share=0.25, right_share=right_share
  )
  problems = jax.tree.map(np.asarray, task.sample(jax.random.key(0), 1000, False))
  rows = zip(problems['prompts'], problems['solutions'], strict=True)
  texts = [(task.decode(prompt), task.decode(solution)) for prompt, solution in rows]
  assert all(re.fullmatch('[a-d]{2}[0-3][a-d]{0,2}', solution) for _, solution in texts)
  assert low < np.mean([solution[2] == prompt[0] for prompt, solution in texts]) < high


@pytest.mark.parametrize('answer, right', [
    ('ab2$', True), ('dd2a$', True), ('ab2cd$', True), ('ab2cda$', False), ('ab2', False), ('ab1$', False),
    ('a2b$', False), ('2ab$', False), ('ab22$', False), ('a22$', False), ('ab=$', False), ('ab$2', False),
    ('$', False), ('ab2$1=$', True), ('ab2_$', False),
])
def test_verify(answer, right):
  tokens = [EOS_ID if c == '$' else 0 if c == '_' else TASK.encode(c)[0] for c in answer]
  for width in (len(tokens), 12):
    completions = np.zeros((1, width), np.int32)
    completions[0, :len(tokens)] = tokens
    solutions = np.concatenate([TASK.encode('dc2a'), [EOS_ID, 0]])[None]
    assert TASK.verify({'solutions': solutions}, completions).tolist() == [float(right)]


@pytest.mark.parametrize('change, message', [
    ({'choices': 11}, 'choices=11'), ({'letters': 6}, 'letters=6'), ({'length': 1}, 'length=1'),
    ({'before': -1}, 'before=-1'),
])
def test_bad_arguments_are_refused(change, message):
  good = dict(choices=4, length=3, before=2, after=2, letters=4, held_out_share=0.25)
  with pytest.raises(ValueError, match=message):
    fork(**{**good, **change})


def test_a_share_of_all_is_refused():
  with pytest.raises(ValueError, match='right_share=1'):
    undecided(choices=4, length=3, before=2, after=2, letters=4, held_out_share=0.25, right_share=1)
