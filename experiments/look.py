"""What the commands that look at a run share: which run, which checkpoint, and what is changed for that."""

import argparse
from collections.abc import Sequence

from rlx.experiments.launch import CommandError


def add_run_options(parser: argparse.ArgumentParser) -> None:
  """Which run, and when."""
  parser.add_argument('--workdir', required=True, metavar='DIR', help='of the run, at work or finished')
  parser.add_argument('--step', type=int, metavar='N', help='of the checkpoint; by default the newest')


def parse(
    parser: argparse.ArgumentParser, argv: Sequence[str]
) -> tuple[argparse.Namespace, list[tuple[str, str]]]:
  """The arguments of a command, and `(path, text)` of every `--config.path=text`."""
  arguments, rest = parser.parse_known_args(argv)
  overrides = []
  for argument in rest:
    name, equals, text = argument.partition('=')
    if not name.startswith('--config.') or not equals:
      raise CommandError(f'{argument!r} is not understood; {parser.prog} --help names the options')
    overrides.append((name.removeprefix('--config.'), text))
  return arguments, overrides
