"""A calculator: arithmetic of numbers, read by Python's own parser and worked out node by node; nothing is
executed, and nothing but numbers and operators means anything."""

import ast
from collections.abc import Callable
import math
import operator
import re

_MAX_CHARACTERS = 1000
_MAX_BITS = 4096  # of a whole number
_MARK = re.compile(r'<<([^<>=]*)=([^<>]*)>>')  # a calculation and its result, as GSM8K writes them
_BINARY: dict[type, Callable] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}
_UNARY: dict[type, Callable] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def calculate(expression: str) -> str:
  """Works out an expression of numbers, such as 3 * (4 + 5) / 2.

  The operators are + - * / // % ** and brackets. Commas between thousands, a dollar sign and × ÷ are
  understood.

  Args:
    expression: what to work out.

  Returns:
    The number; a whole one without a point.
  """
  text = expression.strip().replace(',', '').replace('$', '').replace('×', '*').replace('÷', '/')
  if not text or len(text) > _MAX_CHARACTERS:
    raise ValueError(f'an expression has 1 to {_MAX_CHARACTERS} characters, and this one {len(text)}')
  try:
    tree = ast.parse(text, mode='eval')
  except (SyntaxError, MemoryError, RecursionError):
    raise ValueError(f'this is no expression of numbers: {text[:40]!r}') from None
  return _shown(_value(tree.body))


def right_results(text: str) -> list[bool]:
  """Of each calculation that is marked in a text (`<<48/2=24>>`), whether its result is right."""
  return [_is_right(*match.groups()) for match in _MARK.finditer(text)]


def _is_right(expression: str, result: str) -> bool:
  try:
    wanted, found = (float(calculate(x)) for x in (expression, result))
  except (ValueError, ArithmeticError):  # one of them is no number
    return False
  return math.isclose(wanted, found, rel_tol=1e-6, abs_tol=1e-9)


def _value(node: ast.AST) -> int | float:
  if isinstance(node, ast.Constant) and type(node.value) in (int, float):
    return node.value
  if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
    return _UNARY[type(node.op)](_value(node.operand))
  if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
    return _applied(node.op, _value(node.left), _value(node.right))
  raise ValueError(f'{type(node).__name__} is no number and no operator')


def _applied(op: ast.operator, left: int | float, right: int | float) -> int | float:
  is_whole = isinstance(left, int) and isinstance(right, int)
  if isinstance(op, ast.Pow) and is_whole and abs(right) * left.bit_length() > _MAX_BITS:
    raise ValueError('the power is too large')
  value = _BINARY[type(op)](left, right)
  if isinstance(value, complex) or isinstance(value, float) and not math.isfinite(value):
    raise ValueError('the result is no finite real number')
  if isinstance(value, int) and value.bit_length() > _MAX_BITS:
    raise ValueError('the result is too large')
  return value


def _shown(value: int | float) -> str:
  if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
    value = int(value)
  return str(value) if isinstance(value, int) else f'{value:.10g}'
