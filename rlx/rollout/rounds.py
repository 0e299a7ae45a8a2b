"""Sampling in rounds: the outcomes of one round say what is sampled in the next.

The reward is asked inside the rollout, so it must be one that compiles, such as `verifier`. The train step
asks it again, of the rows that are kept and with another key: where a reward is a matter of chance, what was
chosen by one answer is trained on with the other. Shapes are static: a round has a fixed number of rows, and
what is trained on is a fixed number chosen among all.
"""

import functools

import jax
import jax.numpy as jnp

from rlx.controllers import allocation, schedules, stopping
from rlx.data.dataset import Dataset
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.rewards.host import check_compiles
from rlx.rollout.inject import asker
from rlx.rollout.prompts import check_groups
from rlx.types import Annotate, Batch, Key, Models, StatefulRollout, World


def until_settled(
    task: Task | Dataset, policy: Speaker, reward: Annotate, *, batch_size: int, group_size: int,
    num_slots: int, round_rows: int, num_rounds: int, positives_min: int, negatives_min: int,
) -> StatefulRollout:
  """Samples a problem until it has enough right and wrong rows, and keeps a balanced group of those.

  Every round deals its rows evenly among the problems that are not settled yet. Of all rows of a problem
  `group_size` are kept, half of them right where there are enough of both kinds; the statistics of all stay
  known, as the columns `successes`, `attempts` and `success_rates`. The last is the unbiased rate of
  `controllers/stopping.py`: since a problem stops where it has enough, successes / attempts is not.

  Args:
    task: where problems come from.
    policy: samples.
    reward: that of the run, 1 for right and 0 for wrong; it has to compile.
    batch_size: rows B of the batch.
    group_size: rows that are kept of a problem; divides `batch_size`.
    num_slots: as for `prompts.completions`.
    round_rows: rows of a round; a multiple of the number of problems.
    num_rounds: R; a problem that is never settled gets as many rows as `group_size` at least.
    positives_min: right rows that are enough.
    negatives_min: wrong rows that are enough; the two make up a group at least.
  Returns:
    A `rollout` function. Its batches have `rewards`, `successes`, `attempts` and `success_rates` [B].
  Raises:
    ValueError: a size that does not fit.
  Source: Reinforce-Ada, https://arxiv.org/abs/2510.04996, as in the authors' code.
  """
  check_compiles(reward)
  num_prompts = check_groups(batch_size, group_size)
  if round_rows % num_prompts or num_rounds * round_rows < batch_size:
    raise ValueError(
        f'round_rows={round_rows}, num_rounds={num_rounds}: a round is a multiple of the {num_prompts} '
        f'problems, and all rounds together at least the {batch_size} rows of the batch'
    )
  if positives_min + negatives_min < group_size:
    raise ValueError(
        f'positives_min={positives_min} and negatives_min={negatives_min} do not make up a group of '
        f'group_size={group_size}'
    )

  rule = dict(positives_min=positives_min, negatives_min=negatives_min)

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, round_key, keep_key = jax.random.split(key, 3)
    problems, world = task.draw(world, problem_key, num_prompts)

    def one(known, key):
      (positives, negatives), paths, rates = known
      open_ = ~allocation.settled(positives, negatives, **rule)
      place = allocation.expand(allocation.evenly(open_, round_rows), round_rows)
      rows = _asked(models, policy, reward, problems, place, key, num_slots)
      right = jax.ops.segment_sum((rows['rewards'] > 0).astype(jnp.int32), place, num_segments=num_prompts)
      scored = ~jnp.isnan(rows['rewards'])
      total = jax.ops.segment_sum(scored.astype(jnp.int32), place, num_segments=num_prompts)
      # A round after the last problem is settled deals to all, for shapes are static: it does not count.
      rows['counts'] = jnp.full(place.shape, jnp.any(open_))
      added = jnp.where(jnp.any(open_), jnp.stack([right, total - right]), 0)
      positives, negatives = positives + added[0], negatives + added[1]
      paths, latest = stopping.after_round(paths, added.sum(axis=0), positives, **rule)
      return ((positives, negatives), paths, jnp.where(open_, latest, rates)), rows

    nothing = jnp.zeros(num_prompts, jnp.int32)
    known = ((nothing, nothing), stopping.begin(num_prompts, **rule), jnp.zeros(num_prompts))
    known, rows = jax.lax.scan(one, known, jax.random.split(round_key, num_rounds))
    rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)
    return _balanced(rows, known, keep_key, group_size, batch_size), world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


def _asked(models, policy, reward, problems, place, key, num_slots) -> Batch:
  """Rewarded rows, those of each problem as `place` says."""
  sample_key, reward_key = jax.random.split(key)
  prompts, lengths = problems['prompts'][place], problems['prompt_lengths'][place]
  rows = policy.sample(
      models['policy'], prompts, lengths, sample_key, group_size=1, num_slots=num_slots
  )
  columns = {k: v[place] for k, v in problems.items() if k not in ('prompts', 'prompt_lengths')}
  return reward(models, {**columns, **rows, 'groups': place}, reward_key)


