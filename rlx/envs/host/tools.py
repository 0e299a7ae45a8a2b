"""What a tool is: a Python function with type hints and a Google docstring, or a public method of a class.

A class is a *world* of an episode, in TRL's words: `reset(**columns) -> str | None` begins it with the
columns of the row, public methods are tools, and `get_reward()`, where there is one, is the reward of the
episode.

    class Counter:
      def reset(self, **columns) -> str | None: ..
      def add(self, number: int) -> str:
        '''Adds a number to the sum.

        Args:
          number: what is added.
        '''
      def get_reward(self) -> float: ..

A method that returns `Last(text)` ends the episode, whatever the policy had in mind.

`reset`, `get_reward`, what begins with an underscore and what a class has inherited are no tools. Arguments
are checked against the type hints before anything runs. Descriptions (`Tool.schema`) are those of
`transformers.utils.get_json_schema`, as chat templates take them.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import inspect
import json
import types
import typing
from typing import Any, Literal, Union

from rlx.errors import ConfigError

RESET, REWARD = 'reset', 'get_reward'
OVER = 'over'  # a result behind which its world is over
_PLAIN = (bool, int, float, str)


class Last(str):
  """The last words of a world: a method that returns them ends the episode."""


class ArgumentError(ValueError):
  """Arguments that a tool does not take: said to the model."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tool:
  """A function that a model may call.

  Attributes:
    name: by which it is called.
    function: with its hyper-parameters bound; of a world, the method without its instance.
    hints: parameter -> type.
    required: the parameters without a default.
    is_method: whether a world has it.
  """

  name: str
  function: Callable
  hints: Mapping[str, Any]
  required: tuple[str, ...]
  is_method: bool

  def arguments(self, given: Mapping[str, Any] | str) -> dict[str, Any]:
    """The arguments of a call as the function takes them.

    Args:
      given: by name, as JSON has them; or the text of the only one.
    Raises:
      ArgumentError: one is missing, unknown, or not of its type.
    """
    if isinstance(given, str):
      given = {self._only(): self._read(given)}
    unknown, missing = sorted(given.keys() - self.hints), [x for x in self.required if x not in given]
    if unknown or missing:
      wrong = f'does not take {unknown}' if unknown else f'needs {missing}'
      raise ArgumentError(f'{self.name} {wrong}; its arguments are {list(self.hints)}')
    for name, value in given.items():
      if not fits(value, self.hints[name]):
        raise ArgumentError(
            f'argument {name!r} of {self.name} is {_shown(value)}; it has to be {_word(self.hints[name])}'
        )
    return dict(given)

  @functools.cached_property
  def schema(self) -> dict:
    """The tool as chat templates and APIs describe it. Raises `ConfigError` where its docstring lacks one of
    its arguments."""
    if hasattr(self.function, 'schema'):  # a function that says so itself
      whole = self.function.schema
      return {**whole, 'function': {**whole['function'], 'name': self.name}}
    try:
      from transformers.utils import get_json_schema
    except ImportError as error:
      raise ConfigError('descriptions of tools need transformers: pip install transformers') from error
    function = self.function.func if isinstance(self.function, functools.partial) else self.function
    try:
      whole = get_json_schema(types.MethodType(function, object()) if self.is_method else function)
    except Exception as error:
      raise ConfigError(f'tool {self.name!r} cannot be described: {str(error).splitlines()[0]}') from error
    described = whole['function'] | {'name': self.name}
    parameters = dict(described['parameters'])
    parameters['properties'] = {k: v for k, v in parameters['properties'].items() if k in self.hints}
    parameters['required'] = list(self.required)
    return {'type': 'function', 'function': described | {'parameters': parameters}}

  def _only(self) -> str:
    names = list(self.required) or list(self.hints)[:1]
    if len(names) != 1:
      raise ArgumentError(f'{self.name} takes {list(self.hints)}, not one text')
    return names[0]

  def _read(self, text: str) -> Any:
    """The text of an argument as its type: itself, or what it says as JSON."""
    if fits(text, self.hints[self._only()]):
      return text
    try:
      return json.loads(text)
    except (ValueError, RecursionError):
      return text  # which is then refused, by its type


