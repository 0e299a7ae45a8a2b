"""Rollout functions of single-turn text tasks: fresh problems, then samples or solutions."""

import jax
import jax.numpy as jnp

from rlx.envs.text import Task
from rlx.models.transformer import TransformerConfig
from rlx.rollout import sample as engine
from rlx.rollout.sample import Decoding
from rlx.types import Batch, Key, Models, Rollout, World


def completions(
    task: Task, config: TransformerConfig, decoding: Decoding, *, batch_size: int, group_size: int
) -> Rollout:
  """Draws training problems and samples `group_size` completions of each from `models['policy']`.

  Args:
    task: where problems come from.
    config: shape of the policy.
    decoding: how to sample.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
  Returns:
    A `rollout` function; the columns of the problems are repeated for each row of their group.
  Raises:
    ValueError: `group_size` does not divide `batch_size`.
  """
  if batch_size % group_size:
    raise ValueError(
        f'rollout.group_size={group_size} does not divide rollout.batch_size={batch_size}; '
        f'the nearest batch size is {max(round(batch_size / group_size), 1) * group_size}'
    )

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, sample_key = jax.random.split(key)
    problems = task.sample(problem_key, batch_size // group_size, False)
    batch = engine.sample(
        models['policy'], config, problems['prompts'], problems['prompt_lengths'], sample_key,
        group_size=group_size, decoding=decoding,
    )
    columns = {k: v for k, v in problems.items() if k not in ('prompts', 'prompt_lengths')}
    return {**jax.tree.map(lambda a: jnp.repeat(a, group_size, axis=0), columns), **batch}, world

  return rollout


def solutions(task: Task, decoding: Decoding, *, batch_size: int) -> Rollout:
  """Draws training problems with their solutions as the actions, for supervised stages.

  Args:
    task: where problems come from.
    decoding: as the scorer's.
    batch_size: rows B of the batch.
  Raises:
    ValueError: a solution is longer than the actions that are scored.
  """
  if task.answer_columns > decoding.max_tokens:
    raise ValueError(
        f'solutions take up to {task.answer_columns} tokens, but decoding.max_tokens={decoding.max_tokens} '
        'are scored; raise it'
    )

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    problems = task.sample(key, batch_size, False)
    return demonstrations(problems), world

  return rollout


def demonstrations(problems: Batch) -> Batch:
  """Problems and their solutions as rows: `tokens, valid, action_mask, prompt_lengths, turns, groups`."""
  prompts, lengths, answers = (problems[k] for k in ('prompts', 'prompt_lengths', 'solutions'))
  num_rows, prompt_columns = prompts.shape
  columns = jnp.arange(prompt_columns + answers.shape[1])[None]
  index = columns - lengths[:, None]
  answer = jnp.take_along_axis(answers, jnp.clip(index, 0, answers.shape[1] - 1), axis=1)
  action_mask = (index >= 0) & (index < answers.shape[1]) & (answer != 0)
  prompt = jnp.pad(prompts, ((0, 0), (0, answers.shape[1])))
  return {
      'tokens': jnp.where(index < 0, prompt, jnp.where(action_mask, answer, 0)),
      'valid': (index < 0) | action_mask,
      'action_mask': action_mask,
      'prompt_lengths': lengths,
      'turns': jnp.where(index < 0, -1, 0),
      'groups': jnp.arange(num_rows),
  }
