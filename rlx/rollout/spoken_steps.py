"""Rows of judges that speak of steps (`rewards/spoken_steps.py`): taught, by vote, beside their policy."""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.columns import as_wide
from rlx.engine.speaker import Speaker
from rlx.envs import text
from rlx.envs.text import StepTask
from rlx.errors import at_least
from rlx.losses.comparisons import both, sides
from rlx.rewards import spoken_steps
from rlx.rewards.of_learners import best_and_worst
from rlx.rewards.spoken_steps import Verdicts
from rlx.rollout.prompts import check_chance, check_groups, columns_of
from rlx.types import Batch, Key, Models, Rows, StatefulRollout, World


def taught(task: StepTask, policy: Speaker, *, batch_size: int) -> StatefulRollout:
  """Samples of the policy, with the verdicts that the task's grades come to: what a judge is shown at first.

  Args:
    task: where problems and grades come from.
    policy: `models['policy']`, what is judged; what learns from the rows is the stage's own matter.
    batch_size: rows B of the batch.
  """
  at_least(1, batch_size=batch_size)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problems, rows, said, world = _sampled(task, policy, models, world, key, batch_size)
    return judged_rows(task, rows, task.grade_steps(problems, said), task.count_steps(said)), world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def taught_again(
    task: StepTask, policy: Speaker, verifier: Speaker, *, batch_size: int
) -> StatefulRollout:
  """As `taught`, and behind the verifier's own verdicts on the same rows, which it learns to go over.

  Args:
    task: where problems and grades come from.
    policy: `models['policy']`, what is judged.
    verifier: `models['verifier']`, whose verdicts, as it is now, are gone over; those off format are not.
    batch_size: rows B of the batch: B / 2 of `taught`, and of each the one that goes over a verdict.
  """
  at_least(2, batch_size=batch_size)
  num = check_groups(batch_size, 2)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    sample_key, verdict_key = jax.random.split(key)
    problems, rows, said, world = _sampled(task, policy, models, world, sample_key, num)
    grades, params = task.grade_steps(problems, said), models['verifier']
    found = spoken_steps.verdicts(task, verifier, params, rows, said, verdict_key, votes=1)
    prompts, lengths = spoken_steps.as_reconsidered(task, rows, found.right[:, 0], found.counts)
    answer = spoken_steps.said_of(task, grades, found.counts)
    again = text.demonstrations({'prompts': prompts, 'prompt_lengths': lengths, 'solutions': answer})
    again['action_mask'] &= found.in_form
    first = judged_rows(task, rows, grades, found.counts)
    joined = {name: jnp.concatenate(as_wide(first[name], x)) for name, x in again.items()}
    return {**joined, 'groups': jnp.arange(batch_size)}, world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def _sampled(task, policy, models, world, key, num):
  """Fresh problems with a sample of each."""
  problem_key, sample_key = jax.random.split(key)
  problems, world = task.draw(world, problem_key, num)
  prompts, lengths = problems['prompts'], problems['prompt_lengths']
  rows = policy.sample(models['policy'], prompts, lengths, sample_key, group_size=1)
  return problems, rows, engine.completions_of(rows, policy.decoding), world


def judged_rows(task: StepTask, batch: Batch, right: jax.Array, counts: jax.Array) -> Batch:
  """Rows in which a verdict is what is said: `right` [B, S] of the first `counts` [B] steps of each row."""
  prompts, lengths = spoken_steps.as_asked(task, batch)
  said = spoken_steps.said_of(task, right, counts)
  return text.demonstrations({'prompts': prompts, 'prompt_lengths': lengths, 'solutions': said})


def by_majority(
    task: StepTask, policy: Speaker, verifier: Speaker, *, batch_size: int, votes: int
) -> StatefulRollout:
  """Samples of the policy with the verdict of most of a verifier's samples, step by step: labels for SFT.

  A step is right where more than half of the verdicts in form say so. Rows with none count for nothing.

  Args:
    task: where problems come from.
    policy: `models['policy']`, what is judged.
    verifier: `models['verifier']`, which judges; what learns from the rows is the stage's own matter.
    batch_size: rows B of the batch.
    votes: verdicts on each row; 1 believes a single one.
  Source: SPARK, https://arxiv.org/abs/2512.03244: step-level self-consistency, from the abstract.
  """
  return _labelled(task, policy, verifier, batch_size, votes, lambda found, models, rows, key: found)


def by_meta_critique(
    task: StepTask, policy: Speaker, verifier: Speaker, *, batch_size: int, votes: int
) -> StatefulRollout:
  """As `by_majority`, of verdicts that the verifier has gone over (`rewards.spoken_steps.reconsidered`).

  Args:
    task: as for `by_majority`, like all that follows.
    policy: what is judged.
    verifier: judges, and goes over its verdicts.
    batch_size: rows B of the batch.
    votes: verdicts on each row, each gone over once; 1 is the meta-critique alone.
  """

  def again(found: Verdicts, models: Models, rows: Batch, key: Key) -> Verdicts:
    return spoken_steps.reconsidered(task, verifier, models['verifier'], rows, found, key)

  return _labelled(task, policy, verifier, batch_size, votes, again)


