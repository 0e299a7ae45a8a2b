"""New problems for what the policy fails at: skills that fail are recombined, as often as they fail.

A numbered set of seed problems is trained on, and a table says how each has gone
(`controllers/statistics.py`). As soon as there are failures that persist, a part of every batch is made of
their skills, anew each time. The problems are made and verified by the task, so there is nothing to filter.
"""

from collections.abc import Callable
import functools

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.envs.skills import SkillTask
from rlx.names import fill
from rlx.rollout import curriculum
from rlx.rollout.inject import without_forms
from rlx.rollout.prompts import check_groups, columns_of
from rlx.types import Batch, Key, Models, StatefulRollout, World


def synthesised(
    task: SkillTask, policy: Speaker, *, num_problems: int, batch_size: int, group_size: int, num_slots: int,
    num_synthetic: int, min_steps: int, max_steps: int, failures: Callable, keep: float,
) -> StatefulRollout:
  """Samples of seed problems, and of problems made of the skills that fail.

  The outcomes that the table takes in are the batch's `rewards`, which should be in [0, 1].

  Args:
    task: where problems come from.
    policy: samples.
    num_problems: N, seed problems; so many are made, always the same.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
    num_slots: as for `prompts.completions`.
    num_synthetic: problems of a batch that are made, once there are failures.
    min_steps: the fewest operations of such a problem.
    max_steps: the most.
    failures: weight of each seed problem [N], 0 where it is no failure (`prompts.persistent_failures`).
    keep: as for `statistics.update`.
  Returns:
    A `rollout` function. Its batches have `rows`, which are `num_problems` for problems that were made.
  Raises:
    ValueError: a size that does not fit the batch or the task.
  Source: SwS, https://arxiv.org/abs/2506.08989. There, problems are found to fail in a first run, concepts
    are named and recombined by a language model, and a second run begins from the first model; that both go
    on together, as failures come and go, is our reading.
  """
  num_groups = check_groups(batch_size, group_size)
  if not 0 <= num_synthetic <= num_groups or not 1 <= min_steps <= max_steps <= task.max_steps:
    raise ValueError(
        f'num_synthetic={num_synthetic}, min_steps={min_steps}, max_steps={max_steps}: need at most '
        f'{num_groups} problems, and 1 <= min_steps <= max_steps <= {task.max_steps}'
    )
  problems = curriculum.numbered(task, num_problems)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    table, problems = world['statistics'], world['data']
    row_key, steps_key, make_key, score_key, sample_key = jax.random.split(key, 5)
    failing = fill(failures, {'table': table, 'step': world['batches'], 'key': score_key})
    weights = weaknesses(failing, problems['skills'], num_skills=task.num_skills)
    rows = jax.random.randint(row_key, (num_groups,), 0, num_problems)
    steps = jax.random.randint(steps_key, (num_groups,), min_steps, max_steps + 1)
    # Where nothing fails nothing is made, but shapes are static: so something is, and is not used.
    by_failure = jnp.where(weights.any(), weights, 1)
    made = task.compose(make_key, jnp.broadcast_to(by_failure, (num_groups, task.num_skills)), steps, False)
    is_made = (jnp.arange(num_groups) < num_synthetic) & weights.any()
    choose = lambda x, y: jnp.where(is_made.reshape(-1, *[1] * (x.ndim - 1)), x, y[rows])
    drawn = jax.tree.map(choose, made, {name: jnp.asarray(x) for name, x in problems.items()})
    batch = policy.sample(
        models['policy'], drawn['prompts'], drawn['prompt_lengths'], sample_key, group_size=group_size,
        num_slots=num_slots,
    )
    each = lambda x: jnp.repeat(x, group_size)
    columns = {'rows': each(jnp.where(is_made, num_problems, rows)), 'synthesis/made': each(is_made)}
    kept = {name: world[name] for name in ('statistics', 'batches')}
    return {**columns_of(without_forms(drawn), group_size), **batch, **columns}, kept

  return StatefulRollout(
      begin=lambda key: curriculum.begin(num_problems), draw=draw, data=problems,
      observe=functools.partial(curriculum.observe, keep=keep),
  )


def weaknesses(failures: jax.Array, skills: jax.Array, *, num_skills: int) -> jax.Array:
  """[S] float32: how much the problems that ask for a skill fail, on average.

      w_s = Σ_n f_n 1[s in n] / Σ_n 1[s in n]

  A mean, not a sum: what is asked for often is not weak for that.

  Args:
    failures: [N] weights f of problems, at least 0.
    skills: [N, K] int32 of each problem, -1 for none; once or more is the same.
    num_skills: S.
  Source: SwS, https://arxiv.org/abs/2506.08989, which shares problems out among domains by their failures;
    our reading.
  """
  asked = jnp.any(skills[:, :, None] == jnp.arange(num_skills)[None, None], axis=1).astype(jnp.float32)
  return failures @ asked / jnp.maximum(asked.sum(axis=0), 1)
