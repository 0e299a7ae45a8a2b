"""Rollout functions of single-turn text: fresh problems, then samples or solutions.

Problems come from a procedural task (`envs/text.py`) or from a data set (`envs/dataset.py`); both know how to
`draw` problems and how to `demonstrate` their solutions.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine import speculate
from rlx.engine.sample import Decoding
from rlx.engine.speculate import Drafter, Speculation
from rlx.envs.text import Task
from rlx.models.transformer import TransformerConfig
from rlx.types import Batch, Key, Models, StatefulRollout, World


def completions(
    task: Task | Dataset, config: TransformerConfig, decoding: Decoding, *, batch_size: int, group_size: int,
    num_slots: int,
) -> StatefulRollout:
  """Draws training problems and samples `group_size` completions of each from `models['policy']`.

  Args:
    task: where problems come from.
    config: shape of the policy.
    decoding: how to sample.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
    num_slots: rows that are decoded at a time, the next one taking the place of one that ends; 0 for all.
  Returns:
    A `rollout` function; the columns of the problems are repeated for each row of their group.
  Raises:
    ValueError: `group_size` does not divide `batch_size`.
  """
  return _completions(
      task, config, decoding, lambda models: None, batch_size=batch_size, group_size=group_size,
      num_slots=num_slots,
  )


def guessed_completions(
    task: Task | Dataset, config: TransformerConfig, decoding: Decoding, *, batch_size: int, group_size: int,
    num_slots: int, ngram: int, draft_tokens: int, max_live: int,
) -> StatefulRollout:
  """The same completions in fewer steps, where rows repeat themselves or their prompts (`speculate.ngram`).

  Args:
    task: where problems come from.
    config: shape of the policy.
    decoding: how to sample.
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
      task, config, decoding, lambda models: drafter, batch_size=batch_size, group_size=group_size,
      num_slots=num_slots, draft_tokens=draft_tokens, max_live=max_live,
  )


def drafted_completions(
    task: Task | Dataset, config: TransformerConfig, drafter_config: TransformerConfig, decoding: Decoding, *,
    batch_size: int, group_size: int, num_slots: int, draft_tokens: int, max_live: int,
) -> StatefulRollout:
  """The same completions in fewer steps, with guesses of `models['drafter']` (`speculate.model`).

  Args:
    task: where problems come from.
    config: shape of the policy.
    drafter_config: shape of the drafter.
    decoding: how to sample.
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
      task, config, decoding, lambda models: speculate.model(models['drafter'], drafter_config),
      batch_size=batch_size, group_size=group_size, num_slots=num_slots, draft_tokens=draft_tokens,
      max_live=max_live,
  )


def _speculative(
    task, config, decoding, drafter_of: Callable[[Models], Drafter], *, batch_size, group_size, num_slots,
    draft_tokens, max_live,
) -> StatefulRollout:
  speculate.check(num_slots=num_slots, draft_tokens=draft_tokens, max_live=max_live)
  return _completions(
      task, config, decoding, lambda models: Speculation(drafter_of(models), draft_tokens, max_live),
      batch_size=batch_size, group_size=group_size, num_slots=num_slots,
  )


def _completions(
    task, config, decoding, speculation: Callable[[Models], Speculation | None], *, batch_size, group_size,
    num_slots,
) -> StatefulRollout:
  def sample(models: Models, prompts: jax.Array, lengths: jax.Array, key: Key) -> Batch:
    return engine.sample(
        models['policy'], config, prompts, lengths, key, group_size=group_size, decoding=decoding,
        num_slots=num_slots, speculation=speculation(models),
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


def check_groups(batch_size: int, group_size: int) -> int:
  """The number of groups in a batch. Raises `ValueError` where they do not fill it."""
  if batch_size % group_size:
    raise ValueError(
        f'rollout.group_size={group_size} does not divide rollout.batch_size={batch_size}; '
        f'the nearest batch size is {max(round(batch_size / group_size), 1) * group_size}'
    )
  return batch_size // group_size


def check_solutions(task: Task | Dataset, decoding: Decoding) -> None:
  """Raises `ValueError` where a solution is longer than the actions that are scored."""
  if task.action_columns > decoding.max_tokens:
    raise ValueError(
        f'solutions take up to {task.action_columns} tokens, but decoding.max_tokens={decoding.max_tokens} '
        'are scored; raise it'
    )


def solutions(task: Task | Dataset, decoding: Decoding, *, batch_size: int) -> StatefulRollout:
  """Draws training problems with their solutions as the actions, for supervised stages.

  Args:
    task: where problems come from.
    decoding: as the scorer's.
    batch_size: rows B of the batch.
  Raises:
    ValueError: a solution is longer than the actions that are scored.
  """
  check_solutions(task, decoding)

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    return task.demonstrate(world, key, batch_size)

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)
