"""S164, a workflow for offline RL: the mean Q of the data says when to stop, without trying the policy.

The rules are tested on series. The paper's claim, that the checkpoint which they choose is nearly the best
one, was looked for once and not found: conservative Q-learning on 360 transitions of `sparse_pointmass`,
three seeds, 1680 updates. The success of the policy jumped between 0 and 1 from checkpoint to checkpoint and
fell towards the end in one seed, while the mean Q of the data was still rising, in one seed above the largest
return that there is. So nothing is claimed here.

Source: Kumar et al., 2021, https://arxiv.org/abs/2109.10813.
"""

import functools

import numpy as np
import pytest

from rlx.evaluation import workflow


def test_smoothing_by_hand():
  np.testing.assert_allclose(workflow.smoothed([0, 3, 6, 3], window=3), [1.5, 3, 4, 4.5])
  np.testing.assert_allclose(workflow.smoothed([1, 2], window=1), [1, 2])
  np.testing.assert_allclose(workflow.smoothed([1, 2, 6], window=5), [3, 3, 3])
  for window in (0, 2):
    with pytest.raises(ValueError, match='odd'):
      workflow.smoothed([1.0], window=window)


def test_the_peak_is_kept_and_a_fall_behind_it_is_overfitting():
  rises = list(range(10))
  falls = [0, 2, 4, 6, 8, 6, 4, 2, 0, -2]
  assert workflow.best_checkpoint(rises, window=1) == 9 and workflow.best_checkpoint(falls, window=3) == 4
  assert workflow.is_overfitting(falls, window=1, drop=0.2)
  assert not workflow.is_overfitting(rises, window=1, drop=0.2)
  assert not workflow.is_overfitting([0, 4, 8, 10, 9.5, 9], window=1, drop=0.2), 'a fall of a tenth'
  assert not workflow.is_overfitting([5.0] * 4, window=1, drop=0.2)


def test_one_outlier_is_not_the_peak():
  series = [0, 1, 2, 3, 9, 5, 6, 7, 6.5, 6]
  assert workflow.best_checkpoint(series, window=1) == 4
  assert workflow.best_checkpoint(series, window=5) in (6, 7)


def test_underfitting_is_an_error_or_a_gap_that_stays():
  check = functools.partial(workflow.is_underfitting, window=1, error_max=0.3)
  values = [-10.0] * 3
  assert not check([9.0, 4.0, 1.0], [1.0, 0.0, -1.0], values), 'the root of 1 is a tenth of 10'
  assert check([9.0, 9.5, 16.0], [0.0] * 3, values)
  assert check([1.0] * 3, [4.0] * 3, values)
