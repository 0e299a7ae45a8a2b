"""Programs to be mended, from problems in HumanEval's form: solutions with a slip that fail their test.

    python -m rlx.experiments.data.repairs --problems=HumanEval.jsonl.gz --output=repairs.jsonl --play

A slip is a small change: another comparison, operator or number, `and` for `or`, a `not` that is gone. Each
row has the problem's columns, `program` (what is wrong) and `visible` (asserts that can be run): the examples
of its docstring, or where there are none the first assert of its test. A change counts where the solution
passes its test and the visible ones, and the changed one fails both. With `--play` a script plays all rows in
the world `repair.Repair`, as a policy would: what does it get for the solution, and what for doing nothing?
"""

import argparse
import ast
from collections.abc import Iterator, Sequence
import copy
import doctest
import gzip
import json
from pathlib import Path
import random
import time

import numpy as np

from rlx.envs.host.calls import hermes_json
from rlx.envs.host.tools import OVER
from rlx.rewards.code import share_passed
from rlx.rollout.toolbox import Desk, Seat, toolbox

_OTHERS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.And: ast.Or, ast.Or: ast.And,
}
_MOST_VISIBLE = 3


def changes(program: str) -> Iterator[str]:
  """A program with each small change that is known here, one at a time."""
  tree = ast.parse(program)
  for number, node in enumerate(ast.walk(tree)):
    for change in _changes_of(node):
      changed = copy.deepcopy(tree)
      change(next(x for i, x in enumerate(ast.walk(changed)) if i == number))
      yield ast.unparse(changed) + '\n'


def _changes_of(node: ast.AST):
  """Functions that change a node in place."""
  if isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHERS:
    yield lambda x: x.ops.__setitem__(0, _OTHERS[type(x.ops[0])]())
  if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in _OTHERS:
    yield lambda x: setattr(x, 'op', _OTHERS[type(x.op)]())
  if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
    yield lambda x: setattr(x, 'op', ast.UAdd())
  if isinstance(node, ast.Constant) and isinstance(node.value, bool):
    yield lambda x: setattr(x, 'value', not x.value)
  elif isinstance(node, ast.Constant) and isinstance(node.value, int):
    yield lambda x: setattr(x, 'value', x.value + 1)
    yield lambda x: setattr(x, 'value', x.value - 1)


def visible_tests(problem: dict) -> list[str]:
  """Asserts from the examples of a problem's docstring, or the first assert of its test."""
  asserts = []
  for example in doctest.DocTestParser().get_examples(problem['prompt']):
    try:
      wanted = ast.literal_eval(example.want.strip())
    except (ValueError, SyntaxError):  # a line that only prepares, or an error that is to be raised
      continue
    asserts.append(f'assert {example.source.strip()} == {wanted!r}')
  if not asserts:
    found = [x for x in ast.walk(ast.parse(problem['test'])) if isinstance(x, ast.Assert)]
    asserts = [ast.unparse(x).replace('candidate(', f'{problem["entry_point"]}(') for x in found[:1]]
  return asserts[:_MOST_VISIBLE]


def repairs(problem: dict, rng: random.Random, *, most: int, limits: dict) -> list[dict]:
  """Rows of a problem, at most `most`; none where its visible tests say nothing of its solution.

  Args:
    problem: in HumanEval's form.
    rng: chooses among the changes.
    most: rows.
    limits: of the sandbox: timeout_seconds, memory_bytes, tier.
  """
  solution, visible = problem['prompt'] + problem['canonical_solution'], visible_tests(problem)
  hidden = [f'{problem["test"]}\n\ncheck({problem["entry_point"]})']
  if not visible or not all(share_passed(solution, tests, **limits) == 1 for tests in (visible, hidden)):
    return []
  changed = [x for x in dict.fromkeys(changes(solution)) if x != ast.unparse(ast.parse(solution)) + '\n']
  rows = []
  for program in rng.sample(changed, len(changed)):
    if len(rows) == most:
      break
    if all(share_passed(program, tests, **limits) < 1 for tests in (visible, hidden)):
      rows.append({**problem, 'program': program, 'visible': visible})
  return rows


