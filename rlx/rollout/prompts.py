"""Rollout functions of single-turn text: fresh problems, then samples or solutions.

Problems come from a procedural task (`envs/text.py`) or from a data set (`envs/dataset.py`); both know how to
`draw` problems and how to `demonstrate` their solutions.
"""

import jax
import jax.numpy as jnp

from rlx.envs.dataset import Dataset
from rlx.envs.text import Task
from rlx.models.transformer import TransformerConfig
from rlx.rollout import sample as engine
from rlx.rollout.sample import Decoding
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
  if batch_size % group_size:
    raise ValueError(
        f'rollout.group_size={group_size} does not divide rollout.batch_size={batch_size}; '
        f'the nearest batch size is {max(round(batch_size / group_size), 1) * group_size}'
    )

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, sample_key = jax.random.split(key)
    problems, world = task.draw(world, problem_key, batch_size // group_size)
    batch = engine.sample(
        models['policy'], config, problems['prompts'], problems['prompt_lengths'], sample_key,
        group_size=group_size, decoding=decoding, num_slots=num_slots,
    )
    columns = {k: v for k, v in problems.items() if k not in ('prompts', 'prompt_lengths')}
    return {**jax.tree.map(lambda a: jnp.repeat(a, group_size, axis=0), columns), **batch}, world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


def solutions(task: Task | Dataset, decoding: Decoding, *, batch_size: int) -> StatefulRollout:
  """Draws training problems with their solutions as the actions, for supervised stages.

  Args:
    task: where problems come from.
    decoding: as the scorer's.
    batch_size: rows B of the batch.
  Raises:
    ValueError: a solution is longer than the actions that are scored.
  """
  if task.action_columns > decoding.max_tokens:
    raise ValueError(
        f'solutions take up to {task.action_columns} tokens, but decoding.max_tokens={decoding.max_tokens} '
        'are scored; raise it'
    )

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    return task.demonstrate(world, key, batch_size)

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)
