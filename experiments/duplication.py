"""How much of a folder stands in it more than once.

    python -m rlx.experiments.duplication rlx/algorithms/control --show=5

prints the share of code lines that lie in windows of six identical consecutive code lines which occur more
than once in the folder, after the windows that occur most. Docstrings, comments and blank lines are no code,
and how a line is indented makes no difference.
"""

import argparse
import ast
from collections.abc import Iterator, Mapping
import io
from pathlib import Path
import tokenize

WINDOW = 6  # lines

Line = tuple[str, int]  # where it is: name of the module, number


def main() -> None:
  parser = argparse.ArgumentParser(description='The share of code lines that stand in a folder twice.')
  parser.add_argument('folder', metavar='FOLDER')
  parser.add_argument('--show', type=int, default=0, metavar='N', help='so many of the windows that repeat')
  arguments = parser.parse_args()
  sources = {str(path): path.read_text() for path in sorted(Path(arguments.folder).rglob('*.py'))}
  found = repeated(sources)
  for window in sorted(found, key=lambda window: -len(found[window]))[: arguments.show]:
    places = [f'{name}:{number}' for (name, number), *_ in found[window]]
    print('\n'.join([*places, *(f'    {line}' for line in window), '']))
  total = sum(len(code_lines(text)) for text in sources.values())
  print(f'{100 * share(sources):.1f} % of {total} code lines')


def share(sources: Mapping[str, str]) -> float:
  """The share of the code lines of some modules, name -> text, that lie in windows that repeat."""
  within = {line for places in repeated(sources).values() for window in places for line in window}
  return len(within) / max(sum(len(code_lines(text)) for text in sources.values()), 1)


def repeated(sources: Mapping[str, str]) -> dict[tuple[str, ...], list[list[Line]]]:
  """Windows of code that occur more than once -> the lines of each occurrence."""
  found: dict[tuple[str, ...], list[list[Line]]] = {}
  for name, text in sources.items():
    lines = code_lines(text)
    for start in range(len(lines) - WINDOW + 1):
      window = lines[start : start + WINDOW]
      places = [(name, number) for number, _ in window]
      found.setdefault(tuple(line for _, line in window), []).append(places)
  return {window: places for window, places in found.items() if len(places) > 1}


def code_lines(text: str) -> list[tuple[int, str]]:
  """The code of a module: (number, line with single spaces) where there is any."""
  lines = text.splitlines()
  for token in tokenize.generate_tokens(io.StringIO(text).readline):
    if token.type == tokenize.COMMENT:
      row, column = token.start
      lines[row - 1] = lines[row - 1][:column]
  skipped = set(_docstring_lines(text))
  numbered = enumerate((' '.join(line.split()) for line in lines), 1)
  return [(number, line) for number, line in numbered if line and number not in skipped]


def _docstring_lines(text: str) -> Iterator[int]:
  for node in ast.walk(ast.parse(text)):
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    if documented and ast.get_docstring(node, clean=False) is not None:
      yield from range(node.body[0].lineno, node.body[0].end_lineno + 1)


if __name__ == '__main__':
  main()