def _labelled(task, policy, verifier, batch_size: int, votes: int, gone_over) -> StatefulRollout:
  """Samples with the majority of verdicts, behind `gone_over(verdicts, models, rows, key)`."""
  at_least(1, batch_size=batch_size, votes=votes)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    sample_key, verdict_key = jax.random.split(key)
    _, rows, completions, world = _sampled(task, policy, models, world, sample_key, batch_size)
    found = spoken_steps.verdicts(
        task, verifier, models['verifier'], rows, completions, verdict_key, votes=votes
    )
    found = gone_over(found, models, rows, jax.random.fold_in(verdict_key, 1))
    batch = judged_rows(task, rows, found.called_right > 0.5, found.counts)
    known = found.in_form.any(axis=1)
    return {**batch, 'action_mask': batch['action_mask'] & known[:, None]}, world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def dual_feedback(
    task: StepTask, policy: Speaker, judge: Speaker, *, batch_size: int, group_size: int, votes: int,
    process_coef: float,
) -> StatefulRollout:
  """Comparisons of solutions and comparisons of verdicts on them, by a solver and a judge together.

      worth of a solution  o + c p,    o of the solver, p the share of steps that the judge calls right
      worth of a verdict   (1 + its agreement with the vote) [not contradicted by the solver]

  A verdict that calls every step of a wrong answer right is contradicted; the vote is of the others. The best
  and the worst solution of a problem are a pair for the learner `policy`, the best and the worst verdict on a
  solution one for the learner `judge`; a pair weighs what its worths are apart: weighted DPO.

  Args:
    task: where problems come from; `verify` is the solver.
    policy: `models['policy']`, says solutions.
    judge: `models['judge']`, says verdicts.
    batch_size: solutions in a step.
    group_size: solutions of each problem.
    votes: verdicts on each solution, at least 2.
    process_coef: c, at least 0; 0 is the outcome alone.
  Returns:
    A `rollout` function with rows for the learners `policy` and `judge`, as `best_and_worst` makes them.
  Source: StepORLM, https://arxiv.org/abs/2509.22558, from the abstract, which says that both models are
    refined by the outcome of a solver and a process evaluation, and the policy by weighted DPO; how a verdict
    is worth more than another is ours.
  """
  num_problems = check_groups(batch_size, group_size)
  check_chance(policy, group_size)
  check_chance(judge, votes)
  at_least(2, votes=votes)
  at_least(0, process_coef=process_coef)

  def draw(models: Models, world: World, key: Key) -> tuple[Rows, World]:
    problem_key, sample_key, verdict_key = jax.random.split(key, 3)
    problems, world = task.draw(world, problem_key, num_problems)
    rows = policy.sample(
        models['policy'], problems['prompts'], problems['prompt_lengths'], sample_key, group_size=group_size
    )
    completions = engine.completions_of(rows, policy.decoding)
    solved = task.verify(columns_of(problems, group_size), completions)
    found = spoken_steps.verdicts(task, judge, models['judge'], rows, completions, verdict_key, votes=votes)
    worth = solved + process_coef * found.score
    judged = {**found.rows, 'rewards': worth_of_verdicts(found, solved).reshape(-1)}
    solutions, verdicts = weighed_pairs({**rows, 'rewards': worth}), weighed_pairs(judged)
    told = {
        'judge/off_format': 1 - found.in_form.mean(), 'solver/right': solved.mean(),
        'judge/score': found.score.mean(),
    }
    solutions |= {name: jnp.full(len(solutions['groups']), x) for name, x in told.items()}
    return {'policy': solutions, 'judge': verdicts}, world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def worth_of_verdicts(found: Verdicts, solved: jax.Array) -> jax.Array:
  """[N, K] what verdicts on N solutions are worth, as `dual_feedback` says; `solved` [N] is the solver's."""
  steps = found.steps[:, None]
  spotless = jnp.all(found.right | ~steps, axis=2)
  credible = found.in_form & ~(spotless & (solved < 0.5)[:, None])
  share = jnp.mean(found.right, axis=1, where=credible[:, :, None])  # of the credible ones, NaN for none
  agreed = jnp.where(found.right, share[:, None], 1 - share[:, None])
  agreement = jnp.mean(agreed, axis=2, where=jnp.broadcast_to(steps, agreed.shape))
  return jnp.where(credible, 1 + jnp.nan_to_num(agreement), 0)


def weighed_pairs(batch: Batch) -> Batch:
  """`best_and_worst` of a batch, whose pairs weigh as much as their rewards are apart."""
  rows = best_and_worst(batch)
  gap = jnp.subtract(*sides(rows['rewards']))
  return {**rows, 'weights': rows['weights'] * both(gap, gap)}
