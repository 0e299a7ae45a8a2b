"""A wrong program as a world: it is read, edited, tried on the tests that are visible, and graded on others.

The program is `program.py` in the folder of a session (`workspace.py`). Its visible tests run in a sandbox of
their own, so that a program that hangs or ends its process costs neither the folder nor the episode. So does
the grade, with tests that never are in the session: nothing that is done there reads or changes them.

Rows are those that `python -m rlx.experiments.data.repairs` makes of problems in HumanEval's form: `program`
is what is wrong, `visible` a list of asserts, `test` and `entry_point` are HumanEval's.
"""

from collections.abc import Sequence

from rlx.envs.host.tools import Last
from rlx.envs.host.workspace import Workspace
from rlx.rewards import sandbox
from rlx.rewards.code import share_passed

PROGRAM = 'program.py'
_SHOWN_BYTES = 2000  # of what tests say

# Tells of each test how it ended. The program is at the model's mercy, and so is what is said of it here.
_TRY = """
import ast, traceback

def _last(error):
  return ''.join(traceback.format_exception_only(error)).strip().splitlines()[-1][:200]

def _try(test, space):
  tree = ast.parse(test).body[0]
  try:
    if isinstance(tree.test, ast.Compare) and [type(x) for x in tree.test.ops] == [ast.Eq]:
      left, right = (eval(ast.unparse(x), space) for x in (tree.test.left, tree.test.comparators[0]))
      return '' if left == right else f'{ast.unparse(tree.test.left)} is {left!r:.200}, not {right!r:.200}'
    exec(test, space)
  except BaseException as error:
    return f'{test}: {_last(error)}'
  return ''

def _all(program, tests):
  space = {'__name__': 'program'}
  try:
    exec(compile(program, 'program.py', 'exec'), space)
  except BaseException as error:
    print('the program does not run:', _last(error))
    return
  said = [_try(test, space) for test in tests]
  print(f"{said.count('')} of {len(said)} tests passed", *filter(None, said), sep='\\n')
"""


class Repair:
  """A program that fails its tests, and is to be mended."""

  def __init__(
      self, *, test_seconds: float, cell_seconds: float, shell_seconds: float, session_seconds: float,
      memory_bytes: int, file_bytes: int, output_bytes: int, tier: str
  ):
    """Nothing is started yet.

    Args:
      test_seconds: for the visible tests, and for the grade.
      cell_seconds: as for `workspace.Workspace`, like all that follows.
      shell_seconds: likewise.
      session_seconds: likewise.
      memory_bytes: likewise.
      file_bytes: likewise.
      output_bytes: likewise.
      tier: likewise.
    """
    self._limits = {'timeout_seconds': test_seconds, 'memory_bytes': memory_bytes, 'tier': tier}
    self._folder = Workspace(
        cell_seconds=cell_seconds, shell_seconds=shell_seconds, session_seconds=session_seconds,
        memory_bytes=memory_bytes, file_bytes=file_bytes, output_bytes=output_bytes, tier=tier,
    )
    self._file_bytes, self._visible, self._hidden = file_bytes, [], ''

  def _trial(self) -> None:
    """Raises where the sandbox does not start here, or does not confine."""
    sandbox.check(self._limits['tier'])

  def reset(self, program: str, visible: Sequence[str], test: str, entry_point: str, **columns) -> None:
    """Begins with a program of the row.

    Args:
      program: that is wrong.
      visible: asserts that can be run.
      test: HumanEval's, which defines `check`.
      entry_point: the function that it checks.
      columns: mean nothing here.
    """
    del columns
    self._visible, self._hidden = list(visible), f'{test}\n\ncheck({entry_point})'
    self._folder.reset(files={PROGRAM: program})

  def read_program(self) -> str:
    """Returns the program as it is now."""
    return self._folder.read_file(PROGRAM, 1, self._file_bytes)

  def write_program(self, text: str) -> str:
    """Writes the whole program anew.

    Args:
      text: the program.
    """
    return self._folder.write_file(PROGRAM, text)

  def edit_program(self, old: str, new: str) -> str:
    """Replaces a text in the program, where it is there exactly once.

    Args:
      old: the text, with as much around it as makes it the only one.
      new: what stands there afterwards.
    """
    return self._folder.edit_file(PROGRAM, old, new)

  def run_tests(self) -> str:
    """Runs the tests that are visible on the program as it is now, and says which fail."""
    if (source := self._folder.text_of(PROGRAM)) is None:
      return f'there is no {PROGRAM}'
    program = f'{_TRY}\n_all({source!r}, {self._visible!r})'
    result = sandbox.run_python(program, stdin='', output_bytes=_SHOWN_BYTES, **self._limits)
    if result.status == 'killed':
      raise sandbox.SandboxError('the system ended a sandbox, as where memory is short')
    if result.status == 'timeout':
      return f'the tests took longer than {self._limits["timeout_seconds"]:g} s'
    return result.stdout.strip() or f'the tests did not end ({result.status})'

  def shell(self, command: str) -> str:
    """Runs a command where program.py is and returns what it prints. Nothing that it starts runs on.

    Args:
      command: for /bin/sh.
    """
    return self._folder.shell(command)

  def python(self, code: str) -> str:
    """Runs a cell of Python where program.py is and returns what it prints, and the value of its last line.

    Args:
      code: the cell.
    """
    return self._folder.python(code)

  def done(self) -> str:
    """Hands the program in."""
    return Last('handed in')

  def get_reward(self) -> float:
    """1 where the program passes the tests that are not visible, 0 elsewhere."""
    source = self._folder.text_of(PROGRAM)
    return 0.0 if source is None else share_passed(source, [self._hidden], **self._limits)
