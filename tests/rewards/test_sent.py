"""What a file of `rlx/rewards/sent` must obey, read from it."""

import ast
import builtins
import dis
import pathlib
import sys

import pytest

FILES = sorted((pathlib.Path(__file__).parents[2] / 'rlx/rewards/sent').glob('[a-z]*.py'))
TOGETHER = {'supervisor': {'judge', 'serve'}}  # what is sent along by whoever calls `run_judged`


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.stem)
def test_what_is_sent_needs_nothing_that_stays_behind(path):
  docstring, *body = ast.parse(path.read_text()).body
  assert isinstance(docstring, ast.Expr) and all(isinstance(node, ast.FunctionDef) for node in body)
  assert not any(
      [*f.decorator_list, *f.args.defaults, *f.args.kw_defaults] for f in body  # no part of the code
  )
  imported = {alias.name for f in body for x in ast.walk(f) if isinstance(x, ast.Import) for alias in x.names}
  assert imported <= sys.stdlib_module_names
  assert not any(isinstance(x, ast.ImportFrom) for f in body for x in ast.walk(f))


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.stem)
def test_what_is_sent_uses_no_name_but_those_that_are_sent_along(path):
  code = compile(path.read_text(), str(path), 'exec')
  functions = {x.co_name: x for x in code.co_consts if hasattr(x, 'co_code')}
  known = {*functions, *dir(builtins), *TOGETHER.get(path.stem, set()), '__name__'}  # a class reads the last
  assert {name for function in functions.values() for name in _globals(function)} <= known


def _globals(code):
  """The names that a function, and those inside it, look up outside themselves."""
  yield from (x.argval for x in dis.get_instructions(code) if x.opname in ('LOAD_GLOBAL', 'LOAD_NAME'))
  for inner in code.co_consts:
    if hasattr(inner, 'co_code'):
      yield from _globals(inner)
