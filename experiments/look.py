"""What the commands that look at a run share: which run, which checkpoint, and what is changed for that."""

import argparse
from collections.abc import Sequence

from rlx.experiments.commands import CommandError, Parser, natural


def add_run_options(parser: Parser) -> None:
  """Which run, and when."""
  parser.add_argument('--workdir', required=True, metavar='DIR', help='of the run, at work or finished')
  parser.add_argument('--step', type=natural, metavar='N', help='of the checkpoint; by default the newest')


def parse(parser: Parser, argv: Sequence[str]) -> tuple[argparse.Namespace, list[tuple[str, str]]]:
  """The arguments of a command, and `(path, text)` of every `--config.path=text`; `free` of its parser."""
  parser.complete()
  arguments, rest = parser.parse_known_args(argv)
  return arguments, overrides(rest)


def overrides(words: Sequence[str]) -> list[tuple[str, str]]:
  """`(path, text)` of every `--config.path=text`.

  Raises:
    CommandError: a word is something else.
  """
  for word in words:
    if not word.startswith('--config.'):
      raise CommandError(f'{word!r} is not understood; see --help')
  parts = [word.removeprefix('--config.').partition('=') for word in words]
  return [(path, text) for path, _, text in parts]
