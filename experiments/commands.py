"""What the commands of `rlx` have in common: exit codes, errors in one line, completion in the shell."""

import argparse
import os
import sys

from rlx.errors import did_you_mean

EXIT_DONE, EXIT_DO_NOT_RETRY, EXIT_REQUEUE = 0, 2, 75


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

  def parse_known_args(self, args=None, namespace=None):
    words = sys.argv[1:] if args is None else list(args)
    for word in words[:words.index('--')] if '--' in words else words:
      self._check(word)
    return super().parse_known_args(words, namespace)

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

  def _check_value(self, action, value) -> None:
    """Called by argparse with each value of an argument that has choices."""
    if action.choices is not None and value not in action.choices:
      hint = did_you_mean(str(value), map(str, action.choices))
      said = action.option_strings[0] if action.option_strings else action.metavar
      raise CommandError(f'{said} is one of {", ".join(map(str, action.choices))}, not {value!r}{hint}')

  def _check(self, word: str) -> None:
    known = [option for action in self._actions for option in action.option_strings]
    option, equals, _ = word.partition('=')
    if option.startswith(self._free):
      if not equals:
        raise CommandError(f'{word!r} is not understood; it is written {option}=VALUE')
    elif option.startswith('--') and option not in known:
      hint = did_you_mean(option, known) or f'; see {self.prog} --help'
      raise CommandError(f'{word!r} is not understood{hint}')
