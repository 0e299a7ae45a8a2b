"""Every test sees eight devices, and an array never gains an axis without being told to."""

import os
from pathlib import Path

# Most of the time of these tests would be LLVM optimising programs that run once.
os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')

import jax
import pytest

jax.config.update('jax_num_cpu_devices', 8)
jax.config.update('jax_numpy_rank_promotion', 'raise')

MANY_MAPPINGS = 40_000  # of memory; Linux gives a process 65,530, and no file here takes 20,000


@pytest.fixture(autouse=True, scope='module')
def _few_compiled_programs():
  """A compiled program takes a few mappings of memory. A process that compiles thousands and frees none is
  aborted when it has no more of them."""
  yield
  mappings = Path('/proc/self/maps')
  if mappings.exists() and mappings.read_text().count('\n') > MANY_MAPPINGS:
    jax.clear_caches()
