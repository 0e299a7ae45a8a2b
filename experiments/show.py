"""`rlx show NAME`: what a config, function or paper is, what it asks for, who uses it, what came of it."""

import ast
from collections.abc import Callable
import inspect
from pathlib import Path
import sys

from rlx import config
from rlx.errors import ConfigError, did_you_mean
from rlx.experiments import catalogue, paper_list
from rlx.experiments.commands import EXIT_DONE, CommandError, Parser
from rlx.names import PACKAGES, definitions, modules, resolve


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  name = _parser().parse_args(argv).name
  path, function = _config(name), _function(name)
  pages = [of_config(name, path)] if path else []
  pages += [of_function(name, function)] if function else []
  pages += [of_paper(paper) for paper in paper_list.papers() if paper.id == name.upper()]
  if not pages:
    pages = [of_module(x, path) for x, path in modules('rlx').items() if x.endswith(f'.{name}')]
  if not pages:
    known = {*definitions('rlx'), *config.names()}
    hint = did_you_mean(name, known) or '; `rlx list` says what there is'
    raise CommandError(f'{name!r} is no config, no function of rlx, and no id of a paper{hint}')
  print('\n\n\n'.join(pages))
  return EXIT_DONE


def of_config(name: str, path: Path) -> str:
  """What a config says of itself, with its result, its arguments and its algorithms."""
  body = ast.parse(path.read_text()).body
  makes = [x for x in body if isinstance(x, ast.FunctionDef) and x.name == 'get_config']
  lines = [f'{name}  ({path})', '', catalogue.docstring(path) or 'It has no docstring.', '']
  lines += [f'get_config: {ast.get_docstring(node)}' for node in makes if ast.get_docstring(node)]
  values = config.flat(config.load(name))
  return '\n'.join(lines + [f'{key}: {x}' for key, x in values if f'.{key}'.endswith('.algorithm.name')])


def of_paper(paper: paper_list.Paper) -> str:
  """Where a paper is, and what came of what it claims there."""
  paths = config.names()
  lines = [f'{paper.id}  {paper.called}']
  for place in paper.places:
    came = catalogue.result(paths[place.name].read_text()) if place.name in paths else place.came
    lines += ['', f'in {place.name}: {came}']
  return '\n'.join(lines if paper.places else [*lines, '', paper_list.NOT_BUILT])


def of_function(name: str, function: Callable) -> str:
  """What a function says of itself, what it asks for, its numbers, and the configs that name it."""
  called, module = function.__name__, sys.modules[function.__module__]
  lines = [f'{name}  ({module.__name__}.{called})', '']
  if module.__name__.endswith(f'.{called}'):  # the subject of its file
    lines += [inspect.getdoc(module) or '', '']
  lines += [inspect.getdoc(function) or 'It has no docstring.', '', *_arguments(function)]
  sources = catalogue.configs()
  for short, path in config.names().items():
    if catalogue.chooses(sources[path], called):
      lines += ['', f'in {short}: {catalogue.result(sources[path])}']
  namesakes = [place for place in definitions('rlx').get(called, ()) if place != module.__name__]
  return '\n'.join([*lines, *(f'\nof the same name: {place}.{called}' for place in namesakes)])


def of_module(name: str, path: Path) -> str:
  """What a file of several functions says of itself, and which they are."""
  functions = [function for function, places in definitions('rlx').items() if name in places]
  lines = [f'{name}  ({path})', '', catalogue.docstring(path) or 'It has no docstring.', '']
  return '\n'.join([*lines, f'has: {", ".join(functions)}'])


def _arguments(function: Callable) -> list[str]:
  """A line each: parts that it asks for by name, and values of its section, as the source has them."""
  if not inspect.isfunction(function):
    return [f'arguments: {inspect.signature(function)}']
  arguments = ast.parse(inspect.getsource(function)).body[0].args
  lines = [f'asks for  {ast.unparse(argument)}' for argument in arguments.args]
  for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
    lines.append(f'value     {ast.unparse(argument)}' + (f' = {ast.unparse(default)}' if default else ''))
  return lines + ([f'values    **{ast.unparse(arguments.kwarg)}'] if arguments.kwarg else [])


def _config(name: str) -> Path | None:
  """The file of a config of this name, if there is one."""
  try:
    path = config.find(name)
  except ConfigError:
    return None
  return path if path.suffix == '.py' else None


def _function(name: str) -> Callable | None:
  """The function that a config would mean by a name, algorithms before other parts, if there is one."""
  if '/' in name or '.' not in name and name not in definitions('rlx'):
    return None
  packages = dict.fromkeys(package for names in PACKAGES.values() for package in names)
  return resolve(name, *packages, 'rlx')


def _parser() -> Parser:
  parser = Parser(prog='rlx show', description='What a name means, in --config or in a section of a config.')
  parser.add_argument(
      'name', metavar='NAME', help='grpo, quickstart/arithmetic, math.math_answer, S155, yours.f'
  ).completer = lambda **_: [*config.names(), *definitions('rlx'), *paper_list.ids()]
  return parser
