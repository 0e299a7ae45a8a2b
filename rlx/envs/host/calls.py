"""How a call is written: functions `text -> calls`, of what a policy said in one turn.

Each returns the calls in the order in which they stand, and a `Malformed` where somebody began one and did
not write it as the format wants: the model is told, and the episode goes on. A text without either is an
answer.

    hermes_json     <tool_call>{"name": "add", "arguments": {"x": 1}}</tool_call>   (Hermes, Qwen)
    llama_json      {"name": "add", "parameters": {"x": 1}}                         (Llama 3.1 and later)
    tags            <search>who was it</search>                                     (Search-R1)
    fenced_python   a block of Markdown in the language python
    inline          He has 48/2=<<48/2=                                             (GSM8K)
    whole           open the door                                                   (worlds played in words)

`response_template.py` reads calls as a model directory says.
"""

from collections.abc import Sequence
import json
import re
from typing import Any, NamedTuple

_TOOL_CALL = re.compile(r'<tool_call>(.*?)(</tool_call>|$)', re.DOTALL)
_FENCE = re.compile(r'^```(?:python|py)[ \t]*\n(.*?)(^```[ \t]*$|\Z)', re.DOTALL | re.MULTILINE)


class Call(NamedTuple):
  """A call that a model has written."""

  name: str
  arguments: dict[str, Any] | str  # by name; or the text of the only one


class Malformed(NamedTuple):
  """Something that was to be a call."""

  problem: str  # in words for the model


Calls = list[Call | Malformed]


def hermes_json(text: str) -> Calls:
  """Calls as JSON between `<tool_call>` and `</tool_call>`, as Hermes and Qwen write them."""
  found: Calls = []
  for body, end in _TOOL_CALL.findall(text):
    found.append(_of_json(body, 'arguments') if end else Malformed('</tool_call> is missing'))
  return found


def llama_json(text: str) -> Calls:
  """A text that is nothing but calls as JSON, one or several with semicolons between them, as Llama 3.1 and
  later write them; a text that begins otherwise is an answer."""
  rest, found, decoder = text.strip(), [], json.JSONDecoder()
  if not rest.startswith('{'):
    return []
  while rest:
    try:
      value, end = decoder.raw_decode(rest)
    except (ValueError, RecursionError) as error:
      return [*found, Malformed(f'the call is no JSON ({_first_line(error)})')]
    found.append(_as_call(value, 'parameters'))
    rest = rest[end:].lstrip(' \n\t;')
  return found


def tags(text: str, *, tools: Sequence[str]) -> Calls:
  """Calls of some tools as `<tool>text</tool>`, the text being the tool's only argument."""
  names = '|'.join(map(re.escape, tools))
  found: Calls = []
  for name, body, end in re.findall(rf'<({names})>(.*?)(</\1>|$)', text, re.DOTALL):
    found.append(Call(name, body.strip()) if end else Malformed(f'</{name}> is missing'))
  return found


def fenced_python(text: str, *, tool: str) -> Calls:
  """Each block of Markdown in the language python as a call of a tool, whose only argument it is."""
  found: Calls = []
  for body, end in _FENCE.findall(text):
    found.append(Call(tool, body) if end else Malformed('the block of code is not closed by ```'))
  return found


def whole(text: str, *, tool: str) -> Calls:
  """All that was said is one call: an action of a world that is played in words. What is blank is none."""
  return [Call(tool, text.strip())] if text.strip() else []


def inline(text: str, *, tool: str, before: str, after: str) -> Calls:
  """A call at the very end of a text: what stands behind the last `before`, where the text ends with `after`.

  It is for calculations that stand in a sentence, as GSM8K has them: `He has <<48/2=`.
  """
  _, found, call = text.rpartition(before)
  return [Call(tool, call.removesuffix(after))] if found and call.endswith(after) else []


def _of_json(text: str, key: str) -> Call | Malformed:
  try:
    return _as_call(json.loads(text), key)
  except (ValueError, RecursionError) as error:
    return Malformed(f'the call is no JSON ({_first_line(error)})')


def _as_call(value: Any, key: str) -> Call | Malformed:
  if not isinstance(value, dict) or not isinstance(value.get('name'), str):
    return Malformed(f'a call is an object with "name" and "{key}"')
  arguments = value.get(key, {})
  if not isinstance(arguments, dict):
    return Malformed(f'"{key}" is an object: name -> value')
  return Call(value['name'], arguments)


def _first_line(error: Exception) -> str:
  return (str(error).splitlines() or [type(error).__name__])[0]
