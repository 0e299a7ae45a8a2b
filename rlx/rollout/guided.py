"""Episodes that failed are tried again with guidance in the prompt, and learnt from as if there were none.

A group without a success says nothing. With guidance it may have some, and what was said then stands behind
the prompt *without* it: that is the prompt under which the loss scores it, and what the policy learns to do
without help. Its `sampler_logprobs` are those under that prompt as well, so that the ratio is 1 before the
first update.

Source: Agent-RLVR, https://arxiv.org/abs/2506.11425, which learns from pairs by DPO; here a group has the
attempts of both kinds.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.engine import turns as engine
from rlx.engine.speaker import Speaker
from rlx.engine.turns import Turns
from rlx.envs.text import Task
from rlx.errors import at_least
from rlx.rollout import inject
from rlx.rollout.prompts import check_chance, columns_of
from rlx.rollout.turns import Horizon, as_world
from rlx.types import Batch, Key, Models, StatefulRollout, World


def guided_episodes(
    task: Task, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int, turn_tokens: int,
    max_turns: Horizon, guidance: Callable, num_retried: int, kept_rows: int,
) -> StatefulRollout:
  """`turns.episodes`; groups without a success are tried again with guidance.

  Args:
    task: the world.
    policy: speaks.
    batch_size: rows B of the batch.
    group_size: episodes a problem; divides `batch_size`.
    num_slots: episodes in the loop at a time; 0 for all.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode, by the train step.
    guidance: `(task, problems) -> problems` with guidance in prompts of the same lengths, such as `all_told`.
    num_retried: how many groups at most are tried again, which is what it costs.
    kept_rows: rows of a group that stay as they were: where all others succeed, they are what these are
      compared with.
  Returns:
    A `rollout` function. Its batches have `injected` [B] bool, True for the new rows, and for the metrics
    `guided/first`, the share of first attempts that are paid, `guided/new_rows` and `guided/new_successes`.
  Raises:
    ValueError: a size that does not fit, or a task that is no world.
  """
  world_of = as_world(task)
  inject.check_retries(batch_size, group_size, num_retried=num_retried, kept_rows=kept_rows)
  check_chance(policy, group_size)
  at_least(0, num_slots=num_slots)
  engine.check(world_of, policy.decoding, Turns(turn_tokens, 2))
  num_groups = batch_size // group_size

  def begin(key: Key) -> World:
    return {'task': world_of.begin(key), 'step': jnp.int32(0)}

  def play(models: Models, problems: Batch, key: Key, step: jax.Array) -> Batch:
    sample_key, world_key = jax.random.split(key)
    rows = engine.sample(
        models['policy'], policy.model, world_of, problems, sample_key, group_size=group_size,
        decoding=policy.decoding, turns=Turns(turn_tokens, jnp.maximum(max_turns(step), 1)),
        num_slots=num_slots, world_key=world_key,
    )
    return {**columns_of(problems, group_size), **rows}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, first_key, second_key = jax.random.split(key, 3)
    problems, drawn = world_of.draw(world['task'], problem_key, num_groups)
    first = play(models, problems, first_key, world['step'])

    def again(numbers: jax.Array) -> Batch:
      some = jax.tree.map(lambda x: x[numbers], problems)
      said = play(models, guidance(world_of, some), second_key, world['step'])
      rows = without_guidance(said, some, group_size=group_size)
      return {**rows, 'sampler_logprobs': policy.score(models['policy'], rows)[0]}

    batch, new = inject.retry(
        first, again, group_size=group_size, num_retried=num_retried, kept_rows=kept_rows
    )
    paid = batch['rewards'] > 0
    told = {
        'guided/first': first['rewards'] > 0,
        'guided/new_rows': new, 'guided/new_successes': new & paid,
    }
    return {**batch, 'injected': new, **told}, {'task': drawn, 'step': world['step'] + 1}

  return StatefulRollout(begin=begin, draw=draw, data=None)


def without_guidance(rows: Batch, problems: Batch, *, group_size: int) -> Batch:
  """The same actions behind the prompts of the problems, which are as long as those with guidance.

  Args:
    rows: [P * group_size] episodes with guidance.
    problems: [P] with `prompts` and `prompt_lengths`.
    group_size: rows of a problem.
  """
  prompts = jnp.repeat(problems['prompts'], group_size, axis=0)
  room = rows['tokens'].shape[1] - prompts.shape[1]
  in_prompt = jnp.arange(rows['tokens'].shape[1])[None] < rows['prompt_lengths'][:, None]
  tokens = jnp.where(in_prompt, jnp.pad(prompts, ((0, 0), (0, room))), rows['tokens'])
  return {**rows, 'tokens': tokens}


def all_told(task: Task, problems: Batch) -> Batch:
  """Guidance of somebody who knows: all lessons of a `LessonTask`."""
  return task.with_all(problems)


def nothing_told(task: Task, problems: Batch) -> Batch:
  """No guidance: the problems are tried again as they are."""
  del task
  return problems
