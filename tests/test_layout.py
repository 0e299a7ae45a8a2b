"""The floors of the house, read from the imports: what stands on what, without circles, in files of a size.

A package stands on those of lower floors alone; neighbours on a floor do not know of each other. Imports
inside functions count as well: there are no exceptions. What has to reach up stands on the wrong floor: move
it, or the part of it that others need.
"""

import graphlib

import pytest

from rlx.experiments import imports

FLOORS = (  # from the bottom
    {'rlx', 'types', 'errors', 'files', 'kernels'},  # rlx/__init__.py itself is empty
    {'ahead', 'names', 'lens', 'optimizers', 'processes', 'sharding', 'tracking', 'unscored', 'watchdog'},
    {'config', 'envs', 'reductions'},  # calls by name; worlds: what there is to act in and to answer
    {'models'},  # which see worlds through their shapes
    {'advantages'},  # formulas
    {'losses', 'controllers'},
    {'metrics', 'data', 'engine'},
    {'step', 'rewards'},
    {'learners', 'split', 'envs.host'},
    {'rollout'},
    {'evaluation'},  # knows models and rollouts, and not how they are trained
    {'algorithms'},
    {'run'},
    {'experiments'},
    {'testing'},  # hits what a user starts
)
MAX_LINES = 600  # of a file; an idea fits into half of that

FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names}


def package(module: str) -> str:
  """What has a floor: a package or a module of rlx."""
  top, *rest = module.split('.')
  if rest[:2] == ['envs', 'host']:  # in Python: they stand on the sandbox of rewards and its processes
    return 'envs.host'
  return rest[0] if rest else top


@pytest.fixture(scope='module')
def graph() -> dict[str, set[str]]:
  """Module -> modules that it imports."""
  return imports.graph()


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        ('import rlx.a.b', {'rlx.a.b'}),
        ('from rlx.a import b as c, f', {'rlx.a.b', 'rlx.a'}),
        ('def f():\n  from rlx.a.b import g', {'rlx.a.b'}),
        ('if x:\n  import os, rlx.a', {'rlx.a'}),
    ],
)
def test_imports_are_seen_in_every_spelling(source, expected):
  assert imports.imported(source, {'rlx.a', 'rlx.a.b'}) == expected


def test_everything_has_a_floor(graph):
  assert {package(module) for module in graph} <= FLOOR_OF.keys()


def test_modules_do_not_import_in_circles(graph):
  try:
    graphlib.TopologicalSorter(graph).prepare()
  except graphlib.CycleError as error:
    pytest.fail('a circle: ' + ' <- '.join(error.args[1]))


def test_what_is_below_does_not_know_what_is_above(graph):
  arrows = [(a, b) for a, imports in graph.items() for b in imports if package(a) != package(b)]
  upwards = sorted(f'{a} -> {b}' for a, b in arrows if FLOOR_OF[package(a)] <= FLOOR_OF[package(b)])
  assert not upwards, '\n'.join(upwards)


def test_no_file_is_longer_than_an_idea():
  ours = {name: path for name, path in imports.files().items() if name.split('.')[0] == 'rlx'}
  lines = {name: path.read_text().count('\n') for name, path in ours.items()}
  assert {name: num for name, num in lines.items() if num > MAX_LINES} == {}
