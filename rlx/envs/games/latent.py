"""The latent game of what is said: wordings are clustered into a few latent moves, and these are solved.

A wording is known by who says it: its embedding is the shares of the hands (roles) among those that do. Two
wordings of one move are said by the same ones; k-means finds them, and nobody tells it what they mean. In the
latent game who has heard other wordings of the same latent moves knows the same, and who makes a latent move
says one of its wordings, as often as they are said. Regrets are those of latent moves, pooled over all that
is the same there (`pooled`), and written back to wordings: `cfr.solved` needs no game of its own.

Source: LSPO, https://arxiv.org/abs/2502.04686, where a model of sentences has the embeddings, and Deep CFR
  solves the game.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.games import tree as trees
from rlx.envs.games.tree import Tree


class Known(NamedTuple):
  """What the I information sets of a game are, on the host."""

  hands: np.ndarray  # [I] int32, of the mover: what it knows besides moves, whatever its seat
  histories: np.ndarray  # [I, M] int32, moves so far, -1 for none
  talks: np.ndarray  # [I] bool, the move is said in words


class Latent(NamedTuple):
  """What is the same in the latent game."""

  moves: jax.Array  # [A] int32, the latent move of each move; words come first, the others are by themselves
  infos: jax.Array  # [I] int32 in 0..I-1, equal where as much is known
  shares: jax.Array  # [I, A] float32, of a move among allowed ones of its latent move; 0 where not allowed


def embeddings(tree: Tree, known: Known, strategy: jax.Array, num_words: int) -> tuple[jax.Array, jax.Array]:
  """Who says each word, [num_words, H] shares of the hands, and how often it is said, [num_words].

  Both are expected of episodes in which all play the table, so nothing is sampled.

  Args:
    tree: of a game.
    known: of its information sets.
    strategy: [I, A].
    num_words: the first moves are words.
  """
  often = (visits(tree, strategy) * jnp.asarray(known.talks))[:, None] * strategy[:, :num_words]
  hands = jax.nn.one_hot(known.hands, int(known.hands.max()) + 1)
  counts = often.T @ hands
  said = counts.sum(axis=1)
  return counts / jnp.maximum(said, 1e-12)[:, None], said


def k_means(points: jax.Array, weights: jax.Array, *, clusters: int, rounds: int) -> jax.Array:
  """[n] int32 in 0..clusters-1: Lloyd's clusters of points, begun at the heaviest point and those far off.

  Args:
    points: [n, d].
    weights: [n], at least 0.
    clusters: k, at most n; one that loses all of its points stays where it was.
    rounds: of assigning and averaging.
  Source: Gonzalez, 1985, for where it begins: each next centre is the point that is farthest from all others.
  """
  num = points.shape[0]

  def farthest(centres: jax.Array, index: jax.Array) -> tuple[jax.Array, None]:
    chosen = jnp.arange(clusters)[None] < index
    near = jnp.where(chosen, _distances(points, centres), jnp.inf).min(axis=1)
    return centres.at[index].set(points[jnp.argmax(near)]), None

  first = jnp.zeros((clusters, points.shape[1])).at[0].set(points[jnp.argmax(weights)])
  centres, _ = jax.lax.scan(farthest, first, jnp.arange(1, clusters))

  def one_round(_, centres: jax.Array) -> jax.Array:
    own = jax.nn.one_hot(jnp.argmin(_distances(points, centres), axis=1), clusters) * weights[:, None]
    total = own.sum(axis=0)[:, None]
    return jnp.where(total > 0, (own.T @ points) / jnp.where(total > 0, total, 1), centres)

  centres = jax.lax.fori_loop(0, rounds, one_round, centres)
  return jnp.argmin(_distances(points, centres), axis=1).astype(jnp.int32).reshape(num)


def abstracted(tree: Tree, known: Known, clusters: jax.Array, said: jax.Array) -> Latent:
  """The latent game in which the words of a cluster are one move.

  Args:
    tree: of the game.
    known: of its information sets.
    clusters: [num_words] int32, of each word, below num_words.
    said: [num_words] how often, by which a latent move is said in words.
  """
  num_words, num_moves = clusters.shape[0], tree.legal.shape[1]
  others = num_words + jnp.arange(num_moves - num_words)
  moves = jnp.concatenate([clusters, others]).astype(jnp.int32)
  heard = jnp.where(known.histories >= 0, 1 + moves[known.histories], 0)
  columns = jnp.concatenate([
      jnp.asarray(tree.movers)[:, None], jnp.asarray(known.hands)[:, None], heard
  ], axis=1)
  size = columns.shape[0]
  _, infos = jnp.unique(columns, axis=0, size=size, return_inverse=True)
  popular = jnp.concatenate([jnp.maximum(said, 1e-12), jnp.ones(num_moves - num_words)])
  weights = jnp.where(tree.legal, popular, 0)
  total = (weights @ jax.nn.one_hot(moves, num_moves))[:, moves]
  shares = jnp.where(tree.legal, weights / jnp.where(total > 0, total, 1), 0)
  return Latent(moves, infos.reshape(size).astype(jnp.int32), shares)


def pooled(gains: jax.Array, latent: Latent) -> jax.Array:
  """[I, A]: what moves [I, A] gain, shared by all that is the same in the latent game.

      g(I, w) = q_I(w) Σ_{J ~ I} Σ_{v ~ w} q_J(v) g(J, v)

  Moves in proportion to them are latent moves in proportion to theirs, each said as often as `shares` q say.
  """
  num_moves = gains.shape[1]
  of_latent = (gains * latent.shares) @ jax.nn.one_hot(latent.moves, num_moves)
  together = jax.ops.segment_sum(of_latent, latent.infos, num_segments=gains.shape[0])[latent.infos]
  return latent.shares * together[:, latent.moves]


def chances(tree: Tree, latent: Latent, strategy: jax.Array) -> jax.Array:
  """[I, A]: how likely a strategy [I, A] makes the latent move that each is of; 0 where it is not allowed."""
  of_latent = strategy @ jax.nn.one_hot(latent.moves, strategy.shape[1])
  return jnp.where(tree.legal, of_latent[:, latent.moves], 0)


def visits(tree: Tree, strategy: jax.Array) -> jax.Array:
  """[I] float32: how likely an episode comes to each information set where all play the table [I, A]."""
  often = jnp.zeros(len(tree.movers))
  for level, reach in zip(tree.levels, trees.reaches(tree, strategy, -1), strict=True):
    at = jnp.where(level.info >= 0, level.info, len(tree.movers))
    often = often.at[at].add(reach, mode='drop')
  return often


def _distances(points: jax.Array, centres: jax.Array) -> jax.Array:
  """[n, k] squared."""
  return jnp.square(points[:, None] - centres[None]).sum(axis=-1)
