"""Rollouts of episodes: a policy and a world that answer each other, and a world's expert in its place.

How many turns an episode may have is a function of the train step (`controllers/schedules.py`), so that a run
can begin with short ones. The rows are those of `engine/turns.py`, with the rewards of the world in them: the
reward of such a run is `of_world`.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from rlx.engine import turns as engine
from rlx.engine.speaker import Speaker
from rlx.engine.turns import Rewriting, Turns
from rlx.envs.text import Task
from rlx.envs.turns import TurnTask, one_turn
from rlx.errors import ConfigError, at_least
from rlx.rollout import contexts
from rlx.rollout.curriculum import numbered
from rlx.rollout.prompts import check_chance, check_groups, columns_of
from rlx.types import Batch, Key, Models, Rollout, StatefulRollout, World, stateful

_WORLD = 2  # beside the keys 0 and 1 that `prompts.sampled` splits into
Horizon = Callable[[jax.Array], jax.Array]  # train step [] -> the most turns of an episode []


def episodes(
    task: Task, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int, turn_tokens: int,
    max_turns: Horizon, read_tokens: int = 1,
) -> StatefulRollout:
  """Draws training problems, and `group_size` episodes of each between `models['policy']` and the world.

  Args:
    task: the world; a text task is one of a single turn.
    policy: speaks. Its `max_tokens` is the room behind the prompt, observations included.
    batch_size: rows B of the batch, one an episode.
    group_size: episodes a problem; divides `batch_size`.
    num_slots: episodes that are in the loop at a time, the next one taking the place of one that ends; 0 for
      all.
    turn_tokens: the most tokens of an action, its end token included.
    max_turns: the most turns of an episode, by the train step (`controllers/schedules.py`).
    read_tokens: how many tokens of an observation are read at once, in steps of their own; 1 for the steps in
      which others draw. It changes nothing but the time.
  Returns:
    A `rollout` function; see `engine/turns.as_rows` for its batches.
  Raises:
    ValueError: a size that does not fit, or a task that is no world.
  """
  return rewritten_episodes(
      task, policy, batch_size=batch_size, group_size=group_size, num_slots=num_slots,
      turn_tokens=turn_tokens, max_turns=max_turns, read_tokens=read_tokens, context=contexts.whole,
  )


def rewritten_episodes(
    task: Task, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int, turn_tokens: int,
    max_turns: Horizon, context: Callable[[TurnTask], Rewriting], read_tokens: int = 1,
) -> StatefulRollout:
  """`episodes` whose contexts are rewritten when they are full, into at most K rows of an episode.

  Rows of an episode share its reward, and those that were not needed have none. For baselines in which an
  episode counts once: `advantages.turns.of_trajectories`.

  Args:
    task: as for `episodes`, like all that follows.
    policy: speaks; its `max_tokens` is the room of a row.
    batch_size: rows B of the batch, those that are not needed included: K times the episodes.
    group_size: episodes a problem.
    num_slots: episodes in the loop at a time.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode, over all of its rows.
    context: what becomes of a full row (`rollout/contexts.py`).
    read_tokens: as for `episodes`.
  Raises:
    ValueError: as for `episodes`.
  """
  world_of = as_world(task)
  rewriting = context(world_of)
  check_groups(batch_size, group_size * rewriting.rows)
  num_groups = batch_size // (group_size * rewriting.rows)
  check_chance(policy, group_size)
  at_least(0, num_slots=num_slots)
  engine.check(world_of, policy.decoding, Turns(turn_tokens, 2, read_tokens), rewriting)

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, sample_key = jax.random.split(key)
    problems, drawn = world_of.draw(world['task'], problem_key, num_groups)
    most = jnp.maximum(max_turns(world['step']), 1)
    batch = engine.sample(
        models['policy'], policy.model, world_of, problems, sample_key, group_size=group_size,
        decoding=policy.decoding, turns=Turns(turn_tokens, most, read_tokens), num_slots=num_slots,
        world_key=jax.random.fold_in(key, _WORLD), rewriting=rewriting,
    )
    columns = columns_of(problems, group_size * rewriting.rows)
    return {**columns, **batch}, {'task': drawn, 'step': world['step'] + 1}

  return StatefulRollout(begin=_counting(world_of), draw=rollout, data=None)


def expert_turns(
    task: Task, policy: Speaker, *, batch_size: int, turn_tokens: int, max_turns: int, num_problems: int = 0
) -> StatefulRollout:
  """Draws training problems with the episodes of the world's expert as the actions, for supervised stages.

  Args:
    task: the world.
    policy: scores them; its `max_tokens` is the room behind the prompt.
    batch_size: rows B of the batch.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode.
    num_problems: so many are shown, always the same ones; 0 for as many as are drawn.
  Raises:
    ValueError: a size that does not fit, or a task that is no world.
  """
  world_of, turns = as_world(task), Turns(turn_tokens, max_turns)
  at_least(1, batch_size=batch_size, max_turns=max_turns)
  at_least(0, num_problems=num_problems)
  engine.check(world_of, policy.decoding, turns)
  shown = numbered(world_of, num_problems) if num_problems else None

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    problem_key, world_key = jax.random.split(key)
    if num_problems:
      problems, world = _some(world['data'], problem_key, batch_size), {}
    else:
      problems, world = world_of.draw(world, problem_key, batch_size)
    batch = engine.demonstrate(
        world_of, problems, world_key, decoding=policy.decoding, turns=turns, most_turns=max_turns
    )
    return {**columns_of(problems, 1), **batch}, world

  begin = (lambda key: {}) if num_problems else world_of.begin
  return StatefulRollout(begin=begin, draw=rollout, data=shown)


def _some(problems: Batch, key: Key, num: int) -> Batch:
  which = jax.random.randint(key, (num,), 0, problems['prompt_lengths'].shape[0])
  return {name: jnp.asarray(x)[which] for name, x in problems.items()}


def as_world(task: Any) -> TurnTask:
  """A task as a world of turns. Raises `ConfigError` for a data set, which answers nothing."""
  if not isinstance(task, Task):
    raise ConfigError(
        f'rollouts of turns ask a world (rlx/envs/worlds, or a text task); {type(task).__name__} answers '
        "nothing: take rollout.name='prompts.completions' for it"
    )
  return one_turn(task)


def _counting(task: TurnTask) -> Callable[[Key], World]:
  return lambda key: {'task': task.begin(key), 'step': jnp.int32(0)}


def tokens_as_turns(rollout: Rollout, *, num_turns: int) -> StatefulRollout:
  """The rows of a rollout, in which every action is a turn of its own, and the last turn has what is left.

  Args:
    rollout: a section of its own.
    num_turns: K.
  """
  inner = stateful(rollout)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, world = inner(models, world, key)
    nth = jnp.cumsum(batch['action_mask'], axis=1, dtype=jnp.int32) - 1
    return {**batch, 'turns': jnp.minimum(nth, num_turns - 1)}, world

  return dataclasses.replace(inner, draw=draw)
