"""A second attempt at problems that a whole group failed: with a hint, or another form of the prompt.

Zero passes are zero gradient. A group without a success is asked again from another prompt of the same
problem, and the new rows take the place of the old ones, with their own prompts: what is trained on is what
was sampled. The reward is asked inside the rollout, so it must be one that compiles, such as `verifier`; the
slot of the algorithm asks it once more, of the rows that are left. Shapes are static: a fixed number of
groups is asked again, those without a success first; the new rows of others are dropped.

A form of a problem is another prompt for it, in the columns `<form>_prompts` [N, C], `<form>_lengths` [N]
and, where its answer is another, `<form>_solutions` (`envs/skills.py`). A hint can be such a form, or what
the policy itself wrote in answer to the form `asking`.
"""

from collections.abc import Callable
import functools

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.columns import window
from rlx.engine.speaker import Speaker
from rlx.envs import text
from rlx.envs.skills import SkillTask
from rlx.envs.text import Task
from rlx.rewards.host import check_compiles
from rlx.rollout.prompts import check_groups, check_solutions, columns_of
from rlx.types import Annotate, Batch, Key, Models, StatefulRollout, World

Prompts = tuple[jax.Array, jax.Array]  # tokens [P, C] and their lengths [P]
Ask = Callable[[Models, Prompts, Batch, Key], Batch]  # (models, prompts, problems, key) -> rewarded rows


def hinted(
    task: Task, policy: Speaker, reward: Annotate, *, batch_size: int, group_size: int, num_slots: int,
    form: str, num_retried: int, kept_rows: int,
) -> StatefulRollout:
  """Completions; groups without a success are sampled again from another form of their prompt.

  Args:
    task: where problems come from, in two forms at least.
    policy: samples.
    reward: that of the run; it has to compile.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
    num_slots: as for `prompts.completions`.
    form: name of the other form.
    num_retried: how many groups at most are sampled again, which is what it costs.
    kept_rows: rows of a group that stay as they were, so that the problem itself is in the group too (NuRL:
      1).
  Returns:
    A `rollout` function. Its batches have `rewards`, and `injected` [B] bool, True for the new rows.
  Raises:
    ValueError: a size that does not fit the batch.
  """
  check_retries(batch_size, group_size, num_retried=num_retried, kept_rows=kept_rows)
  ask = asker(policy, reward, group_size=group_size, num_slots=num_slots)

  def again(models: Models, problems: Batch, key: Key) -> Prompts:
    del models, key
    return form_of(problems, form)

  return _retried(
      task, ask, again, num_groups=batch_size // group_size, num_retried=num_retried, kept_rows=kept_rows
  )


def self_hinted(
    task: SkillTask, policy: Speaker, reward: Annotate, *, batch_size: int, group_size: int, num_slots: int,
    hint_tokens: int, num_retried: int, kept_rows: int,
) -> StatefulRollout:
  """The same with hints that the policy writes, from the right answer, before it is asked again.

  Args:
    task: of which there are the forms `asking` and `hinted`.
    policy: samples; it writes the hint too, of another length.
    reward: that of the run; it has to compile.
    batch_size: as for `hinted`.
    group_size: as for `hinted`.
    num_slots: as for `hinted`.
    hint_tokens: how much of what the policy wrote is shown: less than the longest answer, or hints would
      become answers.
    num_retried: as for `hinted`.
    kept_rows: as for `hinted`.
  Raises:
    ValueError: a size that does not fit the batch, or hints that are too long.
  Source: NuRL, https://arxiv.org/abs/2509.25666, where all hints are written before training begins.
  """
  check_retries(batch_size, group_size, num_retried=num_retried, kept_rows=kept_rows)
  if not 1 <= hint_tokens < task.max_steps:
    raise ValueError(f'hint_tokens={hint_tokens}: an answer has {task.max_steps}; show fewer, and 1 at least')
  ask = asker(policy, reward, group_size=group_size, num_slots=num_slots)

  def again(models: Models, problems: Batch, key: Key) -> Prompts:
    said = policy.sample(models['policy'], *form_of(problems, 'asking'), key, group_size=1)
    return task.with_hint(problems, engine.completions_of(said, policy.decoding)[:, :hint_tokens])

  return _retried(
      task, ask, again, num_groups=batch_size // group_size, num_retried=num_retried, kept_rows=kept_rows
  )


