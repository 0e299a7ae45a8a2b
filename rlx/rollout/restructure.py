"""Problems that are rewritten as hard as they were found to be: hard ones simpler, medium ones otherwise.

A group's accuracy grades its problem. Problems that are not easy are asked again in another form
(`rollout/inject.py`) with the same answer, and the new groups are trained on beside the old ones. In the
paper the policy writes the new problem; here the task does, which keeps the answer, so that nothing is to be
filtered. The reward is asked inside the rollout, so it must be one that compiles.
"""

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.rollout.inject import Prompts, asker, form_of, padded, width
from rlx.rollout.prompts import check_groups
from rlx.types import Annotate, Batch, Key, Models, StatefulRollout, World


def restructured(
    task: Task, policy: Speaker, reward: Annotate, *, batch_size: int, group_size: int, num_slots: int,
    num_restructured: int, hard_form: str, medium_form: str, hard_max: float, medium_max: float,
) -> StatefulRollout:
  """Samples of problems, and of rewritten ones where they were hard or medium.

  Where fewer are so, easy ones are asked again as they are, for shapes are static.

  Args:
    task: where problems come from, in the forms named below.
    policy: samples.
    reward: that of the run, in [0, 1]; it has to compile.
    batch_size: rows B of the batch, those of rewritten problems included.
    group_size: samples of a problem, and of a rewritten one; divides `batch_size`.
    num_slots: as for `prompts.completions`.
    num_restructured: R groups of the batch; at most as many as the others.
    hard_form: form in which hard problems are asked, an easier one.
    medium_form: form in which medium ones are asked, another one.
    hard_max: a problem is hard up to this accuracy of its group (the authors' code: 0.3).
    medium_max: and medium up to this one (0.7).
  Returns:
    A `rollout` function. Its batches have `rewards`, `hard` [B] bool, whether the problem is so, and
    `restructured` [B] bool, whether the row answers another form of it. The rewritten problem is a group of
    its own, behind the others.
  Raises:
    ValueError: a size that does not fit the batch, or bounds out of order.
  Source: CLPO, https://arxiv.org/abs/2509.25004; which ones are rewritten where there are more than R (the
    first, for problems come in no order), and what fills up where there are fewer, are our reading.
  """
  num_groups = check_groups(batch_size, group_size)
  num_problems = num_groups - num_restructured
  if not 1 <= num_restructured <= num_problems:
    raise ValueError(
        f'num_restructured={num_restructured} of {num_groups} groups: need 1 at least, and a half at most'
    )
  if not 0 <= hard_max <= medium_max <= 1:
    raise ValueError(f'hard_max={hard_max}, medium_max={medium_max}: need 0 <= hard_max <= medium_max <= 1')
  ask = asker(policy, reward, group_size=group_size, num_slots=num_slots)

  def rewritten(problems: Batch, hard: jax.Array, medium: jax.Array) -> Prompts:
    own, other, easier = (
        padded(form_of(problems, form), width(problems)) for form in ('', medium_form, hard_form)
    )
    choose = lambda x, y, z: jnp.where(_beside(hard, x), z, jnp.where(_beside(medium, x), y, x))
    return jax.tree.map(choose, own, other, easier)

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, first_key, second_key = jax.random.split(key, 3)
    problems, world = task.draw(world, problem_key, num_problems)
    first = ask(models, form_of(problems, ''), problems, first_key)
    hard, medium = graded(first['rewards'], group_size, hard_max=hard_max, medium_max=medium_max)
    numbers = jnp.argsort(~(hard | medium), stable=True)[:num_restructured]
    some, hard_too, medium_too = jax.tree.map(lambda x: x[numbers], (problems, hard, medium))
    second = ask(models, rewritten(some, hard_too, medium_too), some, second_key)
    rows = jax.tree.map(lambda x, y: jnp.concatenate([x, y]), first, second)
    each = lambda x, y: jnp.repeat(jnp.concatenate([x, y]), group_size)
    new = each(jnp.zeros(num_problems, bool), hard_too | medium_too)
    return {
        **rows, 'groups': jnp.repeat(jnp.arange(num_groups), group_size), 'hard': each(hard, hard_too),
        'restructured': new, 'restructure/hard_problems': each(hard, hard_too), 'restructure/new_rows': new,
        'restructure/new_successes': new & (rows['rewards'] > 0),
    }, world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


def graded(
    rewards: jax.Array, group_size: int, *, hard_max: float, medium_max: float
) -> tuple[jax.Array, jax.Array]:
  """[P] bool each: which problems are hard, and which are medium, by the accuracy of their groups.

  Args:
    rewards: [P * group_size] in [0, 1], in groups of consecutive rows.
    group_size: rows of a group.
    hard_max: the highest accuracy of a hard problem.
    medium_max: the highest of a medium one; others are easy.
  """
  accuracy = rewards.reshape(-1, group_size).mean(axis=1)
  hard = accuracy <= hard_max
  return hard, ~hard & (accuracy <= medium_max)


def _beside(flags: jax.Array, x: jax.Array) -> jax.Array:
  """Flags [N] that broadcast against x [N, ...]."""
  return flags.reshape(-1, *[1] * (x.ndim - 1))
