"""`rlx list [KIND] [WORD]`: algorithms, configs, parts that configs can name, and papers."""

import ast
import dataclasses

from rlx import config
from rlx.experiments import catalogue, paper_list
from rlx.experiments.commands import EXIT_DONE, CommandError, Parser

SECTIONS = {
    'tasks': 'task', 'environments': 'env', 'models': 'models', 'rollouts': 'rollout', 'rewards': 'reward',
    'data': 'data', 'evaluations': 'evals', 'optimizers': 'optimizer', 'stops': 'stop',
    'trackers': 'writers',
}
KINDS = ('algorithms', 'configs', 'papers', *SECTIONS, 'reward-functions', *catalogue.FORMULAS)


@dataclasses.dataclass(frozen=True)
class Entry:
  """One thing that there is.

  Attributes:
    name: as a config says it, or `--config`.
    what: in a line.
    urls: of its papers.
  """

  name: str
  what: str
  urls: tuple[str, ...]

  def has(self, word: str) -> bool:
    """Whether a word is anywhere in it, in capitals or not."""
    return word.lower() in ' '.join((self.name, self.what, *self.urls)).lower()

  def line(self) -> str:
    """As it is printed."""
    return '  '.join(filter(None, (f'  {self.name:<32}', self.what, ' '.join(self.urls))))


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  arguments = _parser().parse_args(argv)
  if arguments.kind is None:
    print('\n'.join(f'{len(entries(kind)):>6} {kind}' for kind in KINDS))
    return EXIT_DONE
  found = [entry for entry in entries(arguments.kind) if entry.has(arguments.word)]
  if not found:
    none = f'rlx list {arguments.kind}: none of them has {arguments.word!r} in its line'
    raise CommandError(none + _elsewhere(arguments.word))
  print('\n'.join(entry.line() for entry in found))
  return EXIT_DONE


def _elsewhere(word: str) -> str:
  """Which other kinds have a word, and in how many lines."""
  counts = {kind: sum(entry.has(word) for entry in entries(kind)) for kind in KINDS}
  return ''.join(f'; {kind} has {count}' for kind, count in counts.items() if count)


def entries(kind: str) -> list[Entry]:
  """All that there are of a kind, in the order of the sources."""
  if kind == 'algorithms':
    return _algorithms()
  if kind == 'configs':
    return [_of(name, catalogue.docstring(path)) for name, path in config.names().items()]
  if kind == 'papers':
    return [_of_paper(paper) for paper in paper_list.papers()]
  if kind in catalogue.FORMULAS:
    return [_of(name, ast.get_docstring(node)) for name, node in catalogue.choices(kind).items()]
  nodes = catalogue.reward_functions() if kind == 'reward-functions' else catalogue.functions(SECTIONS[kind])
  return [_of(catalogue.short(name), ast.get_docstring(node)) for name, node in nodes.items()]


def _algorithms() -> list[Entry]:
  """Those with a file each, choices among parts, and those of control; of namesakes with their folder."""
  language, control = catalogue.algorithms(), catalogue.control()
  common = {path.stem for path in language} & {path.stem for path in control}
  of_control = lambda path: f'control.{path.stem}' if path.stem in common else path.stem
  return [
      *(_of(path.stem, docstring) for path, docstring in language.items()),
      *(_of(node.name, ast.get_docstring(node)) for node in catalogue.presets()),
      *(_of(of_control(path), docstring) for path, docstring in control.items()),
  ]


def _of_paper(paper: paper_list.Paper) -> Entry:
  places = '; '.join(f'{place.name} ({place.came})' for place in paper.places)
  return Entry(f'{paper.id} {paper.name}', f'{paper.title}: {places or paper_list.NOT_BUILT}', ())


def _of(name: str, docstring: str) -> Entry:
  return Entry(name, catalogue.paragraph(docstring), tuple(catalogue.urls(docstring)))


def _parser() -> Parser:
  parser = Parser(
      prog='rlx list', description='What there is, a line each. Without a kind: how many of which.',
      epilog='rlx show NAME says more about one of them.',
  )
  parser.add_argument('kind', nargs='?', choices=KINDS, metavar='KIND', help=', '.join(KINDS))
  parser.add_argument('word', nargs='?', default='', metavar='WORD', help='only lines with this word')
  return parser
