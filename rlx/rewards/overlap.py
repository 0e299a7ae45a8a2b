"""Rewards by a metric of text: how much of the solution a completion says, and how little besides."""

import chex
import jax
import jax.numpy as jnp

from rlx.engine import sample
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.types import Annotate, Batch, Key, Models


def overlap(task: Task, policy: Speaker, *, order: int) -> Annotate:
  """Adds `rewards` [B]: `f1` between completion and solution, each up to its end.

  Args:
    task: for its solutions and end tokens, and for the metric `reward/right`.
    policy: says how long completions can be.
    order: tokens of a piece; 1 does not mind the order of words, 2 does.
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    completions, solutions = sample.completions_of(batch, policy.decoding), batch['solutions']
    ends = (policy.decoding.pad_id, *task.eos_ids)
    return {
        **batch,
        'rewards': f1(completions, solutions, _said(completions, ends), _said(solutions, ends), order=order),
        'reward/right': task.verify(batch, completions),
    }

  return reward


def f1(
    completions: jax.Array, solutions: jax.Array, said: jax.Array, wanted: jax.Array, *, order: int
) -> jax.Array:
  """2 m / (pieces of the one + pieces of the other), the harmonic mean of precision and recall.

  m is how many pieces they share, each as often as both have it. Where neither has a piece it is 0.

  Args:
    completions: [B, C] int32.
    solutions: [B, A] int32.
    said: [B, C] bool, True where a token counts; contiguous from column 0.
    wanted: [B, A] bool, the same of the solutions.
    order: n, tokens of a piece.
  Returns:
    [B] float32 in [0, 1].
  Raises:
    ValueError: `order` is not in 1..the columns of both.
  Source: ROUGE-N, Lin, 2004, https://aclanthology.org/W04-1013, as an F measure.
  """
  chex.assert_equal_shape([completions, said])
  chex.assert_equal_shape([solutions, wanted])
  longest = min(completions.shape[1], solutions.shape[1])
  if not 1 <= order <= longest:
    raise ValueError(f'order={order} is not in 1..{longest}, the columns of completions and of solutions')
  said, wanted = said[:, order - 1 :], wanted[:, order - 1 :]  # a piece counts if its last token does
  alike = lambda x, y: _same_pieces(x, y, order)
  # The k-th of equal pieces is shared if the solution has at least k of them.
  own = alike(completions, completions) & said[:, None]
  ordinal = jnp.sum(jnp.tril(own), axis=2)
  available = jnp.sum(alike(completions, solutions) & wanted[:, None], axis=2)
  shared = jnp.sum(said & (ordinal <= available), axis=1)
  return 2 * shared / jnp.maximum(said.sum(axis=1) + wanted.sum(axis=1), 1).astype(jnp.float32)


def _same_pieces(x, y, order):
  """[B, C - n + 1, A - n + 1] bool: whether the pieces that begin at two columns are the same."""
  same = x[:, :, None] == y[:, None]
  rows, columns = x.shape[1] - order + 1, y.shape[1] - order + 1
  parts = [same[:, i : i + rows, i : i + columns] for i in range(order)]
  return jnp.all(jnp.stack(parts), axis=0)


def _said(tokens, ends):
  """[B, C] bool: what stands before the first end token or padding."""
  return jnp.cumsum(jnp.isin(tokens, jnp.array(ends, jnp.int32)), axis=1) == 0