def rethought(
    task: SkillTask, policy: Speaker, reward: Annotate, *, batch_size: int, group_size: int, num_slots: int,
    num_retried: int,
) -> StatefulRollout:
  """Three attempts: the problem, its subproblems, and a wrong answer that is to be mended.

  Each attempt is for groups that have no success so far. Successes of the later two also come with the prompt
  of the first, as a policy that needs no help would have to say them.

  Args:
    task: of which there are the forms `decomposed` and `refined`.
    policy: samples.
    reward: that of the run; it has to compile.
    batch_size: as for `hinted`.
    group_size: as for `hinted`.
    num_slots: as for `hinted`.
    num_retried: how many groups at most are sampled again, in each of the two later attempts.
  Returns:
    A `rollout` function. Its batches have `rewards`, `attempts` [B] int32 in 0..2, `transferred` [B] bool,
    True for a success of a later attempt, and `direct_tokens`, `direct_valid`, `direct_mask`,
    `direct_lengths`: the actions of each row behind the first prompt.
  Raises:
    ValueError: a size that does not fit the batch.
  Source: Cog-Rethinker, https://arxiv.org/abs/2510.15979; its buffer of decompositions that worked is left
    out, and subproblems are told apart by the task.
  """
  check_retries(batch_size, group_size, num_retried=num_retried, kept_rows=0)
  num_groups = batch_size // group_size
  ask = asker(policy, reward, group_size=group_size, num_slots=num_slots)
  again = functools.partial(retry, group_size=group_size, num_retried=num_retried, kept_rows=0)

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, *keys = jax.random.split(key, 4)
    problems, world = task.draw(world, problem_key, num_groups)
    first = ask(models, form_of(problems, ''), problems, keys[0])

    def decompose(numbers: jax.Array) -> Batch:
      some = jax.tree.map(lambda x: x[numbers], problems)
      return ask(models, form_of(some, 'decomposed'), some, keys[1])

    second, decomposed = again(first, decompose)

    def refine(numbers: jax.Array) -> Batch:
      some = jax.tree.map(lambda x: x[numbers], problems)
      wrong = engine.completions_of(second, policy.decoding)[numbers * group_size]  # of a group all are wrong
      return ask(models, task.with_attempt(some, wrong), some, keys[2])

    rows, refined = again(second, refine)
    attempts = jnp.where(refined, 2, decomposed.astype(jnp.int32))
    transferred = (attempts > 0) & (rows['rewards'] > 0)
    return {
        **rows, **_direct(problems, rows, group_size, policy.decoding.max_tokens), 'attempts': attempts,
        'transferred': transferred, 'inject/decomposed': attempts == 1, 'inject/refined': refined,
        'inject/new_successes': transferred, 'inject/direct_successes': first['rewards'],
    }, world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


def _direct(problems: Batch, rows: Batch, group_size: int, max_tokens: int) -> Batch:
  """The actions of each row behind the prompt of the problem itself."""
  prompts, lengths = padded(form_of(problems, ''), width(problems) + max_tokens)
  prompts, lengths = (jnp.repeat(x, group_size, axis=0) for x in (prompts, lengths))
  behind = lambda x: window(engine.actions(rows, x, max_tokens), -lengths, prompts.shape[1])
  mask = behind(rows['action_mask'])
  return {
      'direct_tokens': jnp.where(mask, behind(rows['tokens']), prompts), 'direct_mask': mask,
      'direct_valid': mask | (jnp.arange(prompts.shape[1])[None] < lengths[:, None]),
      'direct_lengths': lengths,
  }


def lessons(task: Task, policy: Speaker, *, batch_size: int, forms: tuple[str, ...]) -> StatefulRollout:
  """Solutions of problems in several forms, for the supervised stage that makes a policy know them.

  Args:
    task: where problems come from.
    policy: scores them.
    batch_size: rows B of the batch.
    forms: each row is in one of these, at random; '' is the prompt itself.
  Raises:
    ValueError: a solution is longer than the actions that are scored.
  """
  check_solutions(task, policy)

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    problem_key, form_key = jax.random.split(key)
    problems, world = task.draw(world, problem_key, batch_size)
    chosen = jax.random.randint(form_key, (batch_size,), 0, len(forms))
    taught = [_lesson(problems, form, width(problems)) for form in forms]
    pick = lambda *x: jnp.take_along_axis(
        jnp.stack(x, axis=1), chosen.reshape(-1, *[1] * x[0].ndim), axis=1
    )[:, 0]
    return text.demonstrations(jax.tree.map(pick, *taught)), world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


def _lesson(problems: Batch, form: str, columns: int) -> Batch:
  prompts, lengths = padded(form_of(problems, form), columns)
  solutions = problems.get(f'{form}_solutions', problems['solutions'])
  return {'prompts': prompts, 'prompt_lengths': lengths, 'solutions': solutions}


# --- parts --------------------------------------------------------------------------------------------------


def form_of(problems: Batch, form: str) -> Prompts:
  """The prompts of a form and their lengths; '' is the problem itself.

  Raises:
    ValueError: the problems have no such form.
  """
  if not form:
    return problems['prompts'], problems['prompt_lengths']
  if f'{form}_prompts' not in problems:
    forms = sorted(name.removesuffix('_prompts') for name in problems if name.endswith('_prompts'))
    raise ValueError(f'form={form!r} is none of the forms {forms} of this task')
  return problems[f'{form}_prompts'], problems[f'{form}_lengths']


