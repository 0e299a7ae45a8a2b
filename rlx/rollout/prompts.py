"""Rollout functions of single-turn text: fresh problems, then samples or solutions.

Problems come from a procedural task (`envs/text.py`) or from a data set (`data/dataset.py`); both know how to
`draw` problems and how to `demonstrate` their solutions.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.data.dataset import Dataset
from rlx.engine import speculate
from rlx.engine.speaker import Speaker
from rlx.engine.speculate import Drafter, Speculation
from rlx.envs.text import Task
from rlx.envs.turns import TurnTask
from rlx.errors import at_least
from rlx.types import Batch, Key, Models, StatefulRollout, World


def completions(
    task: Task | Dataset, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int
) -> StatefulRollout:
  """Draws training problems and samples `group_size` completions of each from `models['policy']`.

  Args:
    task: where problems come from.
    policy: samples.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
    num_slots: rows that are decoded at a time, the next one taking the place of one that ends; 0 for all.
  Returns:
    A `rollout` function; the columns of the problems are repeated for each row of their group.
  Raises:
    ValueError: `group_size` does not divide `batch_size`.

  >>> from rlx.engine.decoding import Decoding
  >>> from rlx.engine.speaker import Scoring
  >>> from rlx.envs.sorting import sorting
  >>> from rlx.models.families import gpt2
  >>> task = sorting(length=3, held_out_share=0.1)
  >>> model = gpt2(
  ...     task, num_layers=1, width=8, num_heads=2, context_length=16, dtype='float32', remat=False,
  ...     attention='reference',
  ... )
  >>> decoding = Decoding(
  ...     max_tokens=4, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
  ...     eos_ids=task.eos_ids, pad_id=task.pad_id,
  ... )
  >>> policy = Speaker(model=model, decoding=decoding, scoring=Scoring(chunk_tokens=64, packing=None))
  >>> rollout = completions(task, policy, batch_size=6, group_size=3, num_slots=0)
  >>> init_key, world_key, key = jax.random.split(jax.random.key(0), 3)
  >>> batch, world = rollout({'policy': model.init(init_key)}, rollout.begin(world_key), key)
  >>> batch['groups'].tolist()
  [0, 0, 0, 1, 1, 1]
  """
  return _completions(
      task, policy, lambda models: None, batch_size=batch_size, group_size=group_size, num_slots=num_slots
  )


def guessed_completions(
    task: Task | Dataset, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int, ngram: int,
    draft_tokens: int, max_live: int,
) -> StatefulRollout:
  """The same completions in fewer steps, where rows repeat themselves or their prompts (`speculate.ngram`).

  Args:
    task: where problems come from.
    policy: samples.
    batch_size: as for `completions`.
    group_size: as for `completions`.
    num_slots: as for `completions`, but not 0.
    ngram: how many of the newest tokens are looked up earlier in the row.
    draft_tokens: guesses a step and row.
    max_live: steps of no more live rows than this try guesses.
  Returns:
    A `rollout` function, whose batches also have the columns `speculation/..`.
  Raises:
    ValueError: `group_size` does not divide `batch_size`, or a number of the speculation is out of range.
  """
  drafter = speculate.ngram(longest=ngram)
  return _speculative(
      task, policy, lambda models: drafter, batch_size=batch_size, group_size=group_size,
      num_slots=num_slots, draft_tokens=draft_tokens, max_live=max_live,
  )


def drafted_completions(
    task: Task | Dataset, policy: Speaker, drafter: Speaker, *, batch_size: int, group_size: int,
    num_slots: int, draft_tokens: int, max_live: int,
) -> StatefulRollout:
  """The same completions in fewer steps, with guesses of `models['drafter']` (`speculate.by_model`).

  Args:
    task: where problems come from.
    policy: samples.
    drafter: guesses; it has the policy's vocabulary, and its decoding is not used.
    batch_size: as for `completions`.
    group_size: as for `completions`.
    num_slots: as for `completions`, but not 0.
    draft_tokens: guesses a step and row.
    max_live: steps of no more live rows than this try guesses.
  Returns:
    A `rollout` function, whose batches also have the columns `speculation/..`.
  Raises:
    ValueError: `group_size` does not divide `batch_size`, or a number of the speculation is out of range.
  """
  return _speculative(
      task, policy, lambda models: speculate.by_model(models['drafter'], drafter.model),
      batch_size=batch_size, group_size=group_size, num_slots=num_slots, draft_tokens=draft_tokens,
      max_live=max_live,
  )


def _speculative(
    task, policy: Speaker, drafter_of: Callable[[Models], Drafter], *, batch_size, group_size, num_slots,
    draft_tokens, max_live,
) -> StatefulRollout:
  speculate.check(num_slots=num_slots, draft_tokens=draft_tokens, max_live=max_live)
  return _completions(
      task, policy, lambda models: Speculation(drafter_of(models), draft_tokens, max_live),
      batch_size=batch_size, group_size=group_size, num_slots=num_slots,
  )


def _completions(
    task, policy: Speaker, speculation: Callable[[Models], Speculation | None], *, batch_size, group_size,
    num_slots,
) -> StatefulRollout:
  check_groups(batch_size, group_size)
  check_chance(policy, group_size)
  check_single(task)

  def sample(models: Models, prompts: jax.Array, lengths: jax.Array, key: Key) -> Batch:
    return policy.sample(
        models['policy'], prompts, lengths, key, group_size=group_size, num_slots=num_slots,
        speculation=speculation(models),
    )

  return sampled(task, sample, batch_size=batch_size, group_size=group_size)


def sampled(
    task: Task | Dataset, sample: Callable[[Models, jax.Array, jax.Array, Key], Batch], *, batch_size: int,
    group_size: int,
) -> StatefulRollout:
  """Draws training problems and asks a sampler about them.

  Args:
    task: where problems come from.
    sample: `(models, prompts [P, Tp], prompt_lengths [P], key) -> rows`, `group_size` of each prompt.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
  Returns:
    A `rollout` function; the columns of the problems are repeated for each row of their group.
  Raises:
    ValueError: `group_size` does not divide `batch_size`.
  """
  num_groups = check_groups(batch_size, group_size)

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, sample_key = jax.random.split(key)
    problems, world = task.draw(world, problem_key, num_groups)
    batch = sample(models, problems['prompts'], problems['prompt_lengths'], sample_key)
    return {**columns_of(problems, group_size), **batch}, world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


def columns_of(problems: Batch, group_size: int) -> Batch:
  """The columns of problems that are not the prompt, for each row of their group."""
  columns = {k: v for k, v in problems.items() if k not in ('prompts', 'prompt_lengths')}
  return jax.tree.map(lambda a: jnp.repeat(a, group_size, axis=0), columns)


def check_groups(batch_size: int, group_size: int, *, of: str = 'batch_size') -> int:
  """The number of groups in a batch, whose size is called `of`.

  Raises:
    ValueError: they do not fill it, or there are none.
  """
  at_least(1, **{of: batch_size}, group_size=group_size)
  if batch_size % group_size:
    raise ValueError(
        f'rollout.group_size={group_size} does not divide rollout.{of}={batch_size}; '
        f'the nearest number is {max(round(batch_size / group_size), 1) * group_size}'
    )
  return batch_size // group_size


def check_chance(policy: Speaker, group_size: int) -> None:
  """Raises `ValueError` where all samples of a group would be the same: nothing could be learnt of them."""
  if group_size > 1 and not policy.decoding.temperature:
    raise ValueError(
        f'decoding.temperature=0 draws the same completion {group_size} times; a group needs chance: set it '
        'above 0'
    )


def check_single(task: Task | Dataset) -> None:
  """Raises `ValueError` where a task is a world, which is answered in turns."""
  if isinstance(task, TurnTask):
    raise ValueError(
        "the task is a world of turns and judges no completion: take rollout.name='turns.episodes' "
        "(for SFT 'turns.expert_turns') with reward.name='of_world'"
    )


def check_solutions(task: Task | Dataset, policy: Speaker) -> None:
  """Raises `ValueError` where a solution is longer than the actions that are scored."""
  if task.action_columns > policy.decoding.max_tokens:
    raise ValueError(
        f'solutions take up to {task.action_columns} tokens, but decoding.max_tokens='
        f'{policy.decoding.max_tokens} are scored; raise it'
    )


def solutions(task: Task | Dataset, policy: Speaker, *, batch_size: int) -> StatefulRollout:
  """Draws training problems with their solutions as the actions, for supervised stages.

  Args:
    task: where problems come from.
    policy: scores them.
    batch_size: rows B of the batch.
  Raises:
    ValueError: a solution is longer than the actions that are scored, or some are not to be imitated.
  """
  check_single(task)
  check_solutions(task, policy)
  at_least(1, batch_size=batch_size)
  if isinstance(task, Dataset) and (task.num_answers == 2 or 'labels' in task.data):
    raise ValueError(
        'rows with rejected answers, or with labels, are not to be imitated: give rows of prompt and '
        'completion, or take a config of preferences (dpo, kto)'
    )

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    return task.demonstrate(world, key, batch_size)

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)
