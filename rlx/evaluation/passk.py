"""What repeated samples of the same problems say: pass@k, majority@k, and how sure their mean is.

Each problem was answered `n` times. Both estimators are averages over *all* subsets of k of these samples, by
formula, so that nothing is drawn: they have no bias and less variance than k samples counted once. Both give
one number a problem; the score of a model is their mean, and `bootstrap_interval` says how far the choice of
problems may have moved it. Plain NumPy on the host.
"""

from collections.abc import Hashable, Sequence

import numpy as np

_NUM_RESAMPLES = 10_000  # from seed to seed, the ends of a 95 % interval wander by 0.6 % of its width


def pass_at_k(num_samples: np.ndarray, num_correct: np.ndarray, k: int) -> np.ndarray:
  """The probability that at least one of k samples is right, estimated from n samples of each problem.

    pass@k = 1 - C(n - c, k) / C(n, k) = 1 - Π_{j < k} (n - c - j) / (n - j)

  As a product of fractions, which neither overflows nor cancels.

  Args:
    num_samples: [P] int, n; or one number for all problems.
    num_correct: [P] int, c.
    k: how many samples may be tried, in 1..n.
  Returns:
    [P] float64; at k = 1 the share of right samples.
  Raises:
    ValueError: k or a count is out of its range.
  Source: Chen et al., 2021, https://arxiv.org/abs/2107.03374, eq. 1.
  """
  total, right = np.broadcast_arrays(num_samples, num_correct)
  if any(x.size and x.dtype.kind not in 'iu' for x in (total, right)):
    raise ValueError(
        f'num_samples is {total.dtype} and num_correct {right.dtype}; they are counts: pass integers'
    )
  if np.any((right < 0) | (right > total)):
    raise ValueError(
        f'num_correct={right[(right < 0) | (right > total)][0]} is not in 0..num_samples; count right samples'
    )
  _check_k(k, total)
  j = np.arange(k)
  wrong = (total - right).astype(np.float64)[..., None]
  return 1 - np.prod((wrong - j) / (total[..., None] - j), axis=-1)  # a factor is 0 where n - c < k


def majority_at_k(
    answers: Sequence[Sequence[Hashable | None]], correct: Sequence[Sequence[bool]], k: int
) -> np.ndarray:
  """The probability that the most frequent answer among k samples is right (self-consistency).

  It is exact: the average over all subsets of k of a problem's samples. Where several answers are the most
  frequent, each of them is chosen with the same probability. A sample without an answer votes for nothing;
  where none of the k has an answer, the vote is wrong.

  It takes about n k² log k operations a problem: milliseconds for 64 samples, about a second for 1,000.

  Args:
    answers: for each of P problems its n samples' answers, equal where they count as the same answer (so
      normalise them first); None where a sample gave none.
    correct: whether each of them is right; the same for equal answers, and False for None.
    k: how many samples vote, in 1..n.
  Returns:
    [P] float64; at k = 1 the share of right samples.
  Raises:
    ValueError: k is out of its range, or `correct` does not fit `answers`.
  Source: Wang et al., 2022, https://arxiv.org/abs/2203.11171, section 2 (the majority vote).
  """
  if len(answers) != len(correct):
    raise ValueError(f'answers of {len(answers)} problems, but correct of {len(correct)}; pass both for each')
  _check_k(k, np.array([len(samples) for samples in answers], int))
  votes = [_count(i, *problem) for i, problem in enumerate(zip(answers, correct, strict=True))]
  return np.array([_chance_to_win(*counts, k) for counts in votes], np.float64)


