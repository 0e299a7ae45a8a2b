"""Batches that hold the rows of the last steps beside the fresh ones, as they were sampled.

Sampling is what costs. A row that was sampled some steps ago still teaches, where the loss knows which policy
said it: rows keep the `sampler_logprobs` of their own time. Whole batches come back, so that groups stay
together and their baselines are those of old. The rows of the last steps are carried in `world`.

The reward is asked about them again, with every batch that they are in, so it has to be one that says the
same each time and costs little: a verifier, not a judge.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.controllers.memory import anew_beside
from rlx.data.dataset import Dataset
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.types import Batch, Key, Models, Rollout, StatefulRollout, World, stateful

PAST = 'past'  # the name of the rows in `world`


def with_past(rollout: Rollout, *, past_steps: int, batch_size: int) -> StatefulRollout:
  """A rollout whose batches end with the rows of its last batches, the newest first.

  Until as many batches have been sampled there are rows without a token in their place, which count neither
  in the loss (no action is theirs) nor in the metrics of rewards (they are not `scored`).

  Args:
    rollout: yields rows with `action_mask` and `groups`; what it learns of a batch (`observe`) it learns of
      the fresh rows alone.
    past_steps: K, batches that come back.
    batch_size: rows B of a batch, 1 + K times those of `rollout`.
  Returns:
    A `rollout`. Its batches have `reused` [B] bool, True where an earlier step sampled the row, and `scored`.
    Columns named `area/what` are of the fresh rows, and NaN for the others.
  Raises:
    ValueError: `past_steps` is below 1; and when the run begins, `batch_size` is another number.
  """
  if past_steps < 1:
    raise ValueError(f'past_steps={past_steps}: at least 1; without it, take the rollout as it is')
  inner = stateful(rollout)

  def warm_up(models: Models, world: World, key: Key) -> World:
    world = inner.warm_up(models, world, key)
    given = world if inner.data is None else {**world, 'data': inner.data}
    fresh, _ = jax.eval_shape(inner.draw, models, given, key)
    num = fresh['groups'].shape[0]
    if num * (1 + past_steps) != batch_size:
      raise ValueError(
          f'rollout.batch_size={batch_size}: {num} fresh rows and those of past_steps={past_steps} batches '
          f'are {num * (1 + past_steps)}'
      )
    rows = {name: jnp.zeros((past_steps, *x.shape), x.dtype) for name, x in _kept(fresh).items()}
    return {**world, PAST: {'rows': rows, 'count': jnp.int32(0)}}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    past = world[PAST]
    fresh, world = inner(models, _without_past(world), key)
    push = lambda new, old: jnp.concatenate([new[None], old[:-1]])
    rows = {name: push(fresh[name], old) for name, old in past['rows'].items()}
    count = jnp.minimum(past['count'] + 1, past_steps)
    return _joined(fresh, past), {**world, PAST: {'rows': rows, 'count': count}}

  def observe(world: World, batch: Batch) -> World:
    num = world[PAST]['rows']['groups'].shape[1]
    fresh = {name: x[:num] for name, x in batch.items()}
    return {**inner.observe(_without_past(world), fresh), PAST: world[PAST]}

  return dataclasses.replace(
      inner, draw=draw, observe=observe, warm_up=warm_up, anew=anew_beside(inner, PAST)
  )


def reusing(
    task: Task | Dataset, policy: Speaker, *, fresh: Callable[[Task | Dataset, Speaker], Rollout],
    past_steps: int, batch_size: int,
) -> StatefulRollout:
  """`with_past` for a model, where the rollout of the fresh rows is a section of its own.

  Args:
    task: where problems come from.
    policy: samples.
    fresh: `(task, policy) -> rollout`, such as `prompts.completions`.
    past_steps: as for `with_past`.
    batch_size: as for `with_past`: all rows, those that come back too.
  """
  return with_past(fresh(task, policy), past_steps=past_steps, batch_size=batch_size)


def _joined(fresh: Batch, past: World) -> Batch:
  """Fresh rows, and behind them those of the past with group ids of their own."""
  num, past_steps = fresh['groups'].shape[0], past['rows']['groups'].shape[0]
  offsets = num * jnp.arange(1, past_steps + 1, dtype=jnp.int32)[:, None]
  rows = {**past['rows'], 'groups': past['rows']['groups'] + offsets}
  batch = {
      name: jnp.concatenate([fresh[name], x.reshape(-1, *x.shape[2:])]) for name, x in rows.items()
  }
  for name in fresh.keys() - rows.keys():
    missing = jnp.full((num * past_steps, *fresh[name].shape[1:]), jnp.nan)
    batch[name] = jnp.concatenate([fresh[name].astype(jnp.float32), missing])
  places = jnp.arange(num * (1 + past_steps)) // num  # 0 for the fresh rows, then the age in steps
  known = places <= past['count']
  scored = batch['scored'] & known if 'scored' in batch else known
  return {**batch, 'reused': places > 0, 'scored': scored}


def _kept(batch: Batch) -> Batch:
  return {name: x for name, x in batch.items() if '/' not in name}


def _without_past(world: World) -> World:
  return {name: x for name, x in world.items() if name != PAST}
