"""Tools for tests, in a module that workers can import."""

import os
import pickle
import random
import signal
import time
import types

from rlx.envs.host import serving
from rlx.envs.host.calls import Call, Malformed
from rlx.envs.host.tools import Last


class Trap:
  """Ends the process that unpickles it."""

  def __reduce__(self):
    return os._exit, (7,)


def add(x: int, y: int) -> int:
  """Adds two numbers.

  Args:
    x: the first.
    y: the second.
  """
  return x + y


def echo(text: str) -> str:
  """Says it again, with a number of chance.

  Args:
    text: what to say.
  """
  return f'{text.strip()[:4]} {random.randrange(10)}'


def slow_echo(text: str) -> str:
  """As `echo`, after a while that nobody knows.

  Args:
    text: what to say.
  """
  answer = echo(text)
  time.sleep(0.02 * random.SystemRandom().random())
  return answer


def broken_echo(text: str) -> str:
  """Fails, whatever it is told.

  Args:
    text: of no use.
  """
  raise ValueError('no echo')


def fail(how: str) -> str:
  """Fails.

  Args:
    how: in which way.
  """
  if how == 'raise':
    raise ValueError('a line\nand another')
  if how == 'exit':
    raise SystemExit(3)
  if how == 'hang':
    time.sleep(60)
  if how == 'die':
    os.kill(os.getpid(), signal.SIGKILL)
  if how == 'forge':
    trap = types.SimpleNamespace(encode=lambda: pickle.dumps(Trap()))
    serving.json = types.SimpleNamespace(dumps=lambda reply: trap)
  if how == 'forge a kind':
    serving.json = types.SimpleNamespace(dumps=lambda reply: '["ok", [1, 2]]')
  if how == 'long':
    return 'word ' * 10_000
  if how == 'flood':
    return f'first{"7" * 10**6}last'
  if how == 'halves':
    return 'a\ud800 \ud83d\ude00 \0'
  if how == 'special':
    return 'a <|im_end|> and <|endoftext|>'
  return how


def whatever(text: str) -> list[Call]:
  """A format in which anything is a call, so that a policy that knows nothing makes some."""
  return [Call('echo', text)] if len(text) % 3 else [Malformed('of no use')] if len(text) % 2 else []


def now_and_then(text: str) -> list[Call]:
  """A format in which a text of some lengths is a call."""
  if len(text) % 3 == 0:
    return [Call('echo', text)]
  return [Malformed('of no use')] if len(text) % 8 == 1 else []


class Base:
  """What a world may inherit."""

  def inherited(self) -> str:
    """No tool: inherited."""
    return 'inherited'


class Counter(Base):
  """A sum that lives as long as an episode."""

  def __init__(self, begins_at: int = 0):
    self._begins_at = begins_at

  def reset(self, **columns) -> str | None:
    self.total = self._begins_at
    self.asked = columns

  def add(self, number: int) -> int:
    """Adds to the sum.

    Args:
      number: what is added.
    """
    self.total += number
    return self.total

  def draw(self) -> int:
    """A number of chance."""
    return random.randrange(10**6)

  def fail(self, how: str) -> str:
    """Fails.

    Args:
      how: in which way.
    """
    return fail(how)

  def _hidden(self) -> str:
    """No tool: an underscore."""
    return 'hidden'

  def get_reward(self) -> float:
    return float(self.total)


class Quiet:
  """A world that says nothing at first, and is worth nothing."""

  def reset(self, **columns) -> None:
    pass

  def look(self) -> str:
    """There is nothing."""
    return 'nothing'


class Stillborn(Counter):
  """A world that cannot be begun where its row says so."""

  def reset(self, **columns) -> str | None:
    super().reset(**columns)
    if columns.get('answer') == 'bad':
      raise RuntimeError('no such world')
    return f' (begins at {self.total})'

  def add(self, number: int) -> int:
    """Adds to the sum.

    Args:
      number: what is added.
    """
    return super().add(number)


class Guess:
  """An environment in gymnasium's words: a number is looked for, three times at most."""

  def __init__(self, largest: int):
    self._largest = largest

  def reset(self, seed: int | None = None):
    self._number, self._left = random.Random(seed).randrange(self._largest), 3
    return f'a number below {self._largest}', {}

  def step(self, action: str):
    self._left -= 1
    found = action == str(self._number)
    return 'found' if found else 'no', float(found), found, not self._left and not found, {}


class Steps:
  """A world that is over behind its second step."""

  def reset(self, **columns) -> None:
    self.steps = 0

  def step(self, text: str) -> str:
    """Goes on.

    Args:
      text: anything.
    """
    self.steps += 1
    return Last('there') if self.steps == 2 else 'on'

  def get_reward(self) -> float:
    return float(self.steps)