def _balanced(rows: Batch, known, key, group_size: int, batch_size: int) -> Batch:
  """`group_size` rows of each problem, problem by problem, with what all of its rows say of it."""
  counts, groups = rows.pop('counts'), rows['groups']
  num_prompts = batch_size // group_size
  # Rows that do not count are given to a problem of their own, and fall out with it.
  kept = schedules.balanced(
      rows['rewards'] > 0, jnp.where(counts, groups, num_prompts), key, num_kept=group_size
  )
  order = jnp.argsort(jnp.where(kept & counts, groups, num_prompts), stable=True)[:batch_size]
  batch = jax.tree.map(lambda x: x[order], rows)
  (positives, negatives), _, rates = known
  of_row = lambda x: x[batch['groups']].astype(jnp.float32)
  return {
      **batch,
      'successes': of_row(positives),
      'attempts': of_row(positives + negatives),
      'success_rates': of_row(rates),
      'sampling/rows': jnp.full(batch_size, counts.sum(), jnp.float32),
  }


def within_band(
    task: Task | Dataset, policy: Speaker, reward: Annotate, *, batch_size: int, group_size: int,
    num_slots: int, round_groups: int, num_rounds: int, low: float, high: float,
) -> StatefulRollout:
  """Fills the batch with groups whose accuracy is neither too low nor too high, sampling until it is full.

  Where the rounds end before that, groups outside the band fill it up; `in_band` tells.

  Args:
    task: where problems come from.
    policy: samples.
    reward: that of the run, in [0, 1]; it has to compile.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
    num_slots: as for `prompts.completions`.
    round_groups: groups that are sampled in a round.
    num_rounds: rounds at most; together they fill the batch at least.
    low: the least accuracy of a group that is wanted.
    high: the highest; 1 - low balances the band around 1/2.
  Returns:
    A `rollout` function. Its batches have `rewards` and `in_band` [B] bool.
  Raises:
    ValueError: a size that does not fit, or an empty band.
  Source: online difficulty filtering, https://arxiv.org/abs/2504.03380; that the ends are inside, and one
    program instead of workers that fill a queue, are our reading.
  """
  num_groups = check_groups(batch_size, group_size)
  if num_rounds * round_groups < num_groups:
    raise ValueError(
        f'num_rounds={num_rounds} of round_groups={round_groups} cannot fill {num_groups} groups'
    )
  if not 0 <= low <= high <= 1:
    raise ValueError(f'low={low}, high={high}: need 0 <= low <= high <= 1')
  ask = asker(policy, reward, group_size=group_size, num_slots=num_slots)

  def one(models, world, data, key):
    problem_key, ask_key = jax.random.split(key)
    world = world if data is None else {**world, 'data': data}
    problems, world = task.draw(world, problem_key, round_groups)
    rows = ask(models, (problems['prompts'], problems['prompt_lengths']), problems, ask_key)
    accuracy = rows['rewards'].reshape(round_groups, group_size).mean(axis=1)
    wanted = (accuracy >= low) & (accuracy <= high)
    return {**rows, 'in_band': jnp.repeat(wanted, group_size)}, wanted, world

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    data, world = world.get('data'), {name: x for name, x in world.items() if name != 'data'}
    sample = functools.partial(one, models)
    shapes = jax.eval_shape(sample, world, data, key)[0]
    empty = jax.tree.map(lambda x: jnp.zeros((batch_size, *x.shape[1:]), x.dtype), shapes)

    def unfinished(carry):
      index, num_filled, _, _ = carry
      return (index < num_rounds) & (num_filled < num_groups)

    def fill_up(carry):
      index, num_filled, batch, world = carry
      rows, wanted, world = sample(world, data, jax.random.fold_in(key, index))
      # Wanted groups fill the batch from its beginning, the others from its end, where those have not come.
      others = index * round_groups - num_filled + jnp.cumsum(~wanted)
      place = jnp.where(wanted, num_filled + jnp.cumsum(wanted) - 1, num_groups - others)
      num_filled += wanted.sum()
      place = jnp.where(wanted | (place >= num_filled), place, num_groups)
      places = (place[:, None] * group_size + jnp.arange(group_size)[None]).reshape(-1)
      batch = jax.tree.map(lambda all_, x: all_.at[places].set(x, mode='drop'), batch, rows)
      return index + 1, num_filled, batch, world

    num_done, _, batch, world = jax.lax.while_loop(
        unfinished, fill_up, (jnp.int32(0), jnp.int32(0), empty, world)
    )
    return {
        **batch,
        'groups': jnp.repeat(jnp.arange(num_groups), group_size),
        'sampling/in_band': batch['in_band'].astype(jnp.float32),
        'sampling/rows': jnp.full(batch_size, num_done * round_groups * group_size, jnp.float32),
    }, world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)
