"""What errors have in common: one line, with the value, the limit and what to do."""

from collections.abc import Iterable, Sequence
import difflib
import errno
import numbers
import os
import traceback
import typing
from typing import Any


class ConfigError(ValueError):
  """A config that cannot run: one line with the value, the limit and what to do."""


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_full(error: BaseException) -> bool:
  """Whether a write failed for want of room: a full disk, a quota, a limit on the size of files.

  Libraries that are not Python's raise errors of their own, with the words of the system in them.
  """
  if isinstance(error, OSError):
    return error.errno in _FULL
  return any(os.strerror(code) in str(error) for code in _FULL)


def at_least(low: float, **values: Any) -> None:
  """Raises `ValueError` where something is no number, infinite or smaller than `low`; arrays are let pass."""
  _check(lambda x: low <= x < float('inf'), f'at least {low}', values)


def above(low: float, **values: Any) -> None:
  """Raises `ValueError` where something is no number, infinite or not larger than `low`; as `at_least`."""
  _check(lambda x: low < x < float('inf'), f'above {low}, and finite', values)


def between(low: float, high: float, **values: Any) -> None:
  """Raises `ValueError` where something is no number in [low, high]; as `at_least`."""
  _check(lambda x: low <= x <= high, f'from {low} to {high}', values)


def _check(is_right, limit: str, values: dict[str, Any]) -> None:
  known = {name: x for name, x in values.items() if not hasattr(x, 'dtype')}  # arrays may be traced
  is_number = lambda x: isinstance(x, numbers.Real) and not isinstance(x, bool)
  wrong = {name: x for name, x in known.items() if not (is_number(x) and is_right(x))}
  if wrong:
    each = ' each' if len(wrong) > 1 else ''
    raise ValueError(f'{", ".join(f"{name}={x!r}" for name, x in wrong.items())}: {limit}{each}')


def some(items: Sequence[str], most: int = 10) -> str:
  """The first few of a list, and how many more there are."""
  return '; '.join(items[:most]) + (f'; and {len(items) - most} more' if len(items) > most else '')


def raised(error: BaseException) -> str:
  """What somebody's Python said and where, in a line: `NameError: name 'x' is not defined (a.py, line 3)`.

  The place is the last one that is not in a library.
  """
  said = f'{type(error).__name__}: {error}'.partition('\n')[0].rstrip(': ')
  frames = traceback.extract_tb(error.__traceback__)
  if isinstance(error, SyntaxError) or not frames:  # which say their place themselves
    return said
  place = ([frame for frame in frames if 'site-packages' not in frame.filename] or frames)[-1]
  return f'{said} ({place.filename}, line {place.lineno})'


def did_you_mean(word: str, known: Iterable[str], *, likeness: float = 0.6) -> str:
  """The end of an error about a word that nothing is called: the nearest that is, or an empty string.

  Args:
    word: as it was written.
    known: what there is.
    likeness: from 0 to 1; what is less like the word is not offered.
  """
  near = difflib.get_close_matches(word, list(known), n=3, cutoff=likeness)
  near.sort(key=lambda one: sorted(one) != sorted(word))  # its letters in another order: the commonest slip
  return f'; did you mean {near[0]!r}?' if near else ''


def wanted_instead(value: Any, annotation: Any) -> str:
  """What a value should be by the annotation of its parameter, in words; '' where it is that.

  Only what a config can hold is told apart: numbers, truth values, texts, and tuples of them. Of everything
  else nothing is said. A whole number is a float as well; a truth value is no number, and NaN is none either.
  """
  if annotation is float:
    is_right = isinstance(value, numbers.Real) and not isinstance(value, bool) and value == value
    return '' if is_right else 'a number'
  if annotation is int:
    return '' if isinstance(value, numbers.Integral) and not isinstance(value, bool) else 'a whole number'
  if annotation is bool:
    return '' if isinstance(value, bool) else 'True or False'
  if annotation is str:
    return '' if isinstance(value, str) else 'a text'
  if typing.get_origin(annotation) is tuple:
    if not isinstance(value, tuple | list):
      return 'a tuple'
    kind, *more = typing.get_args(annotation)
    words = next(filter(None, (wanted_instead(x, kind) for x in value)), '') if more == [...] else ''
    return f'a tuple, each of them {words}' if words else ''
  return ''
