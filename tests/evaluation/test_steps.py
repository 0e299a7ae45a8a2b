"""What is said of a process head on held-out solutions with labels."""

import numpy as np
import pytest

from rlx.evaluation import steps

ENDS = np.array([[0, 1, 0, 1, 1], [0, 1, 1, 0, 0], [0, 0, 1, 0, 1], [1, 0, 0, 0, 1]], bool)
LABELS = np.array([[0, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 0, 1], [1, 0, 0, 0, 0]], np.float32)


def odds(*of_steps):
  """[4, 5] with these numbers where steps end, and one that nobody may look at elsewhere."""
  out = np.full(ENDS.shape, -50.0)
  out[ENDS] = of_steps
  return out


def test_the_first_wrong_step_counts():
  """Rows 0 and 3 have a wrong step: it is found in row 0, whose later step is of no account, and in row 3 a
  step before it is called wrong. Of the two rows without one, a step of row 2 is called wrong."""
  said = odds(2, -1, 3, 1, 1, 1, -1, -2, -1)
  metrics, found = steps.described(said, ENDS, LABELS)
  np.testing.assert_array_equal(found, [True, True, False, False])
  assert metrics['first_wrong'] == metrics['all_right'] == metrics['f1'] == 0.5
  assert metrics['accuracy'] == pytest.approx(6 / 9)
  right = [2, 1, 1, 1, -1, -2]
  pairs = [(x > y) + (x == y) / 2 for x in right for y in (-1, 3, -1)]
  assert metrics['auc'] == pytest.approx(np.mean(pairs))


def test_the_loss_is_the_one_that_is_trained():
  metrics, _ = steps.described(odds(*[0.0] * 9), ENDS, LABELS)
  assert metrics['loss'] == pytest.approx(np.log(2)) and metrics['auc'] == 0.5
  sure = steps.described(np.where(LABELS > 0.5, 9.0, -9.0), ENDS, LABELS)[0]
  assert sure['f1'] == sure['auc'] == sure['accuracy'] == 1 and sure['loss'] < 1e-3


def test_rows_of_one_kind_have_no_f1():
  metrics, _ = steps.described(odds(*[5.0] * 9), ENDS, ENDS.astype(np.float32))
  assert metrics['all_right'] == 1 and metrics['first_wrong'] == metrics['f1'] == 0