def tool(name: str, function: Callable, *, is_method: bool = False) -> Tool:
  """A function as a tool. Raises `ConfigError` where it has no type hints, or takes any arguments."""
  bound = function.keywords if isinstance(function, functools.partial) else {}
  plain = function.func if isinstance(function, functools.partial) else function
  parameters = list(inspect.signature(plain).parameters.values())[is_method:]
  free = [p for p in parameters if p.name not in bound]
  if wrong := [p.name for p in free if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY)]:
    raise ConfigError(f'tool {name!r} takes {wrong}; a tool names each of its arguments')
  hints = typing.get_type_hints(plain)
  if missing := [p.name for p in free if p.name not in hints]:
    raise ConfigError(f'tool {name!r}: {missing} have no type hints, by which arguments are checked')
  for p in free:
    _check_hint(hints[p.name], f'tool {name!r}: {p.name}')
  if not inspect.getdoc(plain):
    raise ConfigError(f'tool {name!r} has no docstring, which says to a model what it is for')
  return Tool(
      name=name, function=function, hints={p.name: hints[p.name] for p in free}, is_method=is_method,
      required=tuple(p.name for p in free if p.default is p.empty),
  )


def tools_of(world: type) -> dict[str, Tool]:
  """The tools of a class: what it defines itself, without an underscore, but `reset` and `get_reward`.

  Raises:
    ConfigError: it has no `reset`, or none of its methods is a tool.
  """
  if not isinstance(world, type) or not callable(getattr(world, RESET, None)):
    raise ConfigError(f'{world!r} is no world: a class with reset(**columns), whose public methods are tools')
  own = {
      name: x for name, x in vars(world).items()
      if inspect.isfunction(x) and not name.startswith('_') and name not in (RESET, REWARD)
  }
  if not own:
    raise ConfigError(f'{world.__name__} has no public method of its own, so there is no tool in it')
  return {name: tool(name, method, is_method=True) for name, method in own.items()}


def fits(value: Any, hint: Any) -> bool:
  """Whether a value, as JSON has it, is of a type."""
  if hint is Any:
    return True
  origin, inside = typing.get_origin(hint), typing.get_args(hint)
  if origin in (Union, types.UnionType):
    return any(fits(value, one) for one in inside)
  if origin is Literal:
    return any(value == one and type(value) is type(one) for one in inside)
  if hint is type(None) or hint is None:
    return value is None
  if (origin or hint) is list:
    return isinstance(value, list) and (not inside or all(fits(x, inside[0]) for x in value))
  if (origin or hint) is dict:
    keys = isinstance(value, dict) and all(isinstance(key, str) for key in value)
    return keys and (not inside or all(fits(x, inside[1]) for x in value.values()))
  if hint is float:
    return isinstance(value, int | float) and not isinstance(value, bool)
  return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _check_hint(hint: Any, where: str) -> None:
  """Raises `ConfigError` for a type that no JSON value has."""
  origin, inside = typing.get_origin(hint), typing.get_args(hint)
  if hint is Any or hint is type(None) or origin is Literal:
    return
  if origin in (Union, types.UnionType, list, dict):
    for one in inside:
      _check_hint(one, where)
  elif hint not in (*_PLAIN, list, dict):
    raise ConfigError(f'{where} is of type {_word(hint)}; arguments are bool, int, float, str, list or dict')


def _word(hint: Any) -> str:
  return hint.__name__ if isinstance(hint, type) else str(hint).replace('typing.', '')


def _shown(value: Any) -> str:
  return f'{json.dumps(value)[:80]} ({type(value).__name__})'


def text_of(value: Any) -> str:
  """What a tool returned, as it is read: a text is itself, anything else is JSON where it can be."""
  if isinstance(value, str):
    return value
  try:
    return json.dumps(value, ensure_ascii=False)
  except (TypeError, ValueError, RecursionError):
    return str(value)


def names(tools: Sequence[Tool]) -> str:
  """Their names, to be read by a model that has called none of them."""
  return ', '.join(one.name for one in tools) or 'none'
