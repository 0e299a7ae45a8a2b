"""Tools that take their time, for runs that are hit: what they say is chance of a seed, when is not.

Workers import this module: no jax.
"""

import random
import time

from rlx.envs.host.calls import Call

_clock = random.SystemRandom()


def anything(text: str) -> list[Call]:
  """A format in which most turns are calls, whatever a policy that knows nothing says."""
  if len(text) % 4 == 0:
    return []
  return [Call('late', text), Call('add', {'number': len(text)})]


def late(text: str) -> str:
  """Says a number of chance, after a while.

  Args:
    text: of no use.
  """
  del text
  time.sleep(0.02 * _clock.random())
  return str(random.randrange(100))


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
