"""pass@k and majority@k against every subset, one by one; the bootstrap where its means can be counted."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest

from rlx.evaluation.passk import bootstrap_interval, majority_at_k, pass_at_k


def subsets(samples, k):
  """All choices of k of the samples, each once."""
  return list(itertools.combinations(samples, k))


def vote(subset):
  """The chance that the vote of these (answer, right) pairs is right: ties are shared, None does not vote."""
  counts, is_right = {}, {}
  for answer, right in subset:
    if answer is not None:
      counts[answer] = counts.get(answer, 0) + 1
      is_right[answer] = right
  winners = [answer for answer, n in counts.items() if n == max(counts.values())]
  return np.mean([is_right[answer] for answer in winners]) if winners else 0.0


def random_problems(seed, num, most_samples):
  """Answers out of a few, None among them, some of which are right; so that ties are common."""
  rng = np.random.default_rng(seed)
  for _ in range(num):
    verdicts = {'a': True, 'b': bool(rng.integers(2)), 'c': False, 'd': False, None: False}
    answers = [[*verdicts][i] for i in rng.integers(len(verdicts), size=rng.integers(1, most_samples + 1))]
    yield answers, [verdicts[answer] for answer in answers]


# --- pass@k -------------------------------------------------------------------------------------------------


def test_pass_at_k_by_hand():
  """Of 4 samples 1 is right: 2 of them hold it in 3 of the 6 pairs; with 3 right, no pair is all wrong."""
  np.testing.assert_allclose(pass_at_k(np.array([4, 4, 4]), np.array([0, 1, 3]), 2), [0, 0.5, 1])
  np.testing.assert_allclose(pass_at_k(np.array([5, 2]), np.array([2, 1]), 1), [0.4, 0.5])


def test_pass_at_k_is_the_mean_over_all_subsets():
  for n in range(1, 8):
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
      samples = [True] * c + [False] * (n - c)
      expected = np.mean([any(subset) for subset in subsets(samples, k)])
      np.testing.assert_allclose(pass_at_k(n, c, k), expected, atol=1e-14, err_msg=f'n={n} c={c} k={k}')


def test_pass_at_k_is_exact_for_many_samples():
  """C(10000, 3000) has 2,650 digits; whole numbers of Python are the oracle."""
  for n, c, k in ((10_000, 3, 3_000), (10_000, 1, 1), (10_000, 9_000, 5), (200, 1, 100), (1_024, 700, 400)):
    expected = 1 - math.comb(n - c, k) / math.comb(n, k) if c < n else 1.0
    np.testing.assert_allclose(pass_at_k(n, c, k), expected, rtol=1e-12)


def test_pass_at_k_takes_one_number_for_all_problems_and_none_at_all():
  np.testing.assert_allclose(pass_at_k(4, np.array([0, 1, 4]), 4), [0, 1, 1])
  assert pass_at_k(np.array([]), np.array([]), 3).shape == (0,)


@pytest.mark.parametrize(
    ('num_samples', 'num_correct', 'k', 'message'),
    [
        ([4, 3], [1, 1], 4, r'k=4 is not in 1\.\.3'),
        ([4], [1], 0, r'k=0 is not in 1\.\.4'),
        ([4, 4], [1, 5], 2, r'num_correct=5 is not in 0\.\.num_samples'),
        ([4], [-1], 2, r'num_correct=-1'),
        ([4], [0.5], 2, 'counts'),
    ],
    ids=str,
)
def test_pass_at_k_rejects(num_samples, num_correct, k, message):
  with pytest.raises(ValueError, match=message):
    pass_at_k(np.array(num_samples), np.array(num_correct), k)


# --- majority@k ---------------------------------------------------------------------------------------------


def test_majority_by_hand():
  """With k = n nothing is drawn: the vote is won, lost, shared by two, shared by three, or nobody votes."""
  answers = [['7', '7', '8'], ['7', '8', '8'], ['7', '8', None], ['7', '8', '9'], [None, None, None]]
  correct = [[answer == '7' for answer in samples] for samples in answers]
  np.testing.assert_allclose(majority_at_k(answers, correct, 3), [1, 0, 1 / 2, 1 / 3, 0])


def test_majority_over_pairs_by_hand():
  """a a b with a right: the pairs are aa (won) and twice ab (shared)."""
  np.testing.assert_allclose(majority_at_k([['a', 'a', 'b']], [[True, True, False]], 2), [(1 + 2 / 2) / 3])


def test_majority_is_the_mean_over_all_subsets():
  for answers, correct in random_problems(seed=0, num=40, most_samples=7):
    for k in range(1, len(answers) + 1):
      expected = np.mean([vote(subset) for subset in subsets(list(zip(answers, correct, strict=True)), k)])
      found = majority_at_k([answers], [correct], k)
      np.testing.assert_allclose(found, [expected], atol=1e-13, err_msg=f'{answers} {correct} k={k}')


def test_majority_of_one_is_the_share_of_right_samples():
  problems = list(random_problems(seed=1, num=10, most_samples=40))
  shares = [np.mean(correct) for _, correct in problems]
  np.testing.assert_allclose(majority_at_k(*zip(*problems, strict=True), 1), shares, atol=1e-13)


def test_majority_of_many_samples_agrees_with_drawing_them():
  """200 samples, of which the right answer has 80 and two wrong ones 60: exact against 4,000 draws of 25."""
  answers = ['right'] * 80 + ['wrong'] * 60 + ['other'] * 60
  correct = [answer == 'right' for answer in answers]
  rng = np.random.default_rng(0)
  draws = [rng.choice(200, 25, replace=False) for _ in range(4_000)]
  drawn = np.array([vote([(answers[i], correct[i]) for i in draw]) for draw in draws])
  (exact,) = majority_at_k([answers], [correct], 25)
  assert 0.5 < exact < 0.9
  assert abs(drawn.mean() - exact) < 4 * drawn.std() / len(drawn) ** 0.5


def test_majority_of_the_samples_themselves_is_exact_however_many():
  answers = ['right'] * 400 + ['wrong'] * 399 + [None] * 401
  correct = [answer == 'right' for answer in answers]
  np.testing.assert_allclose(majority_at_k([answers], [correct], 1_200), [1.0])


@pytest.mark.parametrize(
    ('answers', 'correct', 'k', 'message'),
    [
        ([['a']], [[True]], 2, r'k=2 is not in 1\.\.1'),
        ([['a'], []], [[True], []], 1, r'k=1 is not in 1\.\.0'),
        ([['a']], [], 1, 'answers of 1 problems, but correct of 0'),
        ([['a', 'b']], [[True]], 1, 'problem 0: 2 answers, but correct has 1'),
        ([['b'], ['a', 'a']], [[True], [True, False]], 1, "problem 1: 'a' is both right and wrong"),
        ([[None]], [[True]], 1, 'problem 0: None is both'),
    ],
    ids=str,
)
def test_majority_rejects(answers, correct, k, message):
  with pytest.raises(ValueError, match=message):
    majority_at_k(answers, correct, k)


# --- intervals ----------------------------------------------------------------------------------------------


def test_interval_of_two_values_by_hand():
  """Means of (0, 1) drawn anew are 0, 1/2, 1 with chances 1/4, 1/2, 1/4."""
  values = np.array([0.0, 1.0])
  assert bootstrap_interval(values, level=0.4, seed=0) == (0.5, 0.5)
  assert bootstrap_interval(values, level=0.8, seed=0) == (0.0, 1.0)


def test_interval_follows_the_central_limit():
  """For 400 problems the means are nearly normal: mean ± 1.96 std / sqrt(400)."""
  values = np.random.default_rng(0).random(400)
  low, high = bootstrap_interval(values, level=0.95, seed=1)
  half = 1.96 * values.std() / 20
  np.testing.assert_allclose([low, high], [values.mean() - half, values.mean() + half], atol=0.06 * half)
  assert (low, high) == bootstrap_interval(values, level=0.95, seed=1)
  assert (low, high) != bootstrap_interval(values, level=0.95, seed=2)


def test_interval_of_equal_values_has_no_width():
  assert bootstrap_interval(np.full(5, 0.25), level=0.9, seed=0) == (0.25, 0.25)


@pytest.mark.parametrize(
    ('values', 'level', 'message'),
    [
        ([0.5], 0.9, 'P >= 2'),
        ([[0.5, 1.0]], 0.9, r'shape \(1, 2\)'),
        ([0.5, np.nan], 0.9, '1 of 2 values are not finite'),
        ([0.5, 1.0], 95, 'level=95 is not between 0 and 1'),
    ],
    ids=str,
)
def test_interval_rejects(values, level, message):
  with pytest.raises(ValueError, match=message):
    bootstrap_interval(np.array(values), level=level, seed=0)


def test_needs_no_jax():
  code = "import sys, rlx.evaluation.passk; assert 'jax' not in sys.modules"
  subprocess.run([sys.executable, '-c', code], check=True)
