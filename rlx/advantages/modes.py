"""Advantages where the samples of a prompt are in several modes: which mode is better, and which row in it.

Modes are numbered 0..M-1, one column `modes` [B] beside `groups` [B] (`rollout/modes.py`). What a mode is
worth to a prompt is the mean reward of its rows there, plus a margin that says how much better the others
have to be to be worth their tokens. A reward of NaN is that of a row that was not scored, which counts for
nothing.
"""

from collections.abc import Sequence

import chex
import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages


def best_mode(x: jax.Array, groups: jax.Array, modes: jax.Array, *, margins: Sequence[float]) -> jax.Array:
  """[B] int32: argmax_m mean(x of mode m) + margin_m in the row's group; among equals, the first mode.

  Args:
    x: [B] rewards, or anything else that speaks for a mode.
    groups: [B] int32 ids in 0..B-1.
    modes: [B] int32 in 0..M-1; a mode without a row in the group is never the best.
    margins: M numbers in the units of `x`, δ in the paper for the mode that costs less.
  Source: LHRM, https://arxiv.org/abs/2505.14631, the reward of modes, and its hybrid accuracy.
  """
  chex.assert_rank([x, groups, modes], 1)
  num, num_modes = x.shape[0], len(margins)
  place = groups * num_modes + modes
  sums = lambda y: jax.ops.segment_sum(y.astype(jnp.float32), place, num_segments=num * num_modes)
  known = ~jnp.isnan(x)
  counts = sums(known)
  means = (sums(jnp.where(known, x, 0)) / jnp.maximum(counts, 1)).reshape(num, num_modes)
  means += jnp.asarray(margins, jnp.float32)[None]
  means = jnp.where(counts.reshape(means.shape) > 0, means, -jnp.inf)
  return jnp.argmax(means, axis=1).astype(jnp.int32)[groups]


def inter_mode(
    rewards: jax.Array, groups: jax.Array, modes: jax.Array, *, margins: Sequence[float], eps: float = 1e-6
) -> jax.Array:
  """Which mode: 1 for the rows of the prompt's best mode and 0 for the others, normalised in the group.

  Args:
    rewards: [B] outcomes.
    groups: [B] int32 ids in 0..B-1, of all modes together.
    modes: [B] int32 in 0..M-1.
    margins: as for `best_mode`.
    eps: added to the deviation.
  Returns:
    [B] float32; 0 where a group is of one mode.
  Source: LHRM, https://arxiv.org/abs/2505.14631, inter-group rewards.
  """
  best = best_mode(rewards, groups, modes, margins=margins) == modes
  return group_advantages.normalised(_of_scored(best, rewards), groups, eps=eps)


def intra_mode(rewards: jax.Array, groups: jax.Array, modes: jax.Array, *, eps: float = 1e-6) -> jax.Array:
  """Which row: 1 for the best rows of each mode and 0 for the others, normalised among the rows of the mode.

  With outcomes of 0 and 1 that is GRPO with a group for each prompt and mode. That rows which are equally
  good are all best, and that a mode is normalised by itself, so that one in which all fail teaches nothing,
  is our reading.

  Args:
    rewards: [B] outcomes.
    groups: [B] int32 ids in 0..B-1, of all modes together.
    modes: [B] int32 in 0..M-1.
    eps: added to the deviation.
  Returns:
    [B] float32; sums to zero in each mode of each group.
  Source: LHRM, https://arxiv.org/abs/2505.14631, intra-group rewards.
  """
  key = group_advantages.join(groups, modes)
  known = jnp.where(jnp.isnan(rewards), -jnp.inf, rewards).astype(jnp.float32)
  highest = jax.ops.segment_max(known, key, num_segments=key.shape[0])[key]
  return group_advantages.normalised(_of_scored(rewards >= highest, rewards), key, eps=eps)


def _of_scored(x, rewards):
  """`x` [B] as numbers, NaN where the row was not scored."""
  return jnp.where(jnp.isnan(rewards), jnp.nan, x.astype(jnp.float32))
