"""Calls as a model's own directory says that they are written: its `response_template`.

The directories of newer models say in `tokenizer_config.json` how a turn of theirs is read, as their chat
template says how one is written, and transformers (5.13 or later) has the parser for it. So a family's format
needs nothing of ours:

    config.toolbox.calls = {'name': 'response_template.ResponseTemplate', 'directory': DIR}
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rlx.data import tokenizer as tokenizers
from rlx.envs.host.calls import Call, Calls, Malformed
from rlx.errors import ConfigError

_FIELD = 'tool_calls'  # of a message, where chat templates look for calls
_ADVICE = (
    'write one into its tokenizer_config.json, see https://huggingface.co/docs/transformers/chat_response_parsing'
    ", or take toolbox.calls.name='calls.hermes_json', or another function of calls"
)


class ResponseTemplate:
  """Reads calls as a model directory says.

  Attributes:
    sees_special_tokens: their names are in the texts that it reads: families mark calls with them.
  """

  sees_special_tokens = True

  def __init__(self, schemas: Sequence[Mapping[str, Any]], *, directory: str):
    """Reads the template, and tries it.

    Args:
      schemas: of the tools, by whose types an argument that was written as text is read.
      directory: of the model.
    Raises:
      ConfigError: there is none, it is none, or it reads no calls.
    """
    try:
      tokenizer = tokenizers.load(directory)
    except ValueError as error:
      raise ConfigError(str(error)) from error
    self._hf, self._schemas = tokenizer.hf, list(schemas)
    self._prefix = _begun(tokenizer)
    template = getattr(self._hf, 'response_template', None)
    if template is None:
      raise ConfigError(
          f'{directory} has no response_template, which says how its model writes calls (the older '
          f'response_schema is not read); {_ADVICE}'
      )
    try:
      self._hf.get_response_parser(prefix=self._prefix, tools=self._schemas)
      fields = template['fields']
    except (ValueError, KeyError) as error:
      why = _words(error)
      raise ConfigError(f'the response_template of {directory} is none: {why}; {_ADVICE}') from error
    if _FIELD not in fields:
      raise ConfigError(
          f'the response_template of {directory} has the fields {sorted(fields)}, and calls are read from '
          f'{_FIELD!r}; {_ADVICE}'
      )

  def __call__(self, text: str) -> Calls:
    """The calls of a turn; one that is not written as it should be, and then no other of the turn."""
    try:
      said = self._hf.parse_response(text, prefix=self._prefix, tools=self._schemas)
    except (ValueError, KeyError, RecursionError) as error:
      return [Malformed(f'the call is not written as it should be ({_words(error)})')]
    found = said.get(_FIELD) or []
    return [_as_call(one) for one in (found if isinstance(found, list) else [found])]


def _begun(tokenizer: tokenizers.Tokenizer) -> str:
  """What the chat template writes up to where the assistant speaks, the beginning of its turn included."""
  try:
    return tokenizer.render([{'role': 'user', 'content': ''}], generation_prompt=True)
  except ValueError:  # there is no chat template, so that nothing is written before a turn
    return ''


def _as_call(value: Any) -> Call | Malformed:
  call = value.get('function', value) if isinstance(value, Mapping) else None
  if not isinstance(call, Mapping) or not isinstance(call.get('name'), str):
    return Malformed('a call has the name of a tool and its arguments')
  arguments = call.get('arguments') or {}
  if not isinstance(arguments, dict | str):
    return Malformed('arguments are an object: name -> value')
  return Call(call['name'], arguments)


def _words(error: Exception) -> str:
  return (str(error).strip('\'"').splitlines() or [type(error).__name__])[0]
