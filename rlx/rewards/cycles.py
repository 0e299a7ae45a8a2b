"""Rankings by somebody whose parameters nobody sees, and what of them becomes a demonstration to that ranker.

The ranker of a world (`envs/gold.py`) has `opinions`, and judges by what it has been shown besides: a reward
model that learns from demonstrations stands for what a language model learns from its context. Both are
added, with noise at every call.
"""

from collections.abc import Callable
import functools

import jax
import jax.numpy as jnp

from rlx.envs import gold
from rlx.errors import at_least
from rlx.types import Annotate, Batch, Key, Models, Rows


def in_cycles(
    world: gold.Worlds, policy: gold.LogLinear, judge: gold.Linear, *, of: str, to: str, group_size: int,
    noise: float, believed: Callable,
) -> Annotate:
  """Puts the samples of a prompt in the ranker's order, and what of it is believed into comparisons.

  Args:
    world: with opinions, such as `opinionated_worlds`.
    policy: its log-probs are the second judgement.
    judge: what the ranker has learnt from demonstrations.
    of: learner whose rows are ranked: those of a group behind one another, the best one first.
    to: learner that gets demonstrations: all comparisons of answers that are believed, the others without
      weight.
    group_size: A, samples of a prompt, at least 2.
    noise: standard deviation of the ranker's noise, where opinions have 1.
    believed: `scores [N, A] -> [N, A] bool` which answers of a ranking are demonstrated, such as
      `ranking.longest_agreed` of the policy's log-probs.
  Source: CycleAlign, https://arxiv.org/abs/2310.16271; there, demonstrations stand in a prompt.
  """
  at_least(2, group_size=group_size)
  at_least(0, noise=noise)

  def ranked(models: Models, rows: Rows, key: Key) -> Rows:
    lists, kept = ranking(models, policy, judge, rows[of], key, group_size, noise, believed)
    order = lists.reshape(-1)
    batch = jax.tree.map(lambda x: x[order], rows[of])
    return {**rows, of: batch, to: comparisons_of(batch, kept, group_size)}

  return ranked


def ranking(
    models: Models, policy: gold.LogLinear, judge: gold.Linear, batch: Batch, key: Key, group_size: int,
    noise: float, believed: Callable,
) -> tuple[jax.Array, jax.Array]:
  """([N, A] rows in the ranker's order, best first; [N, A] bool, which of them are believed)."""
  prompts, answers = batch['tokens'].T
  scores = models['world'].opinions[prompts, answers] + judge.apply(models['judge'], batch)
  scores += noise * jax.random.normal(key, scores.shape)
  lists = lambda x: x.reshape(-1, group_size)
  order = jnp.argsort(-lists(scores), axis=1)
  said = lists(policy.score(models['policy'], batch)[0][:, 1])
  first = group_size * jnp.arange(len(order))[:, None]
  return first + order, believed(jnp.take_along_axis(said, order, axis=1))


@functools.partial(jax.jit, inline=True, static_argnames=('group_size',))
def comparisons_of(batch: Batch, kept: jax.Array, group_size: int) -> Batch:
  """Rows of all comparisons in ranked lists, the better first; `weights` 1 where both are `kept` [N, A]."""
  better, worse = jnp.triu_indices(group_size, 1)
  pairs = jnp.stack([better, worse], axis=1)  # [pairs of a list, 2]
  at = (group_size * jnp.arange(len(kept))[:, None, None] + pairs[None]).reshape(-1)
  counts = kept[:, better] & kept[:, worse]
  rows = gold.rows_of(*batch['tokens'][at].T)
  places = jnp.arange(len(at))
  return {
      **rows, 'groups': places // 2, 'preferred': places % 2 == 0,
      'weights': jnp.repeat(counts.reshape(-1), 2).astype(jnp.float32),
  }
