"""Which of our modules import which, read from the sources; and which claims a changed file is part of."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
import subprocess

from rlx import config as configs
from rlx.experiments import claims
from rlx.experiments.claims import Claim
from rlx.experiments.commands import CommandError
from rlx.names import definitions

ROOT = Path(__file__).parents[1]
PACKAGES = {'rlx': 'rlx', 'kernels': 'rlx.kernels', 'experiments': 'rlx.experiments'}  # of setup.cfg
BASE = ('rlx.run.train',)  # what every run stands on

Graph = Mapping[str, set[str]]


def files() -> dict[str, Path]:
  """Module -> file, of all that is ours and no test."""
  found = {}
  for top, package in PACKAGES.items():
    for path in sorted((ROOT / top).rglob('*.py')):
      parts = path.relative_to(ROOT / top).with_suffix('').parts
      found['.'.join([package, *(part for part in parts if part != '__init__')])] = path
  return found


def imported(source: str, known: Iterable[str]) -> set[str]:
  """The known modules that a source imports, wherever in it."""
  names = set()
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Import):
      names |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      members = {f'{node.module}.{alias.name}' for alias in node.names}
      names |= {member if member in known else node.module for member in members}
  return names & set(known)


def graph() -> dict[str, set[str]]:
  """Module -> modules that it imports."""
  known = files()
  return {module: imported(path.read_text(), known) - {module} for module, path in known.items()}


def reached(arrows: Graph, begin: Iterable[str]) -> set[str]:
  """All modules that these stand on, with themselves."""
  found, left = set(), [*begin]
  while left:
    module = left.pop()
    if module not in found:
      found.add(module)
      left += arrows[module]
  return found


def read_by(name: str, claim: Claim, arrows: Graph) -> set[str]:
  """The modules that the runs of a claim read: those of its configs, of the functions that these name, and
  whatever they import. A name that several modules have counts for all of them."""
  known = {path: config for config, path in configs.names().items()}
  begin = set(BASE)
  for arm in claim.arms:
    path = configs.find(claims.path_of(name, claim, arm).partition(':')[0])
    begin.add(f'{configs.PACKAGE}.{known[path].replace("/", ".")}')
    values = configs.flat(claims.config_of(name, claim, arm))
    names = {x.rpartition('.')[2] for key, x in values if key.rpartition('.')[2] == 'name'}
    begin |= {module for x in names for module in definitions('rlx').get(x.partition(':')[0], ())}
  return reached(arrows, begin & arrows.keys())


def touched(known: Mapping[str, Claim], changed: Iterable[Path]) -> list[str]:
  """The claims whose runs read one of these files."""
  asked, arrows = modules_of(changed), graph()
  return [name for name, claim in known.items() if read_by(name, claim, arrows) & asked]


def modules_of(paths: Iterable[Path]) -> set[str]:
  """Those of ours among some files."""
  modules = {path: module for module, path in files().items()}
  return {modules[path] for path in paths if path in modules}


def changed_files(commit: str) -> list[Path]:
  """What differs from a commit in this checkout, with files that git does not know yet.

  Raises:
    CommandError: there is no such commit, or no checkout.
  """
  ask = lambda *words: subprocess.run(
      ['git', '-C', str(ROOT), *words], capture_output=True, text=True, check=True
  ).stdout.splitlines()
  try:
    names = [*ask('diff', '--name-only', commit), *ask('ls-files', '--others', '--exclude-standard')]
  except (OSError, subprocess.CalledProcessError) as error:
    said = (getattr(error, 'stderr', '') or str(error)).strip().splitlines()[0]
    raise CommandError(f'--changed={commit}: {said}') from error
  return [ROOT / name for name in names]
