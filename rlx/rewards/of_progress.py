"""The reward of an episode, dealt out to its steps by an estimator of what each has added."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.advantages import segments
from rlx.advantages import turns as turn_advantages
from rlx.engine.speaker import Critic
from rlx.types import Annotate, Batch, Key, Models


def of_progress(progress: Critic, *, scale: float, grounding: float) -> Annotate:
  """Puts α c_k + β g_k in the place of the reward of each step; `rewards`, the outcomes, stay.

  g_k is 1 for an action that the world has understood, which grounds an agent in what can be done.

  Args:
    progress: the estimator, as `algorithms.spa` trains it, on episodes whose world has rewarded them.
    scale: α.
    grounding: β.
  Returns:
    A reward; `progress/sum` [B], the sum of an episode's contributions, is a metric.
  Source: SPA-RL, https://arxiv.org/abs/2505.20732 (the fused reward of a step).
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    parts = contributions(progress.apply, models['progress'], batch)
    steps = segments.steps(batch['turns'], batch['action_mask'])
    grounded = turn_advantages.ends(steps) & batch['understood']
    return {**batch, 'token_rewards': scale * parts + grounding * grounded, 'progress/sum': parts.sum(axis=1)}

  return reward


def contributions(apply: Callable, params, batch: Batch) -> jax.Array:
  """[B, T] float32: c_k at the last token of each step's action, 0 elsewhere.

  A step that ends in the last column, behind which nothing is read, has none.

  Args:
    apply: `(params, batch) -> [B, T]`, as `Critic.apply`.
    params: of the estimator.
    batch: rows with `turns` and `action_mask`.
  """
  last = turn_advantages.ends(segments.steps(batch['turns'], batch['action_mask']))
  return jnp.where(last, turn_advantages.around(apply, params, batch)[1], 0)
