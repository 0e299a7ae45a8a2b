"""Parallel drafts, a bounded workspace distilled from them, and a next round that reads it.

    drafts of round r:  y_1 .. y_M ~ π(· | x, C_r),    C_0 empty,    C_r+1 = distil(y_1 .. y_M)

Every call is short: the workspace has a fixed room, however many drafts there were, and only the newest one
is read. The model is an improvement operator on its own answers, and a batch holds all rounds, so that what
is trained is what is run: drafts and refinements are rows of the same kind, each with its own reward.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine.columns import window
from rlx.engine.speaker import Speaker
from rlx.envs import text
from rlx.envs.text import Task
from rlx.errors import at_least
from rlx.rollout.prompts import check_groups, check_single, check_solutions, columns_of
from rlx.types import Batch, Key, Models, StatefulRollout, World


def rounds(
    task: Task | Dataset, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int,
    num_rounds: int, distil: Callable,
) -> StatefulRollout:
  """Draws training problems, and samples `num_rounds` rounds of `group_size` drafts of each.

  Args:
    task: where problems come from.
    policy: samples each draft.
    batch_size: rows B of the batch, of all rounds together.
    group_size: M, drafts of a problem in a round; `group_size * num_rounds` divides `batch_size`.
    num_slots: as for `prompts.completions`.
    num_rounds: at least 1; with 1 it is `prompts.completions`.
    distil: `(drafts [P, M, max_tokens]) -> (workspaces [P, W], lengths [P])`, such as `most_frequent`;
      drafts are padded behind their end token.
  Returns:
    A `rollout` function. Its batches have `rounds` [B] int32 from 0; the rows of a prompt and round are a
    group, and those of a round are together, the last round last.
  Raises:
    ValueError: numbers that do not divide, or fewer rounds than 1.
  Source: PDR, https://arxiv.org/abs/2510.01123. That drafts are trained on too, as single passes, is our
    reading of its mixture of standard and operator rollouts.
  """
  if num_rounds < 1:
    raise ValueError(f'num_rounds={num_rounds} must be at least 1')
  num_prompts = check_groups(batch_size, group_size * num_rounds)
  drafted = jax.ShapeDtypeStruct((num_prompts, group_size, policy.decoding.max_tokens), jnp.int32)
  room = jax.eval_shape(distil, drafted)[0].shape[1] if num_rounds > 1 else 0

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, *keys = jax.random.split(key, num_rounds + 1)
    problems, world = task.draw(world, problem_key, num_prompts)
    prompts, lengths = jnp.pad(problems['prompts'], ((0, 0), (0, room))), problems['prompt_lengths']
    columns, parts = columns_of(problems, group_size), []
    for index, round_key in enumerate(keys):
      batch = policy.sample(
          models['policy'], prompts, lengths, round_key, group_size=group_size, num_slots=num_slots
      )
      parts.append({
          **columns, **batch, 'groups': batch['groups'] + index * num_prompts,
          'rounds': jnp.full_like(batch['groups'], index),
      })
      if index + 1 < num_rounds:
        drafts = engine.completions_of(batch, policy.decoding).reshape(num_prompts, group_size, -1)
        prompts, lengths = with_workspace(problems, *distil(drafts))
    return jax.tree.map(lambda *x: jnp.concatenate(x), *parts), world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


def shown(
    task: Task, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int, distil: Callable
) -> StatefulRollout:
  """Draws training problems with their solutions as the actions, half of them behind a workspace.

  For supervised stages: a small policy has then seen what its own drafts look like before it is paid for
  reading them.

  Args:
    task: where problems come from.
    policy: samples the drafts, and scores solutions.
    batch_size: rows B of the batch, an even number.
    group_size: M, drafts of a problem that is read with a workspace.
    num_slots: as for `prompts.completions`.
    distil: as for `rounds`.
  Returns:
    A `rollout` function; rows with workspaces are the last ones.
  Raises:
    ValueError: the task is not procedural, its solutions are longer than the actions that are scored, or the
      batch has no two halves.
  """
  check_single(task)
  if not isinstance(task, Task):
    raise ValueError('only procedural tasks say the solutions of what they ask; take prompts.solutions')
  check_solutions(task, policy)
  at_least(1, group_size=group_size)
  half, odd = divmod(batch_size, 2)
  if half < 1 or odd:
    raise ValueError(f'batch_size={batch_size}: half of the rows have a workspace; take an even number')

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, draft_key = jax.random.split(key)
    problems, world = task.draw(world, problem_key, batch_size)
    batch = policy.sample(
        models['policy'], problems['prompts'][half:], problems['prompt_lengths'][half:], draft_key,
        group_size=group_size, num_slots=num_slots,
    )
    drafts = engine.completions_of(batch, policy.decoding).reshape(half, group_size, -1)
    workspaces, sizes = distil(drafts)
    sizes = jnp.concatenate([jnp.zeros_like(sizes), sizes])  # none in the first half
    prompts, lengths = with_workspace(problems, jnp.concatenate([workspaces, workspaces]), sizes)
    return text.demonstrations({**problems, 'prompts': prompts, 'prompt_lengths': lengths}), world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


def with_workspace(problems: Batch, workspaces: jax.Array, sizes: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Prompts with their workspaces behind them, [P, Tp + W], and the lengths of both together, [P].

  Args:
    problems: with `prompts, prompt_lengths`.
    workspaces: [P, W] int32.
    sizes: [P] int32, how many tokens of each count.
  """
  prompts, lengths = problems['prompts'], problems['prompt_lengths']
  room = workspaces.shape[1]
  prompts = jnp.pad(prompts, ((0, 0), (0, room)))
  index = jnp.arange(prompts.shape[1])[None] - lengths[:, None]
  behind = jnp.where(index < sizes[:, None], window(workspaces, -lengths, prompts.shape[1]), 0)
  return jnp.where(index < 0, prompts, behind), lengths + sizes


