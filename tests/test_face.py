"""The face of the package: every name is there, and `import rlx` imports nothing heavy."""

import subprocess
import sys

import pytest

import rlx
from rlx.experiments import launch


@pytest.mark.parametrize('name', rlx.__all__)
def test_every_name_is_there(name):
  assert getattr(rlx, name).__name__ == name and name in dir(rlx)


def test_an_unknown_name_says_what_there_is():
  with pytest.raises(AttributeError, match="no attribute 'trian'; it has Algorithm"):
    rlx.trian  # noqa: B018


def test_importing_it_is_free():
  program = "import sys, rlx; sys.exit('jax' in sys.modules)"
  assert subprocess.run([sys.executable, '-c', program], check=False).returncode == 0


@pytest.mark.parametrize(('solution', 'correct', 'said'), [
    ('12', False, '3+9=11 (it is 12)'), ('12', True, '3+9=11 (right)'), ('', False, '3+9=11 (wrong)'),
])
def test_a_transcript_is_a_line(solution, correct, said):
  """Data may have an answer, which a reward function knows what to do with, and no solution."""
  row = {'prompt': '3+9=', 'completion': '11', 'solution': solution, 'correct': correct}
  assert launch._transcript(row) == said
