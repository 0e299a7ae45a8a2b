"""Tasks about those who judge: grades of steps of chains, five formats of questions, stories."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import chain, evaluating, stories
from rlx.envs.conformance import check_task
from rlx.envs.text import EOS_ID
from tests.cases import cases

CHAIN = chain.chain(modulus=7, min_steps=2, max_steps=3, checks=0, held_out_share=0.2)
JUDGED = evaluating.evaluating(modulus=7, length=3, held_out_share=0.2)
STORIES = stories.stories(
    events=6, length=3, fresh=2, usual_share=0.6, loose_share=0.2, errs=0.0, held_out_share=0.2
)


def tokens(task, text, columns):
  """`$` is the end."""
  said = [EOS_ID if c == '$' else task.encode(c)[0] for c in text]
  return jnp.array([said + [0] * (columns - len(said))])


@pytest.mark.slow
@pytest.mark.parametrize('task', [CHAIN, JUDGED], ids=['chain', 'evaluating'])
def test_they_keep_the_contract_of_tasks(task):
  """Not of stories: they are liked more or less, and none is the right one."""
  check_task(task, num=200)


@pytest.mark.parametrize(('said', 'steps', 'count', 'in_form', 'right'), cases(
    [
        ('3;0;2;#2$', [1, 1, 1, 1], 4, True, True),  # 3 + 4 + 2
        ('3;1;3;#2$', [1, 0, 1, 0], 4, True, True),  # a slip, and an answer out of nowhere
        ('3;1;3;#3$', [1, 0, 1, 1], 4, True, False),
        ('3;$', [1, 0, 0, 0], 1, False, False),  # right as far as it goes
        ('3;#2$', [1, 1, 0, 0], 2, False, True),  # two operands at once; too short for the form
    ],
    at_once=[('#2$', [1, 0, 0, 0], 1, False, True)],
))
def test_steps_of_chains_are_graded_as_they_are_said(said, steps, count, in_form, right):
  problems = {'operands': jnp.array([[3, 4, 2]]), 'answers': CHAIN.encode('2')[None]}
  completions = tokens(CHAIN, said, 10)
  np.testing.assert_array_equal(CHAIN.grade_steps(problems, completions)[0], np.array(steps, bool))
  assert CHAIN.count_steps(completions).tolist() == [count]
  assert CHAIN.in_form(problems, completions).tolist() == [in_form]
  assert CHAIN.verify(problems, completions).tolist() == [right]


def test_questions_are_answered_by_adding_up():
  """Every prompt is read again, in Python, and its verdict found anew."""
  problems = jax.jit(JUDGED.sample, static_argnums=(1, 2))(jax.random.key(0), 150, False)
  seen = set()
  for i in range(150):
    prompt, solution = (JUDGED.decode(problems[name][i]) for name in ('prompts', 'solutions'))
    kind, (sums, said) = prompt[0], prompt[1:-1].split('=')
    operands, answers = [int(c) for c in sums], said.replace('/', ',').split(',')
    total = sum(operands) % 7
    dues = [[(b + d) % 7 for b, d in zip([0, *map(int, x[:-1])], operands, strict=False)] for x in answers]
    first = [due == int(c) for due, c in zip(dues[0], answers[0], strict=True)]
    ends = [int(answer[-1]) == total for answer in answers]
    verdict = {
        'p': lambda: 1 if ends[0] else 2, 's': lambda: 0 if all(first) else 1 + first.index(False),
        'r': lambda: int(ends[0]), 'f': lambda: int(ends[0]), 'g': lambda: sum(first),
    }[kind]()
    thoughts = ','.join(''.join(map(str, x)) for x in dues[:1 + (kind == 'p')])
    assert solution == ('' if kind == 'r' else thoughts) + f'#{verdict}', prompt
    if kind == 'p':
      assert sum(ends) == 1
    if kind == 'r':
      assert answers[1] == str(total)
    seen.add((kind, verdict))
  assert {kind for kind, _ in seen} == set('psrfg') and len(seen) >= 10


def test_verdicts_are_asked_for_and_thoughts_are_not():
  problems = {'verdicts': JUDGED.encode('2')}
  said = {'110#2$': 1, '#2$': 1, '0,9#2$'.replace('9', '6'): 1, '110#3$': 0, '110#2': 0, '#12$': 0, '?#2$': 0}
  for text, right in said.items():
    assert JUDGED.verify(problems, tokens(JUDGED, text, 10)).tolist() == [right], text


def test_stories_are_liked_where_they_are_fresh_and_follow():
  """Each event by itself: one is usual, two are fresh, three do not follow; openings count for nothing."""
  worth = []
  for event in 'abcdef':
    completions, problems = tokens(STORIES, event + '$', 4), {'before': jnp.array([0])}
    liked = float(STORIES.liked(problems, completions)[0])
    worth.append(round(3 * liked))
    assert STORIES.moves(problems, completions)[0].tolist() == [round(3 * liked) == 1, False, False, False]
    assert bool(STORIES.coherent(problems, completions)[0, 0]) == (round(3 * liked) >= 0)
    assert STORIES.verify(problems, completions).tolist() == [0]
  assert sorted(worth) == [-1, -1, -1, 0, 1, 1]
  assert STORIES.verify({'before': jnp.array([0])}, tokens(STORIES, 'abc$', 4)).tolist() == [1]
  assert STORIES.verify({'before': jnp.array([0])}, tokens(STORIES, 'abca', 4)).tolist() == [0]
