"""The face of the package: every name is there, and `import rlx` imports nothing heavy."""

import subprocess
import sys

import pytest

import rlx


@pytest.mark.parametrize('name', rlx.__all__)
def test_every_name_is_there(name):
  assert getattr(rlx, name).__name__ == name and name in dir(rlx)


def test_an_unknown_name_says_what_there_is():
  with pytest.raises(AttributeError, match="no attribute 'trian'; it has Algorithm"):
    rlx.trian  # noqa: B018


def test_importing_it_is_free():
  program = "import sys, rlx; sys.exit('jax' in sys.modules)"
  assert subprocess.run([sys.executable, '-c', program], check=False).returncode == 0
