"""Every test sees eight devices, and an array never gains an axis without being told to."""

import functools
import gc
import itertools
import os
from pathlib import Path
import tempfile

# Most of the time of these tests would be LLVM optimising programs that run once.
os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')
os.environ.setdefault('JAX_TRACEBACK_IN_LOCATIONS_LIMIT', '0')  # of each operation; nobody reads them here

# What one test compiled is read by the next one, in every process of this session: they inherit the folder.
if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
  _COMPILED = tempfile.TemporaryDirectory(prefix='rlx-compiled-')
  os.environ['JAX_COMPILATION_CACHE_DIR'] = _COMPILED.name
  os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0'  # small ones come again and again

import jax
from jax._src.interpreters import mlir
import pytest

from rlx.run import curves

jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')

# jax makes a context of MLIR for each program, and keeps it: a fifth of the time and two thirds of the memory
# of the small programs that tests compile by the thousand. A jax that has another name for it goes without.
if hasattr(mlir, 'make_ir_context'):
  mlir.make_ir_context = functools.cache(mlir.make_ir_context)

COLLECTED = 20_000, 20, 20  # Python's own are 700, 10, 10
MANY_MAPPINGS, LOOKED_AT = 40_000, 16  # of memory; tests between two looks at how many there are
_ENDED = itertools.count(1)


def pytest_runtest_teardown():
  """A compiled program takes a few mappings of memory. A process that compiles thousands and frees none is
  aborted when it has no more of them: Linux gives it 65,530, and a file of slow tests takes more."""
  mappings = Path('/proc/self/maps')
  look = next(_ENDED) % LOOKED_AT == 0 and mappings.exists()
  if look and mappings.read_text().count('\n') > MANY_MAPPINGS:
    jax.clear_caches()


DRAW = {name: getattr(curves, name) for name in ('write_panels', 'write_curve')}


@pytest.fixture(autouse=True, scope='session')
def _no_figures():
  """They are half of what the smallest run costs."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(curves, 'write_panels', lambda rows, headline: [])
    patch.setattr(curves, 'write_curve', lambda workdir, **_: _empty(Path(workdir) / 'curve.png'))
    yield


@pytest.fixture(autouse=True)
def _figures_where_they_are_looked_at(request, monkeypatch):
  for name, draw in DRAW.items() if request.node.get_closest_marker('figures') else ():
    monkeypatch.setattr(curves, name, draw)


def _empty(path: Path) -> Path:
  path.write_bytes(b'')
  return path


# Files that compile for minutes: begun first, so that no process is left with one of them alone.
HEAVIEST = (
    'test_conformance', 'test_launch', 'test_sample', 'test_wrong_inputs', 'test_seat_episodes',
    'test_sandbox', 'test_turns', 'test_pool', 'test_transformer', 'test_policy_gradient', 'test_configs',
)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
  """Of two processes that import all files, one begins with the last: what they compile there, either one
  compiles half of, and reads the rest."""
  report = yield
  if isinstance(collector, pytest.Dir) and os.environ.get('PYTEST_XDIST_WORKER') == 'gw1':
    report.result.reverse()
  return report


def pytest_collection_finish():
  """What has been imported stays: nobody needs to look through it for garbage again and again, nor so often
  through what compiling leaves behind."""
  gc.collect()
  gc.freeze()
  gc.set_threshold(*COLLECTED)


def pytest_collection_modifyitems(items):
  """The heaviest files first, then by name, however they were imported; within a file the order stays."""
  rank = {name: index for index, name in enumerate(HEAVIEST)}
  items.sort(key=lambda item: (rank.get(item.path.stem, len(HEAVIEST)), item.path))
