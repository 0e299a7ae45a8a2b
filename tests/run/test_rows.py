"""Rows of a batch as people read them."""

import types

import numpy as np
import pytest

from rlx.envs.worlds import tables
from rlx.run.program import Split
from rlx.run.rows import read_batch

BATCH = {
    'tokens': np.array([[1, 2, 3], [1, 4, 5]]),
    'valid': np.ones((2, 3), bool),
    'prompt_lengths': np.array([1, 1]),
    'action_mask': np.array([[False, True, True]] * 2),
    'rewards': np.array([0.5, 1.0]),
    'seats': np.array([1, 0]),
}


class Words:
  """A data set, as far as it says what tokens are."""

  def decode(self, tokens):
    return ' '.join(map(str, tokens))


@pytest.mark.parametrize(
    ('task', 'host', 'names'),
    [
        (Words(), types.SimpleNamespace(seats=('solver', 'checker')), ['checker', 'solver']),
        (tables.kuhn(), None, list(reversed(tables.kuhn().seats))),
    ],
    ids=['a table in Python', 'a world'],
)
def test_rows_say_whose_they_are(task, host, names):
  program = Split(None, None, host, num_steps=1, samples=2)
  rows = read_batch(types.SimpleNamespace(task=task), BATCH, {}, program.seats)
  assert [row['seat'] for row in rows] == names
