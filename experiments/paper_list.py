"""The papers that rlx is for, by id: where each of them is, and what came of what it claims.

Names and titles stand in `data/papers.tsv`, with the files of papers that no config claims; claims are found
in the sources of configs. Shared by `docs/papers.md` and `rlx list papers`; nothing that is read is imported.
"""

import csv
import dataclasses
from pathlib import Path
import re

from rlx import config
from rlx.experiments import catalogue

LIST = Path(__file__).parent / 'data/papers.tsv'
NOT_BUILT = 'not built'
_CAME = {'tests': 'tested', 'benchmarks': 'measured', 'studies': 'studied', 'rlx': 'built'}  # by folder


@dataclasses.dataclass(frozen=True)
class Place:
  """Where something of a paper is.

  Attributes:
    name: of a config, or else a path in the repository.
    came: of it: the verdict of its claim, or whether it is tested, measured, studied.
  """

  name: str
  came: str


@dataclasses.dataclass(frozen=True)
class Paper:
  """A paper of the list.

  Attributes:
    id: S001 and so on.
    name: a short one.
    title: of the paper.
    places: none of a paper that is not built.
  """

  id: str
  name: str
  title: str
  places: tuple[Place, ...]

  @property
  def called(self) -> str:
    """Its title, behind the short name where that is not how it begins."""
    begins = self.title.lower().startswith(self.name.split()[0].lower())
    return self.title if begins else f'{self.name}: {self.title}'

  @property
  def came(self) -> str:
    """What came of it at all its places, in words."""
    return '; '.join(dict.fromkeys(place.came for place in self.places)) or NOT_BUILT


def ids() -> list[str]:
  """Those of all papers, in their order."""
  return [row['id'] for row in _rows()]


def papers() -> list[Paper]:
  """All of them, by id."""
  claimed = _claimed()
  elsewhere = lambda row: tuple(Place(path, _came(path)) for path in row['elsewhere'].split())
  return [
      Paper(row['id'], row['name'], row['title'], (*claimed.get(row['id'], ()), *elsewhere(row)))
      for row in _rows()
  ]


def _rows() -> list[dict[str, str]]:
  with LIST.open(newline='', encoding='utf-8') as file:
    return list(csv.DictReader(file, delimiter='\t', quoting=csv.QUOTE_NONE))


def counted(listed: list[Paper]) -> str:
  """How many there are of which, in a sentence."""
  claimed = sum(any('show' in place.came for place in paper.places) for paper in listed)
  absent = sum(not paper.places for paper in listed)
  return (
      f'{len(listed)} papers: {claimed} have a claim that was run, {len(listed) - claimed - absent} are '
      f'tested, measured or studied alone, and of {absent} nothing is built.'
  )


def _claimed() -> dict[str, list[Place]]:
  """Id -> the configs that claim what the paper does."""
  found: dict[str, list[Place]] = {}
  for name, path in config.names().items():
    source = path.read_text()
    for ids in re.findall(r"paper='([S\d ]+)'", source):
      for one in ids.split():
        found.setdefault(one, []).append(Place(name, _verdict(source)))
  return found


def _verdict(source: str) -> str:
  return catalogue.result(source).partition('.')[0].removeprefix('it ')


def _came(path: str) -> str:
  return next(came for folder, came in _CAME.items() if folder in Path(path).parts)
