"""Tools of a server that speaks the Model Context Protocol over its standard input (extra `mcp`).

    config.toolbox.tools = mcp_server.sections(('python', 'my_server.py'))

A server runs in each process that makes calls, beside the calls of other episodes: it should remember
nothing. Arguments are checked against the types that the server says before it is called.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
import functools
import inspect
import types
from typing import Any

from rlx.errors import ConfigError

_INSTALL = "tools of a server need the package mcp: pip install 'rlx[mcp]'"
_TYPES = {
    'string': str, 'integer': int, 'number': float, 'boolean': bool, 'array': list, 'object': dict,
    'null': types.NoneType,
}


def sections(command: Sequence[str]) -> dict[str, dict]:
  """A section for each tool of a server, which is started and asked for them.

  Args:
    command: that starts it.
  Raises:
    ConfigError: the package is missing, or the server does not start.
  """
  section = {'name': 'mcp_server.ServerTool', 'command': tuple(command)}
  return {name: {**section, 'tool': name} for name in _tools(tuple(command))}


class ServerTool:
  """One tool of a server: a function with the arguments and the words that the server says of it.

  Attributes:
    schema: as chat templates and APIs describe a tool.
  """

  def __init__(self, *, command: Sequence[str], tool: str):
    """Asks the server what the tool is.

    Args:
      command: that starts it.
      tool: the name of the tool there.
    Raises:
      ConfigError: as `sections`, or the server has no such tool.
    """
    self._command, self._tool = tuple(command), tool
    known = _tools(self._command)
    if tool not in known:
      raise ConfigError(f'{" ".join(command)} has no tool {tool!r}; it has {sorted(known)}')
    schema = known[tool].input_schema
    self.__doc__ = known[tool].description or f'The tool {tool}.'
    self.__annotations__ = {name: _hint(one) for name, one in schema.get('properties', {}).items()}
    required, hints = schema.get('required', ()), self.__annotations__
    self.__signature__ = inspect.Signature([_parameter(x, hints[x], x in required) for x in hints])
    described = {'name': tool, 'description': self.__doc__, 'parameters': schema}
    self.schema = {'type': 'function', 'function': described}

  def __call__(self, **arguments) -> str:
    """What the server says, its texts. Raises `RuntimeError` where that is an error."""
    result = _call(self._command, self._tool, arguments)
    text = '\n'.join(one.text for one in result.content if one.type == 'text')
    if result.is_error:
      raise RuntimeError(text or 'the server says that it failed')
    return text


def _parameter(name: str, hint: Any, is_required: bool) -> inspect.Parameter:
  if not name.isidentifier():
    raise ConfigError(f'a tool of the server has the argument {name!r}, which no Python function can have')
  default = inspect.Parameter.empty if is_required else None
  return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)


def _hint(schema: Mapping[str, Any]) -> Any:
  """The type of an argument, where its JSON schema says a single one."""
  kind = schema.get('type')
  return _TYPES.get(kind, Any) if isinstance(kind, str) else Any


# --- the server


def _client_of(command: tuple[str, ...]) -> Any:
  try:
    from mcp import Client, StdioServerParameters
  except ImportError as error:
    raise ConfigError(_INSTALL) from error
  program, *rest = command
  return Client(StdioServerParameters(command=program, args=rest))


@functools.cache
def _tools(command: tuple[str, ...]) -> dict[str, Any]:
  """The tools of a server by name; it is started for this, and ended again."""
  client = _client_of(command)

  async def ask():
    async with client:
      return await client.list_tools()

  from anyio.from_thread import start_blocking_portal

  try:
    with start_blocking_portal() as portal:  # a notebook has an event loop of its own
      return {one.name: one for one in portal.call(ask).tools}
  except Exception as error:  # of the package, of its event loop, or of the system
    while isinstance(error, ExceptionGroup):  # of event loops, with one in each
      error = error.exceptions[0]
    raise ConfigError(f'the server {" ".join(command)} does not start: {error}') from error


@functools.cache
def _running(command: tuple[str, ...]) -> tuple[Any, Any, ExitStack]:
  """A thread with an event loop, in it the client of a server, and what ends both."""
  from anyio.from_thread import start_blocking_portal

  ends = ExitStack()
  portal = ends.enter_context(start_blocking_portal())
  return portal, ends.enter_context(portal.wrap_async_context_manager(_client_of(command))), ends


def _call(command: tuple[str, ...], tool: str, arguments: dict[str, Any]) -> Any:
  portal, client, _ = _running(command)
  try:
    return portal.call(client.call_tool, tool, arguments)
  except Exception:
    _running.cache_clear()  # a server that has ended is started again for the next call
    raise
