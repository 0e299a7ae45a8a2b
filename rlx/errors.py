"""What errors have in common: one line, with the value, the limit and what to do."""

from collections.abc import Iterable, Sequence
import difflib


class ConfigError(ValueError):
  """A config that cannot run: one line with the value, the limit and what to do."""


def some(items: Sequence[str], most: int = 10) -> str:
  """The first few of a list, and how many more there are."""
  return '; '.join(items[:most]) + (f'; and {len(items) - most} more' if len(items) > most else '')


def did_you_mean(word: str, known: Iterable[str], *, likeness: float = 0.6) -> str:
  """The end of an error about a word that nothing is called: the nearest that is, or an empty string.

  Args:
    word: as it was written.
    known: what there is.
    likeness: from 0 to 1; what is less like the word is not offered.
  """
  nearest = difflib.get_close_matches(word, list(known), n=1, cutoff=likeness)
  return f'; did you mean {nearest[0]!r}?' if nearest else ''
