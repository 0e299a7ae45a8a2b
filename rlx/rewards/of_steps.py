"""What a row is worth by its steps: a process head says how likely it is still right behind each of them.

A chain is as strong as its weakest step (`least`), all have to
hold (`product`), or what is known at the end is what counts (`last`).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.advantages import potentials
from rlx.data.dataset import Dataset
from rlx.engine.speaker import Critic
from rlx.envs.text import Task, one_token
from rlx.types import Annotate, Batch, Key, Models


def by_steps(task: Task | Dataset, process: Critic, *, separator: str, aggregation: Callable) -> Annotate:
  """Adds `rewards` [B], what the steps of a row come to, and `token_rewards` [B, T], what each of them has.

  Args:
    task: says which token the separator is.
    process: `models['process']`, whose numbers are log-odds, as `algorithms.stepwise` trains it.
    separator: one token, which ends a step; what stands behind the last one, the answer, is a step as well.
    aggregation: `least`, `product` or `last`.
  Returns:
    A reward; a row that says nothing has 0, and `process/steps` [B], how many steps a row has, is a metric.
  Source: Math-Shepherd, https://arxiv.org/abs/2312.08935, section 3.4 (the least step).
  """
  end_of_step = one_token(task, separator)

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    ends = potentials.step_ends(batch['tokens'], batch['action_mask'], end_of_step)
    chances = step_chances(process, models['process'], batch, ends)
    return {
        **batch, 'rewards': jnp.where(ends.any(axis=1), aggregation(chances, ends), 0),
        'token_rewards': chances, 'process/steps': ends.sum(axis=1).astype(jnp.float32),
    }

  return reward


def step_chances(process: Critic, params, batch: Batch, ends: jax.Array) -> jax.Array:
  """[B, T] float32: σ(v) at the ends of steps [B, T], 0 elsewhere."""
  return jnp.where(ends, jax.nn.sigmoid(process.behind(params, batch)), 0)


def least(chances: jax.Array, ends: jax.Array) -> jax.Array:
  """[B] float32: of the step [B, T] that is least likely right. Source: Math-Shepherd; Lightman et al."""
  return jnp.min(chances, axis=1, where=ends, initial=1.0)


def product(chances: jax.Array, ends: jax.Array) -> jax.Array:
  """[B] float32: the chance that all steps [B, T] are right, were they independent.

  Source: Lightman et al., 2023, https://arxiv.org/abs/2305.20050, appendix F.
  """
  return jnp.prod(chances, axis=1, where=ends)


def last(chances: jax.Array, ends: jax.Array) -> jax.Array:
  """[B] float32: what is said behind the last step [B, T].

  Source: Snell et al., 2024, https://arxiv.org/abs/2408.03314, which finds it ahead of the other two.
  """
  is_last = ends & (jnp.cumsum(ends, axis=1) == ends.sum(axis=1, keepdims=True))
  return jnp.sum(chances, axis=1, where=is_last)
