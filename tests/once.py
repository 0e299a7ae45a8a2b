"""What a whole file of tests reads: made by the first of them, and not by whoever imports the file."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
import functools


def once(make: Callable) -> Callable:
  """A function that makes its value when it is first called, be it in the middle of tracing a program: a
  thread of its own knows of none, nor of a mesh."""

  @functools.cache
  def value():
    with ThreadPoolExecutor(max_workers=1) as own:
      return own.submit(make).result()

  return value
