"""Chains of skills against plain Python, their other forms, and the contract of a task."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.conformance import check_task
from rlx.envs.skills import rumoured, skills, uneven

GOOD = dict(modulus=5, num_skills=3, used=(0, 2), min_steps=1, max_steps=3, held_out_share=0.4)
TASK = skills(**GOOD)
MAPS = [(1, 1), (2, 1), (3, 1)]  # x -> a x + b modulo 5


def drawn(task=TASK, num=300, held_out=False):
  return jax.tree.map(np.asarray, task.sample(jax.random.key(0), num, held_out))


def spelt(row):
  """All characters, so that nothing hides behind an end."""
  return ''.join(('_$' + TASK.alphabet)[token] for token in row)


@pytest.mark.slow
def test_the_task_keeps_the_contract():
  check_task(skills(**{**GOOD, 'max_steps': 2}), num=300)


@pytest.mark.slow
def test_problems_and_their_forms_are_as_described():
  problems = drawn()
  told_of = set()
  for i, row in enumerate(problems['skills']):
    letters = [int(x) for x in row if x >= 0]
    prompt = spelt(problems['prompts'][i]).rstrip('_')
    value, values = int(prompt[0]), ''
    for skill in letters:
      value = (MAPS[skill][0] * value + MAPS[skill][1]) % 5
      values += str(value)
    text = ''.join('abc'[x] for x in letters)
    assert set(letters) <= {0, 2} and prompt == f'{prompt[0]}{text:?<3}='
    assert spelt(problems['solutions'][i]) == values + '$' + '_' * (3 - len(values))
    form = lambda name, i=i: spelt(problems[f'{name}_prompts'][i][: problems[f'{name}_lengths'][i]])
    assert form('decomposed') == prompt[0] + ''.join(f'{x};' for x in f'{text:?<3}') + '='
    assert form('asking') == values.ljust(3, '?') + '!' + prompt
    hint, asked = form('hinted')[:3], spelt(problems['asking_solutions'][i])
    told = hint.rstrip('?')
    assert form('hinted') == hint + prompt and values.startswith(told) and asked == hint + '$'
    assert len(told) < len(values) and (told or len(values) == 1)
    told_of.add((len(values), len(told)))
    wrong, rest = form('refined')[:3].rstrip('?'), form('refined')[3:]
    assert rest == ';' + prompt and len(wrong) == len(values)
    assert sum(x != y for x, y in zip(wrong, values, strict=True)) == 1
  assert told_of == {(1, 0), (2, 1), (3, 1), (3, 2)}


@pytest.mark.slow
def test_problems_are_composed_of_what_is_asked_for():
  weights = jnp.array([[0.0, 1.0, 0.0], [1.0, 0.0, 3.0]]).repeat(400, axis=0)
  steps = jnp.tile(jnp.array([1, 2]), 400)
  problems = TASK.compose(jax.random.key(1), weights, steps, False)
  first, second = problems['skills'][:400], problems['skills'][400:]
  assert set(np.unique(first)) == {-1, 1} and set(np.unique(second)) == {-1, 0, 2}
  assert ((problems['skills'] >= 0).sum(axis=1) == steps).all()
  assert 0.68 < float((second == 2).sum() / (second >= 0).sum()) < 0.82


def test_uneven_tasks_ask_for_skills_by_their_weights():
  sizes = {name: x for name, x in GOOD.items() if name != 'used'}
  asked = drawn(uneven(**sizes, weights=(1.0, 0.25, 2.0)), num=600)['skills']
  counts = np.array([(asked == skill).sum() for skill in range(3)])
  np.testing.assert_allclose(counts / counts.sum(), np.array([4, 1, 8]) / 13, atol=0.05)
  for weights in ((1.0, 1.0), (1.0, 0.0, 1.0)):
    with pytest.raises(ValueError, match='need 3, one a skill'):
      uneven(**sizes, weights=weights)


@pytest.mark.slow
def test_of_rumoured_skills_values_are_chance_and_hints_agree_with_them():
  task = rumoured(**{**GOOD, 'used': (0,)}, unknown=(1, 2), share=0.5)
  problems, hidden = drawn(task, num=400), (drawn(task, num=400)['skills'] > 0).any(axis=1)
  assert 0.4 < hidden.mean() < 0.6 and (problems['skills'][~hidden] <= 0).all()
  right, values = [], []
  columns = ('prompts', 'hinted_prompts', 'asking_prompts', 'asking_solutions', 'solutions')
  for prompt, hint, asked, answered, solution in zip(*(problems[name] for name in columns), strict=True):
    value, *letters = (x for x in spelt(prompt) if x.isalnum())
    value, said, agrees = int(value), spelt(solution).rstrip('_'), spelt(hint)[:3]
    assert said[-1] == '$' and len(said) == len(letters) + 1
    assert all(x in ('?', y) for x, y in zip(agrees, said, strict=False))
    assert spelt(asked)[:4] == f'{said[:-1]:?<3}!' and spelt(answered)[:3] == agrees
    for letter in letters:
      a, b = MAPS['abc'.index(letter)]
      value = (a * value + b) % 5
      values.append(str(value))
    right.append(said[:-1] == ''.join(values[-len(letters):]))
  assert np.array(right)[~hidden].all() and np.array(right)[hidden].mean() < 0.3
  with pytest.raises(ValueError, match='share=1'):
    rumoured(**GOOD, unknown=(1,), share=1.0)


@pytest.mark.slow
def test_tasks_of_other_skills_hold_the_same_problems_out():
  other = skills(**{**GOOD, 'used': (2,), 'min_steps': 2})
  texts = lambda problems: {spelt(row) for row in problems['prompts']}
  assert texts(drawn(other)).isdisjoint(texts(drawn(held_out=True)))
  everything = texts(drawn(num=3000)) | texts(drawn(num=3000, held_out=True))
  assert len(everything) == 5 * (2 + 4 + 8)


@pytest.mark.slow
def test_hints_and_attempts_of_the_policy_are_put_in_front():
  problems = jax.tree.map(lambda x: x[:1], drawn())
  plain = spelt(problems['prompts'][0]).rstrip('_')
  said = lambda *characters: jnp.array([[('_$' + TASK.alphabet).index(x) for x in characters]])
  for characters, seen in (('12$4', '12?'), ('3', '3??'), ('a2=1', '?2?'), ('$12', '???')):
    for function, mark in ((TASK.with_hint, ''), (TASK.with_attempt, ';')):
      prompts, lengths = function(problems, said(*characters))
      assert spelt(np.asarray(prompts[0][: lengths[0]])) == seen + mark + plain


@pytest.mark.parametrize('change, message', [
    ({'modulus': 11}, 'modulus=11'), ({'num_skills': 9}, 'num_skills=9'), ({'used': (3,)}, r'used=\(3,\)'),
    ({'used': ()}, r'used=\(\)'), ({'max_steps': 9}, 'max_steps=9'), ({'min_steps': 0}, 'min_steps=0'),
    ({'held_out_share': 0.05}, 'held_out_share=0.05'),
    ({'modulus': 2, 'num_skills': 2, 'held_out_share': 0.5}, 'the 1 permutations'),
])
def test_bad_arguments_are_refused(change, message):
  with pytest.raises(ValueError, match=message):
    skills(**{**GOOD, **change})
