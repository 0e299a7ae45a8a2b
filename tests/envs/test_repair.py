"""A program to be mended: what its tools say, what its grade rests on, where wrong programs come from."""

import ast
import random
import shutil

import pytest

from rlx.envs.host.calls import Call, hermes_json
from rlx.envs.host.repair import Repair
from rlx.envs.host.tools import OVER, tools_of
from rlx.experiments.data import FOLDER, repairs
from rlx.rollout.toolbox import Desk, Seat, toolbox

pytestmark = pytest.mark.skipif(shutil.which('bwrap') is None, reason='bubblewrap is not installed')
TEST = 'def check(candidate):\n  assert candidate(2, 3) == 5\n  assert candidate(41, 1) == 42\n'
ROW = {
    'task_id': 'Small/0', 'entry_point': 'add', 'test': TEST, 'visible': ['assert add(2, 3) == 5'],
    'program': 'def add(a, b):\n  return a - b\n',
}
LIMITS = {
    'test_seconds': 1.0, 'cell_seconds': 9.0, 'shell_seconds': 5.0, 'session_seconds': 60.0,
    'memory_bytes': 1 << 28, 'file_bytes': 4000, 'output_bytes': 500, 'tier': 'bubblewrap',
}
SECTION = {'name': 'repair.Repair', **LIMITS}


@pytest.fixture
def world():
  made = Repair(**LIMITS)
  made.reset(**ROW)
  yield made
  made.reset(**ROW)


def test_a_scripted_policy_mends_a_program_and_is_paid_for_it():
  box = toolbox(
      tools={}, environments={'repair': SECTION}, calls=hermes_json, timeout_seconds=60.0, max_calls=8,
      workers=1, result_tokens=64, keep='head', before='', after='', role='tool', reset_tokens=0,
  )
  desk = Desk(box)
  desk.open('trial')
  mended, left = Seat(0, ROW, 'repair'), Seat(1, ROW, 'repair')
  script = [
      Call('run_tests', {}), Call('read_program', {}), Call('edit_program', {'old': 'a - b', 'new': 'a + b'}),
      Call('run_tests', {}), Call('done', {}),
  ]
  said = desk.turn(mended, 0, script)
  assert [one.text for one in said] == [
      '0 of 1 tests passed\nadd(2, 3) is -1, not 5', 'def add(a, b):\n  return a - b', '30 bytes written',
      '1 of 1 tests passed', 'handed in',
  ]
  assert said[-1].kind == OVER
  for seat in (mended, left):
    desk.end(seat)
  desk.close()
  assert (mended.reward, left.reward) == (1, 0)


def test_the_grade_rests_on_tests_that_are_not_in_the_session(world):
  world.write_program('def add(a, b):\n  return 5\n')
  assert world.run_tests() == '1 of 1 tests passed' and world.get_reward() == 0
  for looked in (world.shell('grep -r 41 /tmp; ls -a'), world.python('open("program.py").read()')):
    assert '41' not in looked and 'check' not in looked
  world.write_program('class Any(int):\n  __eq__ = lambda *_: True\nadd = lambda a, b: Any()\n')
  assert world.run_tests() == '1 of 1 tests passed' and world.get_reward() == 0


def test_programs_that_do_not_end_well_cost_neither_the_folder_nor_the_episode(world):
  for program, words in {
      'def add(a, b': 'the program does not run: SyntaxError', 'import os\nos._exit(0)': 'did not end (ok)',
      'while True: pass': 'took longer than 1 s', 'add = 1 / 0': 'ZeroDivisionError',
      '': "'add' is not defined",
  }.items():
    world.write_program(program)
    assert words in world.run_tests()
    assert world.read_program() == program
  assert world.get_reward() == 0
  world.write_program('def add(a, b):\n  return a + b\n' + '#' * 3900)  # more than is read at once
  assert world.get_reward() == 1
  with pytest.raises(RuntimeError, match='files are gone'):
    world.shell('kill -9 $PPID')
  assert 'a - b' in world.read_program() and world.get_reward() == 0
  world.shell('rm program.py; mkfifo program.py')
  assert world.run_tests() == 'there is no program.py' and world.get_reward() == 0


def test_a_model_is_offered_these_tools():
  names = {'read_program', 'write_program', 'edit_program', 'run_tests', 'shell', 'python', 'done'}
  assert tools_of(Repair).keys() == names


def test_wrong_programs_are_solutions_with_one_change():
  program = 'def f(x):\n    if not x < 3 and x != 5:\n        return x + 1\n    return True\n'
  changed = list(repairs.changes(program))
  assert len(changed) == len(set(changed)) == 12 and all(ast.parse(one) for one in changed)
  slips = 'x <= 3', 'x == 5', 'or x', 'if +(x < 3)', 'x - 1', 'x + 2', 'x < 4', 'x < 2', 'return False'
  for there in slips:
    assert any(there in one for one in changed)


def test_visible_tests_are_examples_or_the_first_assert_and_rows_fail_them():
  examples = {'prompt': 'def f(x):\n  """\n  >>> f(1)\n  2\n  >>> f(y)\n  z\n  """\n'}
  assert repairs.visible_tests(examples) == ['assert f(1) == 2']
  [problem, *_] = repairs.read(repairs.Path(FOLDER) / 'programs_train.jsonl')
  limits = {'timeout_seconds': 5.0, 'memory_bytes': 1 << 28, 'tier': 'bubblewrap'}
  [row] = repairs.repairs(problem, random.Random(0), most=1, limits=limits)
  assert row['visible'] == ['assert add(1, 2) == 3'] and 'a - b' in row['program']
  unsolved = {**problem, 'canonical_solution': '  pass\n'}
  assert repairs.repairs(unsolved, random.Random(0), most=1, limits=limits) == []
