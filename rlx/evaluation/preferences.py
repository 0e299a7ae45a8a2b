"""How well models tell the better of two held-out answers: policies by log-ratios, judges by rewards."""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine.speaker import Judge, Speaker
from rlx.errors import at_least
from rlx.evaluation.evaluation import Evaluation
from rlx.evaluation.text import as_transcripts
from rlx.losses import comparisons
from rlx.models.score_table import StoredScores
from rlx.types import Models, World

_BINS = 10  # of calibration


def implicit(
    task: Dataset, policy: Speaker, reference: Speaker | StoredScores, transcripts: int, *, pairs: int
) -> Evaluation:
  """What the policy's log-ratios over the reference say of held-out comparisons.

  The metrics are `accuracy`, the share in which the better answer has the larger log-ratio
  (equal ones count half); `margin`, its
  mean lead in nats; `chosen` and `rejected`, the mean log-ratios; `nll` of the better answers, a token; and
  `likelier`, the share in which the policy alone says the better answer more likely.

  Args:
    task: whose held-out rows are pairs.
    policy: what is examined.
    reference: what it began as.
    transcripts: how many greedy completions are handed back to be read, one at least.
    pairs: how many comparisons are scored.
  Raises:
    ValueError: there are fewer, or the rows are no pairs.
  """
  rows, shown = _held_out(task, pairs), task.held_out(max(1, min(transcripts, pairs)))

  def ask(models: Models, world: World):
    del world
    batch = jax.tree.map(jnp.asarray, rows)
    logprobs, of_reference = (
        model.score(models[name], batch)[0] for name, model in (('policy', policy), ('reference', reference))
    )
    found = comparisons.known(
        batch, logprobs, of_reference, level=comparisons.summed, divergence=comparisons.reverse_kl
    )
    answers = policy.mode(models['policy'], shown['prompts'], shown['prompt_lengths'])
    return found, engine.completions_of(answers, policy.decoding), answers['action_mask'].sum(axis=1)

  def read(answer):
    found, completions, counts = answer
    right = found['chosen'] > found['rejected']
    metrics = {
        'accuracy': np.mean(comparisons.right(found['chosen'], found['rejected'])),
        'margin': (found['chosen'] - found['rejected']).mean(),
        'chosen': found['chosen'].mean(),
        'rejected': found['rejected'].mean(),
        'nll': -found['chosen_logprobs'].sum() / found['chosen_lengths'].sum(),
        'likelier': (found['chosen_logprobs'] > found['rejected_logprobs']).mean(),
    }
    texts = [task.decode(row[:count]) for row, count in zip(completions, counts, strict=True)]
    return {name: float(x) for name, x in metrics.items()}, as_transcripts(task, shown, texts, right)

  return Evaluation(ask=ask, read=read)


def judged(task: Dataset, judge: Judge, transcripts: int, *, pairs: int) -> Evaluation:
  """What a reward model says of held-out comparisons.

  The metrics are `accuracy`; `margin`, the mean lead of the better answer; `calibration_error`, how far the
  chance σ(margin) is from how often that is right; `mean`, of all rewards; and `shorter`, the accuracy of
  taking the shorter answer, which is to be beaten.

  Args:
    task: whose held-out rows are pairs.
    judge: what is examined.
    transcripts: how many comparisons are handed back to be read.
    pairs: how many are scored.
  Raises:
    ValueError: there are fewer, or the rows are no pairs.
  """
  rows = _held_out(task, pairs)
  lengths = rows['action_mask'].sum(axis=1)

  def ask(models: Models, world: World):
    del world
    return judge.apply(models['judge'], jax.tree.map(jnp.asarray, rows))

  def read(rewards):
    metrics, right = described(rewards, lengths), rewards[0::2] > rewards[1::2]
    shown = task.held_out(min(transcripts, pairs))
    text = lambda row: task.decode(rows['tokens'][row][rows['action_mask'][row]])
    texts = [f'{text(2 * i)} [{rewards[2 * i]:.2f} : {rewards[2 * i + 1]:.2f}] {text(2 * i + 1)}'
             for i in range(len(shown['rows']))]
    return metrics, as_transcripts(task, shown, texts, right)

  return Evaluation(ask=ask, read=read)


def described(rewards: np.ndarray, lengths: np.ndarray) -> dict[str, float]:
  """The metrics of `judged`, of pairs in which both rewards are numbers.

  Args:
    rewards: [2N] of the better and the worse answer of each pair, one behind the other.
    lengths: [2N] of the answers, in tokens.
  Raises:
    ValueError: there is no such pair.
  """
  known = ~np.isnan(rewards[0::2] - rewards[1::2])
  if not known.any():
    raise ValueError(f'none of {len(known)} pairs has two rewards that are numbers; train it anew')
  margins = (rewards[0::2] - rewards[1::2])[known]
  shorter = np.sign(lengths[1::2] - lengths[0::2])
  chances = np.exp(-np.logaddexp(0.0, -margins))
  metrics = {
      'accuracy': np.mean(margins > 0),
      'margin': np.mean(margins),
      'mean': np.mean(rewards[np.repeat(known, 2)]),
      'calibration_error': calibration_error(np.maximum(chances, 1 - chances), margins > 0),
      'shorter': np.mean((shorter + 1) / 2),  # equal lengths are a guess
  }
  return {name: float(x) for name, x in metrics.items()}


def calibration_error(confidences: np.ndarray, right: np.ndarray, *, bins: int = _BINS) -> float:
  """Σ_b (n_b / n) |accuracy_b - mean confidence_b|, over bins of equal width: ECE.

  Args:
    confidences: [N] in [0, 1], of the answer that was given.
    right: [N] bool, whether it was right.
    bins: between 0 and 1.
  Source: Guo et al., 2017, https://arxiv.org/abs/1706.04599, eq. 3.

  >>> calibration_error(np.array([0.9, 0.9, 0.6, 0.6]), np.array([True, True, True, False])).round(3)
  np.float64(0.1)
  """
  places = np.minimum((np.asarray(confidences) * bins).astype(int), bins - 1)
  gaps = np.asarray(right, float) - confidences
  return sum(abs(gaps[places == b].sum()) for b in range(bins)) / len(gaps)


def area_under_curve(scores: np.ndarray, positive: np.ndarray) -> float:
  """The chance that something positive has a larger score than something that is not; ties count half: AUC.

  Where all are of one kind it is 1/2.

  Args:
    scores: [N].
    positive: [N] bool.

  >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
  0.875
  """
  above, below = np.asarray(scores)[positive], np.sort(np.asarray(scores)[~positive])
  if not len(above) or not len(below):
    return 0.5
  wins = np.searchsorted(below, above, 'left') + np.searchsorted(below, above, 'right')
  return float(np.mean(wins) / (2 * len(below)))


def _held_out(task: Dataset, pairs: int) -> dict[str, np.ndarray]:
  at_least(1, pairs=pairs)
  rows = task.held_out_demonstrations(2 * pairs)
  of_two = 'preferred' in rows and np.array_equal(rows['groups'][0::2], rows['groups'][1::2])
  if not of_two or not rows['preferred'][0::2].all() or rows['preferred'][1::2].any():
    raise ValueError('the rows of task.held_out are no pairs; they need columns chosen and rejected')
  return rows
