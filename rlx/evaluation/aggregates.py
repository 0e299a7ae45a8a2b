"""Scores of many runs as one number, with what is known of its error.

A handful of seeds gives a mean that one lucky run decides. The interquartile mean leaves out the best and the
worst quarter; the bootstrap says how far it would move with other seeds. Scores are [runs, tasks]; a single
task is [runs, 1]. The definitions are those of rliable.

Source: Agarwal et al., 2021, Deep reinforcement learning at the edge of the statistical precipice,
https://arxiv.org/abs/2108.13264.
"""

from collections.abc import Callable

import numpy as np

Aggregate = Callable[[np.ndarray], np.ndarray]  # scores [..., runs, tasks] -> [...]


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
  """The mean of the middle half of all scores, whatever run or task they are of.

  floor(n / 4) of the n scores are left out at either end.

  Args:
    scores: [..., runs, tasks], without NaN.
  Returns:
    [...].
  Source: section 4.3 of the paper; scipy's `trim_mean(scores, 0.25)`.
  """
  scores = np.asarray(scores, np.float64)
  flat = np.sort(scores.reshape(*scores.shape[:-2], -1))
  cut = flat.shape[-1] // 4
  return flat[..., cut : flat.shape[-1] - cut].mean(-1)


def optimality_gap(scores: np.ndarray, *, target: float) -> np.ndarray:
  """How far below the target runs stay on average; what is above it counts as reaching it.

  Args:
    scores: [..., runs, tasks].
    target: the score that is good enough.
  Returns:
    [...].
  Source: section 4.3 of the paper.
  """
  return target - np.minimum(np.asarray(scores, np.float64), target).mean((-2, -1))


def probability_of_improvement(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
  """How likely a run of ours is better than a run of theirs on the same task; a tie counts as half.

  Args:
    ours: [..., runs, tasks].
    theirs: [..., other runs, tasks].
  Returns:
    [...].
  Source: section 4.3 of the paper.
  """
  ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
  if ours.shape[-1] != theirs.shape[-1]:
    raise ValueError(f'scores of {ours.shape[-1]} and of {theirs.shape[-1]} tasks: compare the same ones')
  ours, theirs = ours[..., :, None, :], theirs[..., None, :, :]
  return ((ours > theirs) + 0.5 * (ours == theirs)).mean((-3, -2, -1))


def bootstrap_interval(
    scores: np.ndarray, aggregate: Aggregate, *, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
  """Between which numbers the aggregate lies in `level` of all draws of as many runs, stratified by task.

  Args:
    scores: [runs, tasks]; the runs of each task are drawn anew, with replacement, the tasks are kept.
    aggregate: such as `interquartile_mean`, of all draws at once; the order of runs must not matter to it.
    level: of the interval; its ends are percentiles.
    draws: how many.
    seed: of the draws.
  Returns:
    The lower and the upper end.
  Raises:
    ValueError: there are fewer than 3 runs, of which no interval can be had, or the aggregate sums up all
      draws as one.
  Source: section 4.1 of the paper.
  """
  scores = np.asarray(scores, np.float64)
  num_runs, num_tasks = scores.shape
  if num_runs < 3:
    raise ValueError(f'{num_runs} runs: an interval needs at least 3')
  rows = np.random.default_rng(seed).integers(num_runs, size=(draws, num_runs, num_tasks))
  if num_tasks == 1:  # draws of the same runs in another order are one: 126 of 2,000 of five runs
    rows = np.sort(rows, axis=1)
  rows, drawn_as = np.unique(rows, axis=0, return_inverse=True)
  values = np.asarray(aggregate(np.take_along_axis(scores[None], rows, axis=1)))
  if values.shape != (len(rows),):
    raise ValueError(
        f'the aggregate gave {values.shape} of {len(rows)} draws at once: one number each is needed, as of '
        'lambda scores: scores.mean((-2, -1))'
    )
  edge = (1 - level) / 2
  low, high = np.quantile(values[drawn_as.reshape(-1)], [edge, 1 - edge])
  return float(low), float(high)
