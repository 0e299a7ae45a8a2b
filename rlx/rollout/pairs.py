"""Comparisons: pairs of answers to the same problem, two rows behind one another, the better one first."""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.data.dataset import Dataset
from rlx.data.stream import Streamed
from rlx.engine.speaker import Judge, Speaker
from rlx.envs.gold import Voters
from rlx.errors import at_least, between
from rlx.losses.comparisons import both, sides
from rlx.rewards.critiques import critiqued
from rlx.rewards.host import check_compiles
from rlx.rewards.of_learners import best_and_worst
from rlx.rollout.prompts import check_solutions
from rlx.types import (
  Annotate,
  Batch,
  Key,
  Models,
  Rollout,
  StatefulRollout,
  World,
  keep_world,
  redrawn,
  stateful,
)


def comparisons(task: Dataset, policy: Speaker, *, batch_size: int) -> StatefulRollout:
  """Draws comparisons of a data set, for a policy that learns from them.

  Args:
    task: whose rows are `prompt, chosen, rejected`.
    policy: scores them.
    batch_size: rows B of the batch, two a comparison.
  Raises:
    ValueError: `batch_size` is odd, the rows are no pairs, or an answer is longer than the actions that are
      scored.
  """
  check_solutions(task, policy)
  return judged_comparisons(task, batch_size=batch_size)


def judged_comparisons(task: Dataset, *, batch_size: int) -> StatefulRollout:
  """As `comparisons`, for a reward model, which reads rows whole.

  Args:
    task: whose rows are `prompt, chosen, rejected`.
    batch_size: rows B of the batch, two a comparison.
  Raises:
    ValueError: as `comparisons`.
  """
  at_least(2, batch_size=batch_size)
  if batch_size % 2:
    raise ValueError(f'batch_size={batch_size}: a comparison is two rows; take {batch_size + 1}')
  if task.num_answers != 2:
    raise ValueError('the rows of task.train are no pairs; they need columns chosen and rejected')
  return _demonstrated(task, batch_size)


def labelled(task: Dataset, policy: Speaker, *, batch_size: int) -> StatefulRollout:
  """Draws answers that are labelled good or bad; of pairs the better ones are good, the worse ones bad.

  Args:
    task: whose rows are `prompt, completion, label`, or pairs.
    policy: scores them.
    batch_size: rows B of the batch.
  Raises:
    ValueError: the rows have no labels, or all the same; of pairs, `batch_size` is odd.
  """
  if task.num_answers == 2:
    return comparisons(task, policy, batch_size=batch_size)
  check_solutions(task, policy)
  at_least(1, batch_size=batch_size)
  if 'labels' not in task.data:
    raise ValueError('the rows of task.train have no labels; they need a column label, true or false')
  labels = task.data['labels']
  if not isinstance(task, Streamed) and labels.all() == labels.any():
    kind = 'good' if labels.all() else 'bad'
    raise ValueError(f'all {len(labels)} answers of task.train are {kind}; some of each are needed')
  return _demonstrated(task, batch_size)


def stepwise(task: Dataset, *, batch_size: int) -> StatefulRollout:
  """Draws answers whose steps are labelled right or wrong, for a head that says a value of each step.

  Args:
    task: whose rows are `prompt, completions, labels`.
    batch_size: rows B of the batch.
  Returns:
    A `rollout` function, whose rows have `step_ends` and `step_labels` [B, T].
  Raises:
    ValueError: the rows have no labels of steps.
  """
  at_least(1, batch_size=batch_size)
  if 'step_labels' not in task.data:
    raise ValueError(
        'the rows of task.train have no labels of steps; they need columns completions, a list of steps, and '
        'labels, as many'
    )
  return _demonstrated(task, batch_size)