def bootstrap_interval(values: np.ndarray, *, level: float, seed: int) -> tuple[float, float]:
  """An interval for the mean over problems, had other problems of the same kind been asked.

  The problems are drawn anew, with replacement, 10,000 times; the interval holds the middle `level` of the
  means. It is a little narrow for few problems (by a factor of about sqrt(1 - 1/P)), and it knows nothing of
  what other *samples* of the same problems would have said beyond what `values` show.

  Args:
    values: [P] one number a problem, e.g. from `pass_at_k`.
    level: share of the means inside, e.g. 0.95.
    seed: of the resampling; the same one gives the same interval.
  Returns:
    (low, high).
  Raises:
    ValueError: fewer than two problems, a value that is not finite, or a level outside (0, 1).
  Source: Efron, 1979, https://doi.org/10.1214/aos/1176344552; percentile intervals.
  """
  values = np.asarray(values, np.float64)
  if values.ndim != 1 or len(values) < 2:
    raise ValueError(f'values of shape {values.shape} say nothing of other problems; pass [P] with P >= 2')
  if not np.isfinite(values).all():
    raise ValueError(f'{np.sum(~np.isfinite(values))} of {len(values)} values are not finite; leave them out')
  if not 0 < level < 1:
    raise ValueError(f'level={level} is not between 0 and 1; 0.95 is usual')
  rng = np.random.default_rng(seed)
  means = [values[rng.integers(len(values), size=len(values))].mean() for _ in range(_NUM_RESAMPLES)]
  low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
  return float(low), float(high)


def _check_k(k: int, num_samples: np.ndarray) -> None:
  if k < 1 or np.any(num_samples < k):
    fewest = num_samples.min() if num_samples.size else 0
    raise ValueError(f'k={k} is not in 1..{fewest}, the fewest samples of a problem; lower k or sample more')


def _count(index: int, answers, correct) -> tuple[list[int], list[int], int]:
  """How often each right answer and each wrong one was given, and how many samples gave none."""
  if len(answers) != len(correct):
    raise ValueError(f'problem {index}: {len(answers)} answers, but correct has {len(correct)} entries')
  counts, is_right = {}, {None: False}
  for answer, right in zip(answers, correct, strict=True):
    if is_right.setdefault(answer, bool(right)) != bool(right):
      raise ValueError(
          f'problem {index}: {answer!r} is both right and wrong; equal answers need the same verdict, and '
          'None is wrong'
      )
    counts[answer] = counts.get(answer, 0) + 1
  none = counts.pop(None, 0)
  right, wrong = ([n for answer, n in counts.items() if is_right[answer] == side] for side in (True, False))
  return right, wrong, none


def _chance_to_win(right: list[int], wrong: list[int], none: int, k: int) -> float:
  """Sums, over the right answers and their numbers of votes v, the chance that nobody has more, ties shared.

  Drawing k of n without replacement is drawing each with probability k / n, given that k were drawn. So
  the votes of the answers are independent and binomial, and the condition is divided out at the end; its
  probability is never small, and nothing is ever subtracted.
  """
  num_samples = sum(right) + sum(wrong) + none
  share = k / num_samples
  abstaining, everyone = _binomial(none, share), [_binomial(count, share) for count in right + wrong]
  chance = 0.0
  for i, own in enumerate(everyone[: len(right)]):
    for v in range(1, min(right[i], k) + 1):
      # [t, u]: t others have v votes as well, the rest have fewer, and all others together have u votes.
      table = np.zeros((k // v, k - v + 1))
      table[0, : none + 1] = abstaining[: k - v + 1]
      for other in everyone[:i] + everyone[i + 1 :]:
        table = _add_answer(table, other[: v + 1], v)
      chance += own[v] * np.sum(table[:, k - v] / np.arange(1, k // v + 1))
  return chance / _binomial(num_samples, share)[k]


def _add_answer(table: np.ndarray, chances: np.ndarray, v: int) -> np.ndarray:
  """The table with one answer more, which gets u <= v votes with probability `chances[u]`."""
  updated, columns = np.zeros_like(table), table.shape[1]
  for votes, chance in enumerate(chances[:columns]):
    ties = int(votes == v)
    updated[ties:, votes:] += chance * table[: len(table) - ties, : columns - votes]
  return updated


def _binomial(count: int, share: float) -> np.ndarray:
  """[count + 1] probabilities that 0, 1, .. of `count` samples are among those drawn."""
  probabilities = np.ones(1)
  for _ in range(count):
    probabilities = np.convolve(probabilities, [1 - share, share])
  return probabilities
