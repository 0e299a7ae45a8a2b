"""Steps of solutions, and of those who judge them, by the task's own grades; nothing of it is trained on."""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs.text import StepTask
from rlx.errors import at_least
from rlx.evaluation.evaluation import Evaluation
from rlx.rewards import spoken_steps
from rlx.rollout.prompts import columns_of
from rlx.types import Models, World

_PROBLEMS_SEED = 0  # the held-out problems are the same for every run of a task, as in `text.verified`
_SAMPLES_SEED, _VERDICTS_SEED = 1, 2  # and so is the noise


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


def f1(called: jax.Array, wrong: jax.Array) -> jax.Array:
  """[] 2 hits / (called + wrong), of what is called wrong and what is; 1 where there is neither."""
  hits, total = jnp.sum(called & wrong), jnp.sum(called) + jnp.sum(wrong)
  return jnp.where(total, 2 * hits / jnp.maximum(total, 1), 1.0)


def _share(true: jax.Array, among: jax.Array) -> jax.Array:
  among = jnp.broadcast_to(among, true.shape)
  return jnp.sum(true & among) / jnp.maximum(jnp.sum(among), 1)


def _sampled(task, policy, models, problems):
  asked = task.sample(jax.random.key(_PROBLEMS_SEED), problems, True)
  rows = policy.sample(
      models['policy'], asked['prompts'], asked['prompt_lengths'], jax.random.key(_SAMPLES_SEED),
      group_size=1,
  )
  return columns_of(asked, 1), rows, engine.completions_of(rows, policy.decoding)


def _numbers(answer):
  return {name: float(x) for name, x in answer.items()}, []
