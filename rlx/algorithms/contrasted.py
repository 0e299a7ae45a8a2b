"""A contrastive term for a reward model: it has to see more of a comparison than its label asks for.

Two noisy views of what a model sees in a comparison, the difference of its answers, belong together, and
views of different comparisons do not. It stands around `bradley_terry` or another that trains the judge.
Source: Secrets of RLHF II, https://arxiv.org/abs/2401.06080.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Judge
from rlx.envs import gold
from rlx.errors import above, at_least, between
from rlx.losses.comparisons import sides
from rlx.losses.contrastive import info_nce
from rlx.types import Algorithm, Batch, Key, Metrics, Models


def contrasted(
    parent: Algorithm, judge: Judge | gold.Hidden, *, weight: float, temperature: float, dropout: float,
    among: int,
) -> Algorithm:
  """The algorithm with a contrastive term on the differences of answers: SimCSE of a reward model.

      L + w mean over i of  -log( exp(cos(d_i, d'_i) / τ) / Σ_j exp(cos(d_i, d'_j) / τ) )
      d = f(y_w) - f(y_l)

  d and d' are two views of the difference of what the head reads of the two answers, each with its own
  dropout. The paper's views have the dropout of the whole transformer; ours has none, so it is that of the
  hidden state alone. (The abstract says only that there is a contrastive term; SimCSE of differences is one
  of four that the paper compares, by accounts of it.) Of a decoder's head the term costs a forward and
  backward pass of its own, beside that of the parent.

  Args:
    parent: learns comparisons; a section of its own.
    judge: `models['judge']`, which has `embed`.
    weight: w, at least 0; 0 is the parent.
    temperature: τ, above 0.
    dropout: share of the numbers of a hidden state that a view lacks, in (0, 0.99].
    among: comparisons behind one another that are told from each other, at least 2; they stay together, so
      that the term does not depend on how batches are cut.
  Source: SimCSE, Gao et al., 2021, https://arxiv.org/abs/2104.08821, unsupervised.
  """
  at_least(0, weight=weight)
  above(0, temperature=temperature, dropout=dropout)
  between(0, 0.99, dropout=dropout)
  at_least(2, among=among)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    seeds = jax.random.bits(jax.random.fold_in(key, 1), (len(batch['tokens']), 2))
    return {**batch, 'views': seeds}

  def loss(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, Metrics]:
    value, metrics = parent.loss(models, batch, key)
    difference = jnp.subtract(*sides(judge.embed(models['judge'], batch)))
    first, second = (_view(difference, seeds, dropout) for seeds in sides(batch['views'])[0].T)
    groups = lambda x: x.reshape(-1, among, x.shape[-1])
    similarities = jnp.einsum('gid,gjd->gij', groups(first), groups(second)) / temperature
    own = jnp.broadcast_to(jnp.eye(among, dtype=bool), similarities.shape)
    term = jnp.mean(info_nce(similarities, own))
    return value + weight * term, {**metrics, 'loss/contrastive': term}

  return dataclasses.replace(parent, advantage=advantage, loss=loss, together=2 * among)


def _view(x: jax.Array, seeds: jax.Array, dropout: float) -> jax.Array:
  """Rows [N, D] without some of their numbers, of length 1; `seeds` [N] say which."""
  kept = jax.vmap(lambda seed: jax.random.bernoulli(jax.random.key(seed), 1 - dropout, x.shape[1:]))(seeds)
  x = jnp.where(kept, x.astype(jnp.float32), 0)
  return x * jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=1, keepdims=True) + _TINY)


_TINY = 1e-12  # a difference of 0 has no direction, and no slope