def read(path: Path) -> list[dict]:
  """The problems of a JSONL file, or of one that is compressed (`.gz`)."""
  data = path.read_bytes()
  data = gzip.decompress(data) if path.suffix == '.gz' else data
  return [json.loads(line) for line in data.decode().splitlines()]


def played(rows: Sequence[dict], *, limits: dict) -> tuple[np.ndarray, np.ndarray]:
  """What scripts are paid for each row [N]: one that writes the solution, one that hands in what is there.

  They say what a policy would, in the format `calls.hermes_json`, to the world `repair.Repair`.

  Args:
    rows: of `repairs`.
    limits: of the sandbox: timeout_seconds, memory_bytes, tier.
  """
  world = {
      'name': 'repair.Repair', 'test_seconds': limits['timeout_seconds'], 'cell_seconds': 20.0,
      'shell_seconds': 10.0, 'session_seconds': 600.0, 'memory_bytes': limits['memory_bytes'],
      'file_bytes': 20_000, 'output_bytes': 2000, 'tier': limits['tier'],
  }
  box = toolbox(
      tools={}, environments={'repair': world}, calls=hermes_json, timeout_seconds=60.0, max_calls=8,
      workers=2, result_tokens=64, keep='head', before='', after='', role='tool', reset_tokens=0,
  )
  desk = Desk(box)
  desk.open('played')

  def paid(number: int, row: dict, *turns: dict) -> float:
    seat = Seat(number, row, 'repair')
    for turn, call in enumerate((*turns, {'name': 'done', 'arguments': {}})):
      [result] = desk.turn(seat, turn, box.calls(f'<tool_call>{json.dumps(call)}</tool_call>'))
      if result.kind not in ('', OVER):
        raise RuntimeError(f'{row["entry_point"]}, {call["name"]}: {result.text}')
    desk.end(seat)
    return seat.reward

  tries, reads = ({'name': name, 'arguments': {}} for name in ('run_tests', 'read_program'))
  mends = lambda row: {
      'name': 'write_program', 'arguments': {'text': row['prompt'] + row['canonical_solution']}
  }
  mended = [paid(2 * n, row, tries, reads, mends(row), tries) for n, row in enumerate(rows)]
  left = [paid(2 * n + 1, row, tries) for n, row in enumerate(rows)]
  desk.close()
  return np.array(mended), np.array(left)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--problems', type=Path, required=True, help='JSONL in the form of HumanEval')
  parser.add_argument('--output', type=Path, required=True)
  parser.add_argument('--most', type=int, default=3, help='rows of a problem')
  parser.add_argument('--seed', type=int, default=0)
  parser.add_argument('--timeout_seconds', type=float, default=5.0)
  parser.add_argument('--tier', default='bubblewrap')
  parser.add_argument('--play', action='store_true', help='play all rows by a script')
  arguments = parser.parse_args()
  limits = {'timeout_seconds': arguments.timeout_seconds, 'memory_bytes': 2**29, 'tier': arguments.tier}
  rng, problems, rows = random.Random(arguments.seed), read(arguments.problems), []
  for problem in problems:
    rows += repairs(problem, rng, most=arguments.most, limits=limits)
  arguments.output.write_text(''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in rows))
  used = len({row['prompt'] for row in rows})
  print(f'{len(rows)} programs of {used} of {len(problems)} problems: {arguments.output}')
  if arguments.play and rows:
    began = time.monotonic()
    mended, left = (paid.mean() for paid in played(rows, limits=limits))
    seconds = time.monotonic() - began
    print(f'paid for the solution: {mended:.3f}, for what was there: {left:.3f}; {seconds:.0f} s')


if __name__ == '__main__':
  main()