def without_forms(problems: Batch) -> Batch:
  """The problems in their own form alone: whatever has prompts beside the problem's own is another one."""
  forms = [name.removesuffix('_prompts') for name in problems if name.endswith('_prompts')]
  columns = {f'{form}_{column}' for form in forms for column in ('prompts', 'lengths', 'solutions')}
  return {name: x for name, x in problems.items() if name not in columns}


def width(problems: Batch) -> int:
  """Columns of the widest form."""
  return max(x.shape[1] for name, x in problems.items() if name.endswith('prompts'))


def padded(prompts: Prompts, columns: int) -> Prompts:
  """The same prompts in more columns."""
  tokens, lengths = prompts
  return jnp.pad(tokens, ((0, 0), (0, columns - tokens.shape[1]))), lengths


def asker(policy: Speaker, reward: Annotate, *, group_size: int, num_slots: int) -> Ask:
  """Samples a group from each prompt, rewards it, and keeps the columns of the problems, prompts aside.

  Raises:
    ValueError: the reward is Python on the host, which a rollout cannot ask.
  """
  check_compiles(reward)

  def ask(models: Models, prompts: Prompts, problems: Batch, key: Key) -> Batch:
    sample_key, reward_key = jax.random.split(key)
    rows = policy.sample(
        models['policy'], *padded(prompts, width(problems)), sample_key, group_size=group_size,
        num_slots=num_slots,
    )
    return reward(models, {**columns_of(without_forms(problems), group_size), **rows}, reward_key)

  return ask


def passed(rewards: jax.Array, group_size: int) -> jax.Array:
  """[P] bool: whether some row of each group has a reward above 0."""
  return jnp.any(rewards.reshape(-1, group_size) > 0, axis=1)


def retry(
    rows: Batch, again: Callable[[jax.Array], Batch], *, group_size: int, num_retried: int, kept_rows: int
) -> tuple[Batch, jax.Array]:
  """Rows of groups without a success are replaced by rows of a second attempt.

  Args:
    rows: B rows with `rewards`, in groups of consecutive rows.
    again: `numbers [R] -> rows`, the second attempt at the problems of these numbers, a group each.
    group_size: rows of a group.
    num_retried: R.
    kept_rows: the first rows of a group, which stay.
  Returns:
    The rows, and [B] bool, True where they are new.
  """
  failed = ~passed(rows['rewards'], group_size)
  numbers = jnp.argsort(~failed, stable=True)[:num_retried]
  second = again(numbers)
  first_of = numbers[:, None] * group_size + jnp.arange(group_size)[None]
  new = failed[numbers][:, None] & (jnp.arange(group_size)[None] >= kept_rows)
  # A row that stays is written to a place behind the last one, where nothing is.
  target = jnp.where(new, first_of, rows['rewards'].shape[0]).ravel()
  replaced = {name: x.at[target].set(second[name], mode='drop') for name, x in rows.items()}
  injected = jnp.zeros(rows['rewards'].shape, bool).at[target].set(True, mode='drop')
  return {**replaced, 'groups': rows['groups']}, injected


def check_retries(batch_size: int, group_size: int, *, num_retried: int, kept_rows: int) -> None:
  """Raises `ValueError` where there are not so many groups, or not so many rows in one."""
  num_groups = check_groups(batch_size, group_size)
  if not 1 <= num_retried <= num_groups or not 0 <= kept_rows < group_size:
    raise ValueError(
        f'num_retried={num_retried} of {num_groups} groups, kept_rows={kept_rows} of {group_size}: need '
        f'1 <= num_retried <= {num_groups} and 0 <= kept_rows < {group_size}'
    )


def _retried(task, ask: Ask, prompts_again, *, num_groups, num_retried, kept_rows) -> StatefulRollout:
  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, first_key, prompt_key, second_key = jax.random.split(key, 4)
    problems, world = task.draw(world, problem_key, num_groups)
    rows = ask(models, form_of(problems, ''), problems, first_key)
    group_size = rows['rewards'].shape[0] // num_groups

    def again(numbers: jax.Array) -> Batch:
      some = jax.tree.map(lambda x: x[numbers], problems)
      return ask(models, prompts_again(models, some, prompt_key), some, second_key)

    failed = jnp.repeat(~passed(rows['rewards'], group_size), group_size)
    batch, injected = retry(
        rows, again, group_size=group_size, num_retried=num_retried, kept_rows=kept_rows
    )
    return {
        **batch, 'injected': injected, 'inject/failed_groups': failed, 'inject/new_rows': injected,
        'inject/new_successes': injected & (batch['rewards'] > 0),
    }, world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)
