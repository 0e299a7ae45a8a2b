"""Problems of several generators at once, each as hard as it should be now: see `controllers/difficulty.py`.

A generator is a family of skills, and how hard it is, the number of operations.
"""

import jax
import jax.numpy as jnp

from rlx.controllers import difficulty
from rlx.engine.speaker import Speaker
from rlx.envs.skills import LETTERS, SkillTask
from rlx.rollout.inject import without_forms
from rlx.rollout.prompts import check_groups, columns_of
from rlx.types import Batch, Key, Models, StatefulRollout, World


def adaptive(
    task: SkillTask, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int,
    families: tuple[str, ...], num_active: int, first_level: float, target: float, rate: float,
    min_rise: float, patience: int,
) -> StatefulRollout:
  """Samples of problems whose number of operations follows the policy, in each family of skills for itself.

  Args:
    task: where problems come from; a level is a number of operations, from 1 to its `max_steps`.
    policy: samples.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
    num_slots: as for `prompts.completions`.
    families: letters of each environment's skills, such as ('ab', 'ac').
    num_active: environments that are asked at a time.
    first_level: with which all begin.
    target: as for `difficulty.update`.
    rate: the same.
    min_rise: the same.
    patience: the same.
  Returns:
    A `rollout` function. Its batches have `families` and `levels` [B] int32.
  Raises:
    ValueError: a size that does not fit, or a family of unknown skills.
  """
  num_groups = check_groups(batch_size, group_size)
  weights = family_weights(families, task.num_skills)
  if not 1 <= first_level <= task.max_steps:
    raise ValueError(f'first_level={first_level}; levels of this task are 1 to {task.max_steps}')

  def begin(key: Key) -> World:
    del key
    return {'difficulty': difficulty.init(len(families), num_active=num_active, level=first_level)}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    act_key, make_key, sample_key = jax.random.split(key, 3)
    state = world['difficulty']
    envs, levels = difficulty.act(state, act_key, num_groups, num_active=num_active)
    problems = without_forms(task.compose(make_key, weights[envs], levels, False))
    batch = policy.sample(
        models['policy'], problems['prompts'], problems['prompt_lengths'], sample_key,
        group_size=group_size, num_slots=num_slots,
    )
    each = lambda x: jnp.repeat(x, group_size)
    columns = {'families': each(envs), 'levels': each(levels), 'difficulty/level': each(state.levels[envs])}
    return {**columns_of(problems, group_size), **batch, **columns}, world

  def observe(world: World, batch: Batch) -> World:
    state = difficulty.update(
        world['difficulty'], batch['families'], batch['rewards'], target=target, rate=rate, low=1.0,
        high=float(task.max_steps), min_rise=min_rise, patience=patience,
    )
    return {'difficulty': state}

  return StatefulRollout(begin=begin, draw=draw, data=None, observe=observe)


def family_weights(families: tuple[str, ...], num_skills: int) -> jax.Array:
  """[E, S] float32: 1 for the skills of each family, else 0.

  Raises:
    ValueError: a family is empty, or has a letter that is no skill.
  """
  known = LETTERS[:num_skills]
  if not families or not all(family and set(family) <= set(known) for family in families):
    raise ValueError(f'families={tuple(families)}: each needs a letter or more, all of {known!r}')
  return jnp.array([[letter in family for letter in known] for family in families], jnp.float32)
