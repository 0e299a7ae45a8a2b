"""Episodes with lessons in their prompts, edited by what came of them (`controllers/experience.py`).

The policy is a frozen one, or not: what is kept here is no parameter.
"""

from collections.abc import Callable
import dataclasses

import jax.numpy as jnp

from rlx.controllers import experience
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.envs.worlds.playbook import LessonTask
from rlx.errors import ConfigError, at_least
from rlx.rollout.turns import Horizon, episodes
from rlx.types import Batch, Key, Models, StatefulRollout, World

MEMORY = 'lessons'  # its name in the world of a stage


def experienced_episodes(
    task: Task, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int, turn_tokens: int,
    max_turns: Horizon, baseline: Callable, margin: float, least: int,
) -> StatefulRollout:
  """`turns.episodes` whose prompts hold the lessons so far, which are edited behind each batch.

  Args:
    task: a world with room for lessons, such as `playbook`.
    policy: speaks.
    batch_size: rows B of the batch.
    group_size: episodes a problem, which are compared with each other.
    num_slots: episodes in the loop at a time; 0 for all.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode, by the train step.
    baseline: `(rewards, groups) -> [B]`, what an episode was better than expected, such as `groups.centred`.
    margin: what a lesson has to be worth, in units of reward.
    least: episodes that a pair of a situation and a reply has to be in.
  Returns:
    A `rollout` function; its batches have `lessons/kept`, and so far `lessons/added`, `/changed`, `/deleted`.
  Raises:
    ConfigError: the world has no room for lessons.
  """
  check_lessons(task)
  at_least(1, least=least)
  sizes = dict(
      batch_size=batch_size, group_size=group_size, num_slots=num_slots, turn_tokens=turn_tokens,
      max_turns=max_turns,
  )
  inner = episodes(task, policy, **sizes)

  def begin(key: Key) -> World:
    return {**inner.begin(key), MEMORY: experience.init_lessons(num_lessons=task.num_lessons)}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    memory = world[MEMORY]
    shown = dataclasses.replace(
        task, sample=lambda key, num, held_out: with_those_of(task, memory, task.sample(key, num, held_out))
    )
    others = {name: x for name, x in world.items() if name != MEMORY}
    batch, after = episodes(shown, policy, **sizes)(models, others, key)
    num = batch['rewards'].shape
    told = {f'lessons/{name}': jnp.full(num, x, jnp.float32) for name, x in zip(
        experience.EDITS, memory['edits'], strict=True
    )}
    kept = jnp.full(num, jnp.sum(memory['keys'] >= 0), jnp.float32)
    return {**batch, 'lessons/kept': kept, **told}, {**after, MEMORY: memory}

  def observe(world: World, batch: Batch) -> World:
    advantages = baseline(batch['rewards'], batch['groups'])
    worth, counts = experience.pair_values(advantages, *task.pairs_of(batch), sizes=task.sizes)
    edited = experience.edit_lessons(world[MEMORY], worth, counts, margin=margin, least=least)
    return {**world, MEMORY: edited}

  return StatefulRollout(begin=begin, draw=draw, data=None, observe=observe)


def with_those_of(task: LessonTask, memory: World, problems: Batch) -> Batch:
  """The problems with the lessons of a memory in their prompts."""
  num = problems['prompts'].shape[0]
  each = lambda x: jnp.broadcast_to(x, (num, *x.shape))
  return task.with_lessons(problems, each(memory['keys']), each(memory['values']))


def check_lessons(task: Task) -> None:
  """Raises `ConfigError` where the prompts of a world have no room for lessons."""
  if not isinstance(task, LessonTask):
    raise ConfigError(f'{type(task).__name__} has no room for lessons in its prompts; playbook has')
