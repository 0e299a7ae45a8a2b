"""What the commands of `rlx` have in common: exit codes, errors in one line, completion in the shell."""

import argparse
from collections.abc import Callable, Sequence
import os
import sys

from rlx.errors import did_you_mean

EXIT_DONE, EXIT_DO_NOT_RETRY, EXIT_REQUEUE = 0, 2, 75
EXIT_NOBODY_READS = 128 + 13  # what a shell says of a program that wrote to a closed pipe


class CommandError(ValueError):
  """A command that cannot run: one line with the value, the limit and what to do."""


class Parser(argparse.ArgumentParser):
  """A parser that says in one line what is wrong, and offers the nearest option.

  An option that it does not know is told before one that is missing: it is often the same one.
  """

  def __init__(self, *args, free: tuple[str, ...] = (), **options):
    """As `ArgumentParser`; options that begin with one of `free` are not its to know: NAME=VALUE."""
    super().__init__(*args, allow_abbrev=False, **options)
    self._free = free

  def add_argument(self, *names, choices: Sequence[str] | None = None, **options):
    """As there; what is none of the `choices` is told with the nearest."""
    if choices is None:
      return super().add_argument(*names, **options)
    shown = f'{{{",".join(choices)}}}'
    action = super().add_argument(*names, **{'metavar': shown, **options, 'type': _one_of(choices)})
    action.completer = lambda **_: choices
    return action

  def parse_known_args(self, args=None, namespace=None):
    words = sys.argv[1:] if args is None else list(args)
    for word in words[:words.index('--')] if '--' in words else words:
      self._check(word)
    # Their values may have spaces, which argparse takes for a sign that a word is no option.
    free = [word for word in words if word.startswith(self._free)] if self._free else []
    found, rest = super().parse_known_args([word for word in words if word not in free], namespace)
    return found, [*rest, *free]

  def parse_args(self, args=None, namespace=None):
    self.complete()
    return super().parse_args(args, namespace)

  def complete(self) -> None:
    """Where the shell asks what could follow, answers and ends the program; needs `rlx[completion]`."""
    if '_ARGCOMPLETE' in os.environ:
      import argcomplete

      argcomplete.autocomplete(self, always_complete_options='long')

  def error(self, message: str):
    raise CommandError(f'{message}; see {self.prog} --help')

  def _check(self, word: str) -> None:
    known = [option for action in self._actions for option in action.option_strings]
    option, equals, _ = word.partition('=')
    if option.startswith(self._free):
      if not equals:
        raise CommandError(f'{word!r} is not understood; it is written {option}=VALUE')
    elif option.startswith('--') and option not in known:
      hint = did_you_mean(option, known) or f'; see {self.prog} --help'
      raise CommandError(f'{word!r} is not understood{hint}')


def _one_of(choices: Sequence[str]) -> Callable[[str], str]:
  """A type of arguments: a word that is one of some."""

  def check(word: str) -> str:
    if word not in choices:
      hint = did_you_mean(word, choices)
      raise argparse.ArgumentTypeError(f'{word!r} is none of {", ".join(choices)}{hint}')
    return word

  return check


def positive(word: str) -> int:
  """A type of arguments: a whole number of at least 1."""
  if not (word.isdecimal() and int(word)):
    raise argparse.ArgumentTypeError(f'{word!r} is no whole number of at least 1')
  return int(word)


def seed(word: str) -> int:
  """A type of arguments: a whole number of 32 bits, of which keys are made."""
  if not (word.isdecimal() and int(word) < 2**32):
    raise argparse.ArgumentTypeError(f'{word!r} is no whole number from 0 to {2**32 - 1}')
  return int(word)


def natural(word: str) -> int:
  """A type of arguments: a whole number of at least 0."""
  if not word.isdecimal():
    raise argparse.ArgumentTypeError(f'{word!r} is no whole number of at least 0')
  return int(word)
