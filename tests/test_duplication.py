"""What stands in a folder more than once is found, and in the algorithms of control there is little of it."""

from pathlib import Path
import textwrap

import pytest

from rlx.experiments import duplication

ALGORITHMS = Path(__file__).parent.parent / 'rlx/algorithms/control'
BOUND = 0.06  # of the lines

PLANTED = '''
a = 1
b = a + 1
c = b + a
d = [a, b]
e = {'c': c}
f = d, e
'''


def module(first: str, last: str) -> str:
  return f'"""A module."""\n{first}\n{PLANTED}\n{last}\n'


def test_a_planted_duplicate_is_found_where_it_is():
  sources = {'one': module('x = 1', 'y = 2'), 'two': module('z = 3', '')}
  (window, places), *others = duplication.repeated(sources).items()
  assert not others and window == tuple(PLANTED.split('\n')[1:-1])
  assert [[name for name, _ in place] for place in places] == [['one'] * 6, ['two'] * 6]
  assert [number for _, number in places[0]] == [4, 5, 6, 7, 8, 9]
  assert duplication.share(sources) == 12 / 15


def test_it_is_found_in_another_function_and_behind_comments():
  inside = 'def f():\n  """The same."""\n' + textwrap.indent(PLANTED.replace('\nd', '  # why\n\nd'), '  ')
  assert duplication.share({'one': PLANTED, 'two': inside}) == 12 / 13


@pytest.mark.parametrize('other', [PLANTED.replace('d = ', 'd: list = '), PLANTED[: PLANTED.index('f')]])
def test_five_lines_and_another_one_are_no_duplicate(other):
  assert duplication.share({'one': PLANTED, 'two': other}) == 0


def test_the_algorithms_of_control_say_things_once():
  found = duplication.share({str(path): path.read_text() for path in ALGORITHMS.glob('*.py')})
  assert found < BOUND, f'{found:.3f} of the lines: see python -m rlx.experiments.duplication {ALGORITHMS}'
