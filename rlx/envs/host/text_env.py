"""Worlds of other libraries that are played in words: gymnasium's, GEM's, TextArena's.

What a policy says is one action, whole (`calls.whole`), and the world says when it is over. An environment is
a package of its own, which is imported where it is made: in a process that has one world. So it may seed the
global `random`, as GEM's and TextArena's do.
"""

from collections.abc import Callable, Mapping
import importlib
from typing import Any

from rlx.envs.host.tools import Last


class TextEnv:
  """An environment in gymnasium's words whose observations and actions are text.

  `reset(seed=..)` gives an observation and a dict, `step(text)` five values. GEM's are of this kind:
  `{'name': 'text_env.TextEnv', 'make': 'gem.make', 'arguments': {'env_id': 'game:GuessTheNumber-v0-easy'}}`.
  """

  def __init__(self, *, make: str, arguments: Mapping[str, Any]):
    """Nothing is begun yet.

    Args:
      make: the function or class that makes one, by its full name.
      arguments: of it.
    """
    self._env = _function(make)(**arguments)
    self._reward = 0.0

  def reset(self, seed: int, **columns) -> str:
    """Begins an episode with the column `seed` of the row; what is observed."""
    del columns
    self._reward = 0.0
    return _text(self._env.reset(seed=int(seed))[0])

  def act(self, text: str) -> str:
    """Acts, and returns what is observed.

    Args:
      text: the action.
    """
    observation, reward, terminated, truncated, _ = self._env.step(text)
    self._reward += float(reward)
    return (Last if terminated or truncated else str)(_text(observation))

  def get_reward(self) -> float:
    """The sum of the rewards."""
    return self._reward


class TextArena:
  """A game of TextArena for one player: `{'name': 'text_env.TextArena', 'env_id': 'Hangman-v0'}`."""

  def __init__(self, *, env_id: str):
    """Nothing is begun yet.

    Args:
      env_id: of the game.
    """
    self._env = _function('textarena.make')(env_id=env_id)
    self._is_over = False

  def reset(self, seed: int, **columns) -> str:
    """Begins an episode with the column `seed` of the row; what is observed."""
    del columns
    self._env.reset(num_players=1, seed=int(seed))
    self._is_over = False
    return self._observation()

  def act(self, text: str) -> str:
    """Makes a move, and returns what is observed.

    Args:
      text: the move.
    """
    self._is_over, _ = self._env.step(action=text)
    return Last() if self._is_over else self._observation()

  def get_reward(self) -> float:
    """What the game gives its player; 0 where it was not played to its end."""
    if not self._is_over:
      return 0.0
    rewards, _ = self._env.close()
    return float(rewards[0])

  def _observation(self) -> str:
    seen = self._env.get_observation()[1]
    return seen if isinstance(seen, str) else '\n'.join(message for _, message, _ in seen)


def _function(name: str) -> Callable:
  module, _, function = name.rpartition('.')
  try:
    return getattr(importlib.import_module(module), function)
  except (ImportError, ValueError, AttributeError) as error:
    raise ValueError(f'{name!r} makes no environment: {error}; install the package that has it') from error


def _text(observation: Any) -> str:
  if not isinstance(observation, str):
    raise ValueError(f'an observation is {type(observation).__name__}, and it has to be text')
  return observation