def parting_steps(rollout: Rollout) -> StatefulRollout:
  """The comparisons of a rollout, of which only the step counts at which the answers part: Step-DPO.

      L = -log σ( β log π(s_w | x, s_1..k-1) / ref(..) - β log π(s_l | x, s_1..k-1) / ref(..) )

  The steps before are the same in both answers, and belong to the prompt; what stands behind the parting
  step is read by nobody. Where one answer has no further step, its end token is what parts it.

  Args:
    rollout: a section of its own, of comparisons with `step_ends` [2N, T].
  Returns:
    A `rollout` function; `action_mask`, `valid`, `turns` and `prompt_lengths` are those of the parting step.
  Raises:
    ValueError: the rows are not given step by step.
  Source: Step-DPO, Lai et al., 2024, https://arxiv.org/abs/2406.18629, whose worse step is the first wrong
    one of a sampled answer.
  """

  def parted(drawn: Rollout) -> Rollout:
    def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
      batch, world = drawn(models, world, key)
      if 'step_ends' not in batch:
        raise ValueError('the answers of task.train have no steps; chosen and rejected are to be lists')
      return {**batch, **_parting_step(batch)}, world

    return draw

  return redrawn(rollout, parted, observe=keep_world)


def _parting_step(batch: Batch) -> Batch:
  """The columns that say what counts, of the first steps that differ."""
  one, other = sides(batch['tokens'])
  columns = jnp.arange(one.shape[1])[None]
  differ = (one != other) | jnp.logical_xor(*sides(batch['valid']))
  parts_at = jnp.repeat(jnp.argmax(differ, axis=1), 2)[:, None]
  ends = batch['step_ends']
  before = jnp.repeat(jnp.logical_and(*sides(ends)), 2, axis=0) & (columns < parts_at)
  begins = jnp.maximum(jnp.max(jnp.where(before, columns + 1, 0), axis=1), batch['prompt_lengths'])[:, None]
  last = batch['valid'].sum(axis=1, keepdims=True) - 1
  stops = jnp.min(jnp.where(ends & (columns >= parts_at), columns, last), axis=1, keepdims=True)
  counts = batch['action_mask'] & (columns >= begins) & (columns <= stops)
  return {
      'action_mask': counts, 'valid': columns <= stops, 'step_ends': ends & counts,
      'turns': jnp.where(counts, 0, -1), 'prompt_lengths': begins[:, 0].astype(jnp.int32),
  }


def _demonstrated(task: Dataset, batch_size: int) -> StatefulRollout:
  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    return task.demonstrate(world, key, batch_size)

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


def by_vote(rollout: Rollout, voters: Voters, *, flips: float) -> StatefulRollout:
  """The comparisons of a rollout, of which the weakest change sides; how strong one is, reward models vote.

      strength = 1/M Σ_m r_m(y_w) - r_m(y_l)

  Labels that are wrong are mostly those that the models, which learnt from them all, are least sure of.

  Args:
    rollout: a section of its own, of comparisons.
    voters: `models['voters']`.
    flips: share of each batch whose answers are exchanged, in [0, 1/2].
  Source: Secrets of RLHF II, https://arxiv.org/abs/2401.06080; shares of the whole data set there.
  """
  between(0, 0.5, flips=flips)
  inner = stateful(rollout)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, world = inner(models, world, key)
    strength = voters.strength(models['voters'], batch)
    turned = jnp.repeat(jnp.argsort(jnp.argsort(strength)) < flips * len(strength), 2)
    places = jnp.arange(len(turned))
    other = jax.tree.map(lambda x: x[jnp.where(turned, places ^ 1, places)], batch)
    kept = {name: batch[name] for name in ('preferred', 'groups') if name in batch}
    return {**other, **kept}, world

  return dataclasses.replace(inner, draw=draw)


def with_margins(rollout: Rollout, judge: Judge) -> StatefulRollout:
  """The comparisons of a rollout, each with δ = r(y_w) - r(y_l) of a reward model: for `preference.dynamic`.

  Args:
    rollout: a section of its own, of comparisons.
    judge: `models['judge']`, which sees the answers and not the label.
  Returns:
    A `rollout` function; δ stands in the column `pair_reward_margin` of both rows of a pair.
  """
  inner = stateful(rollout)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, world = inner(models, world, key)
    margin = jnp.subtract(*sides(judge.apply(models['judge'], batch)))
    return {**batch, 'pair_reward_margin': both(margin, margin)}, world

  return dataclasses.replace(inner, draw=draw)


