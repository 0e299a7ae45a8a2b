"""What errors have in common: one line, with the value, the limit and what to do."""

from collections.abc import Sequence


class ConfigError(ValueError):
  """A config that cannot run: one line with the value, the limit and what to do."""


def some(items: Sequence[str], most: int = 10) -> str:
  """The first few of a list, and how many more there are."""
  return '; '.join(items[:most]) + (f'; and {len(items) - most} more' if len(items) > most else '')
