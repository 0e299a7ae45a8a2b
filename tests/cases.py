"""Which cases of a test run at once: the ones that differ most; the others are left to `make test-slow`."""

from collections.abc import Container, Iterable

import pytest


def cases(values: Iterable, *, at_once: Container) -> list:
  """Values, or tuples of them for several names, as parameters; those that are not in `at_once` are slow."""
  several = lambda value: value if isinstance(value, tuple) else (value,)
  mark = lambda value: () if value in at_once else pytest.mark.slow
  return [pytest.param(*several(value), marks=mark(value)) for value in values]
