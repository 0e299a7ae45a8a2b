"""Steps of solutions, and of those who judge them, by the task's own grades; nothing of it is trained on."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rlx.advantages import potentials
from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine.speaker import Critic, Speaker
from rlx.envs import text
from rlx.envs.text import StepTask
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, SAMPLES_SEED, Evaluation
from rlx.evaluation.preferences import area_under_curve
from rlx.evaluation.text import as_transcripts
from rlx.rewards import of_steps, spoken_steps
from rlx.rollout.prompts import columns_of
from rlx.types import Batch, Models, World

_VERDICTS_SEED = 2  # the noise of what judges say is the same for every run, too


def graded(task: StepTask, policy: Speaker, *, problems: int) -> Evaluation:
  """Samples of held-out problems, one each, by their answers and by their steps.

  The metrics are `accuracy`, of answers; `sound`, the share of rows whose answer and steps are all right;
  `lucky`, the share of right answers with a wrong step; `steps`, how many a row has; and `in_form`.

  Args:
    task: whose steps are graded.
    policy: what is examined, by its own decoding.
    problems: how many.
  """
  at_least(1, problems=problems)

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    asked, _, said = _sampled(task, policy, models, problems)
    counts = task.count_steps(said)
    here = jnp.arange(task.max_steps)[None] < counts[:, None]
    solved = task.verify(asked, said) > 0.5
    spotless = jnp.all(task.grade_steps(asked, said) | ~here, axis=1)
    return {
        'accuracy': solved.mean(), 'sound': (solved & spotless).mean(),
        'lucky': (solved & ~spotless).sum() / jnp.maximum(solved.sum(), 1),
        'steps': counts.astype(jnp.float32).mean(), 'in_form': task.in_form(asked, said).mean(),
    }

  return Evaluation(ask=ask, read=_numbers)


def judged(task: StepTask, policy: Speaker, judge: Speaker, *, problems: int, votes: int) -> Evaluation:
  """Verdicts on the steps of samples of held-out problems, one verdict and the majority of several.

  The metrics are `f1`, of finding wrong steps by one verdict, the mean over them; `voted_f1`, by the
  majority of all; `gain`, the second less the first; `balanced`, the mean of the shares of right and of wrong
  steps that one verdict calls so; and `off_format`, the share of verdicts that are no verdict: they call
  every step right.

  Args:
    task: whose steps are graded.
    policy: whose rows are judged; with `names`, such as those of a policy of before.
    judge: what is examined, by its own decoding.
    problems: how many.
    votes: verdicts on each row.
  """
  at_least(1, problems=problems, votes=votes)

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    asked, rows, said = _sampled(task, policy, models, problems)
    found = spoken_steps.verdicts(
        task, judge, models['judge'], rows, said, jax.random.key(_VERDICTS_SEED), votes=votes
    )
    here = found.steps
    wrong = ~task.grade_steps(asked, said) & here
    called = ~found.right & found.in_form[:, :, None] & here[:, None]  # [N, K, S]
    voted = (found.called_right <= 0.5) & found.in_form.any(axis=1)[:, None] & here
    single = jax.vmap(lambda x: f1(x, wrong), in_axes=1)(called).mean()
    of_wrong = _share(called, wrong[:, None])
    of_right = _share(~called, (here & ~wrong)[:, None])
    return {
        'f1': single, 'voted_f1': f1(voted, wrong), 'gain': f1(voted, wrong) - single,
        'balanced': (of_wrong + of_right) / 2, 'off_format': 1 - found.in_form.mean(),
    }

  return Evaluation(ask=ask, read=_numbers)


def reconsidered(
    task: StepTask, policy: Speaker, judge: Speaker, *, problems: int, votes: int
) -> Evaluation:
  """Verdicts that a judge has gone over, beside the same ones before.

  The metrics, of finding wrong steps in samples of held-out problems: `f1` of one verdict that was gone over,
  and `gain`, what that is above the same verdict before; `voted_f1` and `voted_gain` of the majority of all;
  `changed`, the share of steps of which the judge says something else. Verdicts off format call every step
  right.

  Args:
    task: as for `judged`, like all that follows.
    policy: whose rows are judged.
    judge: what is examined.
    problems: how many.
    votes: verdicts on each row, each gone over once.
  """
  at_least(1, problems=problems, votes=votes)

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    asked, rows, said = _sampled(task, policy, models, problems)
    first_key, again_key = jax.random.split(jax.random.key(_VERDICTS_SEED))
    first = spoken_steps.verdicts(task, judge, models['judge'], rows, said, first_key, votes=votes)
    again = spoken_steps.reconsidered(task, judge, models['judge'], rows, first, again_key)
    here = first.steps
    wrong = ~task.grade_steps(asked, said) & here
    known = first.in_form[:, :, None] & here[:, None]
    found = {}
    for name, x in (('before', first), ('after', again)):
      single = jax.vmap(lambda called: f1(called, wrong), in_axes=1)(~x.right & known).mean()
      voted = (x.called_right <= 0.5) & x.in_form.any(axis=1)[:, None] & here
      found[name] = single, f1(voted, wrong)
    (single, voted), (single_before, voted_before) = found['after'], found['before']
    return {
        'f1': single, 'gain': single - single_before, 'voted_f1': voted, 'voted_gain': voted - voted_before,
        'changed': _share(first.right != again.right, known),
    }

  return Evaluation(ask=ask, read=_numbers)


def by_head(
    task: StepTask, policy: Speaker, process: Critic, *, separator: str, problems: int, candidates: int,
    aggregation: Callable,
) -> Evaluation:
  """What a process head says of samples of held-out problems: of their steps, and which sample it chooses.

  A row is sound up to a step where this and all before it are right. The metrics are `auc`, how often the
  head has a higher number behind a sound step than behind another, over all steps of all rows; `chosen`, the
  share of right answers among those that have the most by their steps, the first of equals; `single`, among
  all; `gain`, the first of these less the second; and `oracle`, of problems with a right one.

  Args:
    task: whose steps are graded.
    policy: whose rows are read; with `names`, such as those of a policy of before.
    process: what is examined.
    separator: one token, which ends a step.
    problems: how many.
    candidates: samples of each.
    aggregation: what steps come to, such as `of_steps.least`.
  """
  at_least(1, problems=problems, candidates=candidates)
  end_of_step = text.one_token(task, separator)

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    asked, rows, said = _sampled(task, policy, models, problems, candidates)
    ends = potentials.step_ends(rows['tokens'], rows['action_mask'], end_of_step)
    chances = of_steps.step_chances(process, models['process'], rows, ends)
    sound = sound_until(task, asked, rows, said)
    worth = aggregation(chances, ends).reshape(problems, candidates)
    right = task.verify(asked, said).reshape(problems, candidates)
    chosen = jnp.take_along_axis(right, jnp.argmax(worth, axis=1)[:, None], axis=1).mean()
    return {
        'auc': auc(chances, ends & sound, ends & ~sound), 'chosen': chosen, 'single': right.mean(),
        'gain': chosen - right.mean(), 'oracle': right.max(axis=1).mean(),
    }

  return Evaluation(ask=ask, read=_numbers)


def labelled(task: Dataset, process: Critic, transcripts: int, *, rows: int) -> Evaluation:
  """What a process head says of held-out solutions whose steps are labelled.

  A step is called right where the number of the head, its log-odds, is above 0; a label above 1/2 is right.
  The metrics are `accuracy`, of steps; `auc`, how often the head has a higher number behind a right step than
  behind a wrong one; `loss`, in nats a step; `first_wrong`, the share of rows with a wrong step whose first
  one it finds; `all_right`, the share of rows without that it finds nothing wrong in; and `f1`, the harmonic
  mean of these two, which is 0 where there are rows of one kind only.

  Args:
    task: whose held-out rows have `completions` and `labels`.
    process: what is examined.
    transcripts: how many solutions are handed back to be read.
    rows: how many are scored.
  Raises:
    ValueError: there are fewer, or their steps have no labels.
  Source: `f1` is ProcessBench's, Zheng et al., 2024, https://arxiv.org/abs/2412.06559, section 4.1.
  """
  at_least(1, rows=rows)
  batch = task.held_out_demonstrations(rows)
  if 'step_labels' not in batch:
    raise ValueError('the rows of task.held_out have no labels of steps; they need completions and labels')
  ends, right = batch['step_ends'], batch['step_labels'] > 0.5

  def ask(models: Models, world: World) -> jax.Array:
    del world
    return process.behind(models['process'], jax.tree.map(jnp.asarray, batch))

  def read(odds: np.ndarray):
    metrics, found = described(odds, ends, batch['step_labels'])
    shown = task.held_out(min(transcripts, rows))
    said = [
        ''.join(
            f'{task.decode(batch["tokens"][row][begin:end + 1])}[{odds[row, end]:+.1f}, '
            f'{"right" if right[row, end] else "wrong"}] '
            for begin, end in _spans(batch['action_mask'][row], ends[row])
        )
        for row in range(len(shown['rows']))
    ]
    return metrics, as_transcripts(task, shown, said, found)

  return Evaluation(ask=ask, read=read)


def described(odds: np.ndarray, ends: np.ndarray, labels: np.ndarray) -> tuple[dict[str, float], np.ndarray]:
  """The metrics of `labelled`, and of which rows [N] the first wrong step was found, or that there is none.

  Args:
    odds: [N, T] what the head says.
    ends: [N, T] bool, where steps end.
    labels: [N, T] in [0, 1], of the steps that end there.
  """
  right, called = labels > 0.5, odds > 0
  first = lambda wrong: np.where(wrong.any(axis=1), wrong.argmax(axis=1), -1)
  sound = ~(ends & ~right).any(axis=1)
  found = first(ends & ~right) == first(ends & ~called)
  share = lambda of: float(found[of].mean()) if of.any() else 0.0
  wrong_found, sound_found = share(~sound), share(sound)
  losses = np.logaddexp(0.0, odds) - labels * odds
  return {
      'accuracy': float((right == called)[ends].mean()),
      'auc': area_under_curve(odds[ends], right[ends]),
      'loss': float(losses[ends].mean()),
      'first_wrong': wrong_found,
      'all_right': sound_found,
      'f1': 2 * wrong_found * sound_found / max(wrong_found + sound_found, 1e-9),
  }, found


def _spans(mask: np.ndarray, ends: np.ndarray) -> list[tuple[int, int]]:
  """The first and last columns of the steps of a row."""
  stops = np.flatnonzero(ends)
  return list(zip([int(mask.argmax()), *(stops[:-1] + 1)], stops, strict=False))


def sound_until(task: StepTask, problems: Batch, rows: Batch, said: jax.Array) -> jax.Array:
  """[B, T] bool: whether all steps that are said up to each column of rows [B, T] are right.

  Args:
    task: whose steps are graded.
    problems: the columns of the problems of the rows.
    rows: with `prompt_lengths` and `action_mask`.
    said: [B, C] what they say.
  """
  place = jnp.arange(said.shape[1])
  until = lambda k: task.count_steps(jnp.where(place[None] <= k, said, text.PAD_ID))
  counts = jax.vmap(until, out_axes=1)(place)  # [B, C] steps up to each place
  wrong = ~task.grade_steps(problems, said)
  first = jnp.where(wrong.any(axis=1), jnp.argmax(wrong, axis=1), wrong.shape[1])[:, None]
  behind = jnp.arange(rows['action_mask'].shape[1])[None] - rows['prompt_lengths'][:, None]
  at = jnp.take_along_axis(counts, jnp.clip(behind, 0, said.shape[1] - 1), axis=1)
  return at <= first


def auc(x: jax.Array, positive: jax.Array, negative: jax.Array) -> jax.Array:
  """[] how often `x` is larger at one of `positive` than at one of `negative`, equal ones half; 1/2 for none.

  >>> x = jnp.array([0.9, 0.2, 0.5, 0.5])
  >>> float(auc(x, jnp.array([True, False, True, False]), jnp.array([False, True, False, True])))
  0.875
  """
  x, positive, negative = (jnp.ravel(a) for a in (x, positive, negative))
  values = jnp.sort(jnp.where(negative, x, jnp.inf))
  below = jnp.searchsorted(values, x, side='left') + jnp.searchsorted(values, x, side='right')
  pairs = positive.sum() * negative.sum()
  return jnp.where(pairs, jnp.sum(below / 2, where=positive) / jnp.maximum(pairs, 1), 0.5)


def f1(called: jax.Array, wrong: jax.Array) -> jax.Array:
  """[] 2 hits / (called + wrong), of what is called wrong and what is; 1 where there is neither."""
  hits, total = jnp.sum(called & wrong), jnp.sum(called) + jnp.sum(wrong)
  return jnp.where(total, 2 * hits / jnp.maximum(total, 1), 1.0)


def _share(true: jax.Array, among: jax.Array) -> jax.Array:
  among = jnp.broadcast_to(among, true.shape)
  return jnp.sum(true & among) / jnp.maximum(jnp.sum(among), 1)


def _sampled(task, policy, models, problems, candidates=1):
  asked = task.sample(jax.random.key(PROBLEMS_SEED), problems, True)
  rows = policy.sample(
      models['policy'], asked['prompts'], asked['prompt_lengths'], jax.random.key(SAMPLES_SEED),
      group_size=candidates,
  )
  return columns_of(asked, candidates), rows, engine.completions_of(rows, policy.decoding)


def _numbers(answer):
  return {name: float(x) for name, x in answer.items()}, []
