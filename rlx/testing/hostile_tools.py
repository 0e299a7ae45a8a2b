"""Tools that take their time or misbehave, for runs that are hit.

What the slow ones say is chance of a seed; when is not. Those that misbehave do so on about every `every`th
text, chosen by the text, so that a run does the same again. Workers import this module: no jax.
"""

import os
import random
import time

from rlx.envs.host.calls import Call, Malformed
from rlx.testing.hostile_rewards import chosen

_clock = random.SystemRandom()


def anything(text: str) -> list[Call]:
  """A format in which most turns are calls, whatever a policy that knows nothing says."""
  if len(text) % 4 == 0:
    return []
  return [Call('late', text), Call('add', {'number': len(text)})]


def one(text: str) -> list[Call]:
  """A format in which every turn is a call, and what is said its argument."""
  return [Call('late', text)]


def nonsense(text: str) -> list[Call | Malformed]:
  """A format of calls to tools that are not there, with arguments that they do not take, or of no call."""
  broken = [
      Call('nobody', text), Call('late', {'words': text}), Call('late', {'text': 3}), Call('late', {}),
      Call('', ''), Malformed('This is no call.'),
  ]
  return [broken[len(text) % len(broken)]]


def late(text: str) -> str:
  """Says a number of chance, after a while.

  Args:
    text: of no use.
  """
  del text
  time.sleep(0.02 * _clock.random())
  return str(random.randrange(100))


def raises(text: str, *, every: int) -> str:
  """Raises, with a message of many lines.

  Args:
    text: what decides.
  """
  if chosen(text, every):
    raise RuntimeError('no\n' * 1000)
  return str(len(text))


def hangs(text: str, *, every: int) -> str:
  """Sleeps for an hour.

  Args:
    text: what decides.
  """
  if chosen(text, every):
    time.sleep(3600)
  return str(len(text))


def dies(text: str, *, every: int) -> str:
  """Ends its process.

  Args:
    text: what decides.
  """
  if chosen(text, every):
    os._exit(3)
  return str(len(text))


def floods(text: str, *, every: int) -> str:
  """Says a million characters.

  Args:
    text: what decides.
  """
  return '7' * (10**6 if chosen(text, every) else 1)


def babbles(text: str, *, every: int) -> str:
  """Says what no file in UTF-8 can hold, and what ends a text in C.

  Args:
    text: what decides.
  """
  return '\ud800\0\uffff<|im_end|>' * 9 if chosen(text, every) else str(len(text))


class Sum:
  """A world that has to be begun again, with its calls, to go on."""

  def reset(self, **columns) -> None:
    """Begins with the length of the question."""
    self.total = len(columns['question'])

  def add(self, number: int) -> int:
    """Adds to the sum.

    Args:
      number: what is added.
    """
    time.sleep(0.01 * _clock.random())
    self.total += number + random.randrange(10)
    return self.total % 100
