"""Which of the episodes that were sampled are trained on: filters around a rollout of turns.

A turn is void where the world did not understand it (`understood`): it holds neither a whole call nor an
answer. What is dropped here was sampled, and paid for; the masks are in `controllers/schedules.py`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.advantages import turns as turn_advantages
from rlx.controllers import schedules
from rlx.errors import ConfigError, at_least
from rlx.rollout.select import first_rows
from rlx.types import Batch, Key, Models, Rollout, StatefulRollout, World, redrawn


def without_void_turns(rollout: Rollout) -> StatefulRollout:
  """The same rows, of which those of an episode with a void turn count for nothing.

  They are not `scored`: no baseline has them, and nobody is trained on any of their tokens. Low chances stand
  around void turns, and large gradients come from there.

  Args:
    rollout: a section of its own, of episodes with one row each, such as `turns.episodes`.
  Returns:
    A `rollout` function; `turns/void` [B] is 1 for the rows that do not count.
  Source: SimpleTIR, https://arxiv.org/abs/2509.02479.
  """

  def without(batch: Batch) -> Batch:
    keep = schedules.without_void_turns(*fruitful_turns(batch))
    return {**_scored_where(keep, batch), 'turns/void': (~keep).astype(jnp.float32)}

  return _of_the_same_rows(rollout, without)


def only_successes(rollout: Rollout, *, success: float) -> StatefulRollout:
  """The same rows, of which those of failures count for nothing: with `sft`, cloning of what went well.

  Args:
    rollout: a section of its own, of rows with the rewards of their world, such as `turns.episodes`.
    success: a row with at least this return counts.
  Returns:
    A `rollout` function; `turns/kept` [B] is 1 for the rows that count.
  Source: filtered behaviour cloning, as in TTI, https://arxiv.org/abs/2506.07976.
  """

  def succeeded(batch: Batch) -> Batch:
    keep = batch['rewards'] >= success
    return {**_scored_where(keep, batch), 'turns/kept': keep.astype(jnp.float32)}

  return _of_the_same_rows(rollout, succeeded)


def resampled_on_correct(
    rollout: Rollout, *, group_size: int, kept_rows: int, kind_min: int, success: float
) -> StatefulRollout:
  """Some rows of each group: of the right ones those with few errors, of the wrong ones any.

  Args:
    rollout: a section of its own, of episodes with one row each and the rewards of their world.
    group_size: rows of a group, which stand together.
    kept_rows: of them are trained on; half in the paper.
    kind_min: as for `schedules.resampled_on_correct`.
    success: an episode with at least this return is right.
  Returns:
    A `rollout` function, of fewer rows. `roc/errors_pool` and `roc/errors_kept` are the share of void turns
    in right rows, before and behind.
  Raises:
    ValueError: numbers that do not fit a group; when it is traced: an episode has several rows.
  Source: rStar2-Agent (GRPO-RoC), https://arxiv.org/abs/2508.20722. A turn that is not understood stands for
    a call that fails, an episode that the world ends for an answer.
  """
  at_least(1, kept_rows=kept_rows)
  if kept_rows > group_size or not 0 <= 2 * kind_min <= kept_rows:
    raise ConfigError(
        f'kept_rows={kept_rows} of group_size={group_size} with kind_min={kind_min} of each kind: keep no '
        'more than there are, and at most half of those by kind'
    )

  def resampled(drawn: Rollout) -> Rollout:
    def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
      draw_key, keep_key = jax.random.split(key)
      batch, world = drawn(models, world, draw_key)
      if 'turns/rows' in batch:
        raise ConfigError('episodes of several rows cannot be resampled: take turns.episodes')
      fruitful, turns = fruitful_turns(batch)
      errors = turns - fruitful.sum(axis=1)
      right = batch['rewards'] >= success
      answers = (~batch['truncated']).astype(jnp.int32)
      keep = schedules.resampled_on_correct(
          right, schedules.tool_penalties(errors, turns, answers, turns), batch['groups'], keep_key,
          num_kept=kept_rows, kind_min=kind_min,
      )
      share = jnp.where(right, errors / jnp.maximum(turns, 1), jnp.nan)
      num_rows = right.shape[0] // group_size * kept_rows
      kept = first_rows({**batch, 'roc/errors_kept': share}, keep, num_rows=num_rows)
      pool = jnp.full(num_rows, jnp.nanmean(share))
      return {**kept, 'trajectories': jnp.arange(num_rows), 'roc/errors_pool': pool}, world

    return draw

  return redrawn(rollout, resampled)


def _of_the_same_rows(rollout: Rollout, change: Callable[[Batch], Batch]) -> StatefulRollout:
  def changed(drawn: Rollout) -> Rollout:
    def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
      batch, world = drawn(models, world, key)
      return change(batch), world

    return draw

  return redrawn(rollout, changed)


def _scored_where(keep: jax.Array, batch: Batch) -> Batch:
  return {**batch, 'scored': keep & batch['scored'] if 'scored' in batch else keep}


def fruitful_turns(batch: Batch) -> tuple[jax.Array, jax.Array]:
  """[B, K] bool, True where a turn was understood, and [B] int32, how many turns there were.

  Args:
    batch: rows of `engine/turns.as_rows`.
  """
  mask, turns = batch['action_mask'], batch['turns']
  columns = mask.shape[1]  # no row has more turns
  of_turns = lambda x: turn_advantages.at_turns(x, turns, mask, num_turns=columns) > 0
  return of_turns(batch['understood']), of_turns(mask).sum(axis=1, dtype=jnp.int32)
