"""Rows about pairs of answers (`envs/weighing.py`): answers by themselves, and critiques that are judged."""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.advantages import groups
from rlx.envs import weighing
from rlx.envs.text import Task
from rlx.rewards.host import check_compiles
from rlx.rollout.prompts import check_groups
from rlx.types import Annotate, Batch, Key, Models, Rollout, StatefulRollout, World, keep_world, stateful


def single_answers(task: Task, *, batch_size: int) -> StatefulRollout:
  """Draws training pairs as comparisons, for a reward model that says a number of each answer.

  Args:
    task: one of `envs/weighing.py`.
    batch_size: rows B of the batch, two a pair.
  Raises:
    ValueError: `batch_size` is odd.
  """
  num_pairs = check_groups(batch_size, 2)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    problems, world = task.draw(world, key, num_pairs)
    return weighing.answer_rows(problems), world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def criticised_answers(task: Task, *, batch_size: int) -> StatefulRollout:
  """As `single_answers`, each answer with a critique behind it, which is what is said.

  Args:
    task: `weighing.weighed`.
    batch_size: rows B of the batch, two a pair.
  Raises:
    ValueError: `batch_size` is odd, or the task's solutions show no thoughts.
  """
  num_pairs = check_groups(batch_size, 2)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    problems, world = task.draw(world, key, num_pairs)
    return weighing.criticised_rows(problems), world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def with_verdicts(rollout: Rollout, reward: Annotate) -> StatefulRollout:
  """The rows of a rollout, of which those that are rewarded are `preferred` [B]: what a meta model learns.

  Args:
    rollout: a section of its own, of critiques.
    reward: scores them, above 0 for what is right; a section of its own, that has to compile.
  """
  return _judged(rollout, reward, lambda batch: {'preferred': batch['rewards'] > 0})


def rejective(rollout: Rollout, reward: Annotate) -> StatefulRollout:
  """The rows of a rollout, of which those that are wrong, or of pairs that are too easy, count for nothing.

  With `sft` it is rejective fine-tuning: what remains are right samples of prompts at which others failed.

  Args:
    rollout: as for `with_verdicts`; groups of one prompt each.
    reward: as for `with_verdicts`.
  Returns:
    A `rollout` function; `rejective/kept` [B] is 1 for the rows that count.
  Source: SPCT, https://arxiv.org/abs/2504.02495, of which the abstract was at hand; that too easy ones are
    rejected as well is general knowledge of the method.
  """

  def keep(batch: Batch) -> Batch:
    kept = (batch['rewards'] > 0) & groups.is_informative(batch['rewards'], batch['groups'])
    mask = batch['action_mask'] & kept[:, None]
    return {'action_mask': mask, 'rejective/kept': kept.astype(jnp.float32)}

  return _judged(rollout, reward, keep)


def _judged(rollout, reward, change) -> StatefulRollout:
  check_compiles(reward)
  inner = stateful(rollout)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    draw_key, reward_key = jax.random.split(key)
    batch, world = inner(models, world, draw_key)
    batch = reward(models, batch, reward_key)
    return {**batch, **change(batch)}, world

  return dataclasses.replace(inner, draw=draw, observe=keep_world)
