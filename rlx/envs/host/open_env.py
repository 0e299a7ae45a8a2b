"""Environments of OpenEnv: servers that are spoken to through the package's own client (extra `openenv`).

    config.toolbox.environments.echo = {
        'name': 'open_env.OpenEnv', 'url': 'http://localhost:8000', 'action': 'message',
        'observation': 'echoed_message', 'begins_with': ('seed',), 'answer_seconds': 10.0,
    }

The client is the generic one, which sends and receives dicts: nothing of an environment is installed or run
here. An episode has a session of its own on the server, which has to allow as many as the toolbox has
episodes at a time.
"""

from collections.abc import Sequence
import json
from typing import Any

from rlx.envs.host.tools import Last

try:  # here, for it takes seconds: once for all processes, which are forked from one that has this module
  from openenv import GenericEnvClient
except ImportError:
  GenericEnvClient = None

_INSTALL = "environments of OpenEnv need the package openenv: pip install 'rlx[openenv]'"


class OpenEnv:
  """An environment of OpenEnv that is played in words."""

  def __init__(
      self, *, url: str, action: str, observation: str, begins_with: Sequence[str], answer_seconds: float
  ):
    """Nothing is connected yet.

    Args:
      url: of the server.
      action: the field of its actions that is what was said; '' where that is a whole action, as JSON.
      observation: the field of its observations that is read; '' for all of them, as JSON.
      begins_with: columns of a row that its `reset` is given, such as `seed`.
      answer_seconds: for an answer of the server. Below the toolbox's `timeout_seconds`, which ends more.
    """
    self._url, self._action, self._observation = url, action, observation
    self._begins_with, self._answer_seconds = tuple(begins_with), answer_seconds
    self._client: Any = None
    self._reward = 0.0

  def _trial(self) -> None:
    """Raises where the package is missing or the server does not answer."""
    self._connect()
    self._client.close()
    self._client = None

  def reset(self, **columns) -> str:
    """Begins an episode with some columns of the row; what is observed."""
    if missing := [name for name in self._begins_with if name not in columns]:
      raise ValueError(f'begins_with={self._begins_with} names {missing}, and the row has {sorted(columns)}')
    if self._client is None:
      self._connect()
    self._reward = 0.0
    result = self._client.reset(**{name: columns[name] for name in self._begins_with})
    return self._text(result.observation)

  def act(self, text: str) -> str:
    """Acts, and returns what is observed.

    Args:
      text: the action.
    """
    result = self._client.step({self._action: text} if self._action else _object(text))
    self._reward += float(result.reward or 0.0)  # None where a step is not rewarded
    return (Last if result.done else str)(self._text(result.observation))

  def get_reward(self) -> float:
    """The sum of the rewards."""
    return self._reward

  def _connect(self) -> None:
    if GenericEnvClient is None:
      raise ValueError(_INSTALL)
    seconds = {'connect_timeout_s': self._answer_seconds, 'message_timeout_s': self._answer_seconds}
    client = GenericEnvClient(base_url=self._url, **seconds).sync()
    try:
      self._client = client.connect()
    except Exception as error:  # of the package, of its event loop, or of the system
      why = f'the environment at {self._url} does not answer: {error}; start its server'
      raise ValueError(why) from error

  def _text(self, observation: Any) -> str:
    if not self._observation:
      return json.dumps(observation, ensure_ascii=False)
    if not isinstance(observation, dict) or self._observation not in observation:
      known = sorted(observation) if isinstance(observation, dict) else observation
      raise ValueError(f'an observation has no {self._observation!r}: {known!r:.200}')
    value = observation[self._observation]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _object(text: str) -> dict[str, Any]:
  """An action that was written as JSON."""
  try:
    value = json.loads(text)
  except (ValueError, RecursionError) as error:
    raise ValueError(f'an action is a JSON object ({error})') from None
  if not isinstance(value, dict):
    raise ValueError('an action is a JSON object: name -> value')
  return value