def with_samples(rollout: Rollout, samples: Rollout) -> StatefulRollout:
  """The comparisons of a rollout, each with two samples to a prompt beside it, which nobody compares.

  Args:
    rollout: a section of its own, of comparisons.
    samples: a section of its own, with as many rows: the two of a prompt behind one another.
  Returns:
    A `rollout` function; the samples stand in columns `shifted_tokens`, `shifted_valid`, ...: what
    `algorithms.meta_step` takes its step by.
  Raises:
    ValueError: the two have not as many rows.
  """
  inner, beside = stateful(rollout), stateful(samples)
  if beside.data is not None:
    raise ValueError('samples that are rows of a data set cannot stand beside those of another; sample them')

  def begin(key: Key) -> World:
    return {**inner.begin(key), 'sampled': beside.begin(jax.random.fold_in(key, 1))}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    own = {name: x for name, x in world.items() if name != 'sampled'}
    batch, compared = inner.draw(models, own, key)
    rows, sampled = beside.draw(models, world['sampled'], jax.random.fold_in(key, 1))
    if len(rows['tokens']) != len(batch['tokens']):
      raise ValueError(
          f'{len(batch["tokens"])} rows of comparisons and {len(rows["tokens"])} of samples; take as many'
      )
    shifted = {f'shifted_{name}': rows[name] for name in ('tokens', 'valid', 'action_mask', 'prompt_lengths')}
    return {**batch, **shifted}, {**compared, 'sampled': sampled}

  return dataclasses.replace(inner, begin=begin, draw=draw, observe=keep_world)


def with_critiqued_margins(rollout: Rollout, critic: Speaker, judge: Judge) -> StatefulRollout:
  """As `with_margins`, where the reward model reads each answer with a critique that is written of it.

  Args:
    rollout: a section of its own, of comparisons.
    critic: `models['critic']`, which has room for a critique behind each row.
    judge: `models['judge']`, such as `heads.shared_reward_head` on the critic.
  Source: MM-RLHF, https://arxiv.org/abs/2502.10391.
  """
  inner, reward = stateful(rollout), critiqued(critic, judge)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    draw_key, critique_key = jax.random.split(key)
    batch, world = inner(models, world, draw_key)
    margin = jnp.subtract(*sides(reward(models, batch, critique_key)['rewards']))
    return {**batch, 'pair_reward_margin': both(margin, margin)}, world

  return dataclasses.replace(inner, draw=draw)


def paired(rollout: Rollout, reward: Annotate) -> StatefulRollout:
  """The best and the worst row of each group of a rollout, as `rewards.of_learners.best_and_worst` has them.

  Args:
    rollout: a section of its own; what it remembers of its rows, it does not learn here.
    reward: scores its rows, a section of its own or that of the run; it has to compile.
  """
  return _scored(rollout, reward, best_and_worst)


def verdicts(rollout: Rollout, reward: Annotate, *, success: float) -> StatefulRollout:
  """All rows of a rollout, each with the verdict whether it is a success: what `pointwise` learns from.

  Args:
    rollout: as for `paired`.
    reward: as for `paired`.
    success: a row with at least this reward is one.
  """
  return _scored(rollout, reward, lambda batch: {**batch, 'preferred': batch['rewards'] >= success})


def _scored(rollout: Rollout, reward: Annotate, made: Callable[[Batch], Batch]) -> StatefulRollout:
  """What is made of the rows of a rollout with their rewards; arguments as for `paired`."""
  check_compiles(reward)

  def scored(drawn: Rollout) -> Rollout:
    def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
      draw_key, reward_key = jax.random.split(key)
      batch, world = drawn(models, world, draw_key)
      return made(reward(models, batch, reward_key)), world

    return draw

  return redrawn(rollout, scored, observe=keep_world)
