"""What the benchmark of tools calls, in a module that its processes import: no JAX."""

import time

CALL_SECONDS = 0.05


def nothing(text: str) -> str:
  """Says a word at once.

  Args:
    text: of no use.
  """
  del text
  return 'ok'


def slow(text: str) -> str:
  """Says a word after a while.

  Args:
    text: of no use.
  """
  time.sleep(CALL_SECONDS)
  return nothing(text)