def most_frequent(drafts: jax.Array, *, num: int, eos_id: int, separator: int) -> tuple[jax.Array, jax.Array]:
  """The `num` most frequent of different drafts, each with a separator behind it; fewer if all agree.

  Among drafts that are equally frequent the first one comes first. What of a draft is not its answer should
  be cut before.

  Args:
    drafts: [P, M, C] int32, padded with 0 behind their end token.
    num: how many, at most M.
    eos_id: is not copied.
    separator: token behind each.
  Returns:
    [P, num * (C + 1)] int32 workspaces with 0 behind their end, and their lengths [P].
  """
  num_prompts, num_drafts, columns = drafts.shape
  same = jnp.all(drafts[:, :, None] == drafts[:, None], axis=-1)  # [P, M, M]
  counts = same.sum(axis=-1)
  earlier = jnp.tril(jnp.ones((num_drafts, num_drafts), bool), -1)[None]
  is_first = ~jnp.any(same & earlier, axis=-1)
  order = jnp.argsort(jnp.where(is_first, -counts, 1), axis=-1, stable=True)[:, :num]
  kept = jnp.take_along_axis(is_first, order, axis=1)
  picked = jnp.take_along_axis(drafts, order[:, :, None], axis=1)
  said = (picked != eos_id) & (picked != 0) & kept[:, :, None]
  picked = jnp.concatenate([picked, jnp.full((num_prompts, num, 1), separator)], axis=-1)
  said = jnp.concatenate([said, kept[:, :, None]], axis=-1).reshape(num_prompts, -1)
  flat = jnp.where(said, picked.reshape(num_prompts, -1), 0)
  place = jnp.argsort(~said, axis=1, stable=True)  # what is said moves to the front
  return jnp.take_along_axis(flat, place, axis=1).astype(jnp.int32), said.sum(axis=1)
