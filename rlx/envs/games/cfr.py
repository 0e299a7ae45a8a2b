"""Counterfactual regret minimisation on a game that is written out: what the solver of the latent game is.

Each information set remembers what each move would have gained there, weighed by how likely the others make
it; a strategy plays moves in proportion to what was gained. Of two players with opposite stakes the average
strategy goes to a Nash equilibrium; of more it need not, and `tree.nash_conv` says how far it is.

Seats are updated one after the other, regrets never fall below 0, and the t-th strategy weighs t in the
average: CFR+.

Source: Zinkevich et al., 2007, Regret minimization in games with incomplete information; Tammelin, 2014,
  https://arxiv.org/abs/1407.5042.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.envs.games import tree as trees
from rlx.envs.games.tree import Tree


class Regrets(NamedTuple):
  """What is remembered of I information sets with A moves."""

  gained: jax.Array  # [I, A] float32, at least 0
  played: jax.Array  # [I, A] float32, sums of strategies, by weights and by how likely a seat gets there
  rounds: jax.Array  # [] int32


def no_regrets(tree: Tree) -> Regrets:
  """Before the first round: what is played is uniform over allowed moves."""
  return Regrets(jnp.zeros(tree.legal.shape), jnp.zeros(tree.legal.shape), jnp.int32(0))


def matched(tree: Tree, gained: jax.Array) -> jax.Array:
  """[I, A]: moves in proportion to their regrets [I, A]; uniform over allowed ones where there are none."""
  total = gained.sum(axis=1, keepdims=True)
  return jnp.where(total > 0, gained / jnp.where(total > 0, total, 1), trees.uniform(tree))


def as_they_are(gains: jax.Array) -> jax.Array:
  """The gains [I, A] of a game in which nothing is pooled."""
  return gains


def one_round(
    tree: Tree, regrets: Regrets, pool: Callable[[jax.Array], jax.Array] = as_they_are
) -> Regrets:
  """An update of each seat, one after the other.

      R(I, a) <- max(R(I, a) + Σ_h∈I π_-i(h) [ u_i(h a) - u_i(h) ], 0)

  Args:
    tree: of the game.
    regrets: so far.
    pool: `gains [I, A] -> gains`, where information sets or moves are taken to be the same (`latent.pooled`).
  """
  rounds = regrets.rounds + 1
  gained, played = regrets.gained, regrets.played
  for seat in range(tree.num_seats):
    strategy = matched(tree, gained)
    gains, reach = _gains(tree, strategy, seat)
    gains = pool(gains)
    own = jnp.asarray(tree.movers == seat)[:, None]
    gained = jnp.where(own & jnp.asarray(tree.legal), jnp.maximum(gained + gains, 0), gained)
    played += jnp.where(own, rounds * reach[:, None] * strategy, 0)
  return Regrets(gained, played, rounds)


def solved(
    tree: Tree, regrets: Regrets, *, rounds: int, pool: Callable[[jax.Array], jax.Array] = as_they_are
) -> Regrets:
  """So many rounds more; `pool` as for `one_round`."""
  return jax.lax.fori_loop(0, rounds, lambda _, state: one_round(tree, state, pool), regrets)


def average_strategy(tree: Tree, regrets: Regrets) -> jax.Array:
  """[I, A] float32: what was played on average; uniform where it was never come to."""
  return matched(tree, regrets.played)


def _gains(tree: Tree, strategy: jax.Array, seat: int) -> tuple[jax.Array, jax.Array]:
  """What each move [I, A] of a seat would gain, as the others make it likely; how likely it is there [I]."""
  others, own = trees.reaches(tree, strategy, seat), trees.own_reaches(tree, strategy, seat)
  gains, reach = jnp.zeros(tree.legal.shape), jnp.zeros(len(tree.movers))
  worth = None
  for depth in reversed(range(len(tree.levels))):
    level = tree.levels[depth]
    here = jnp.asarray(level.payoffs[:, seat])
    if worth is not None:
      after = jnp.where(level.legal, worth[level.child], 0)
      goes_on = jnp.asarray(level.info >= 0)
      here += jnp.where(goes_on, (jnp.where(level.legal, strategy[level.info], 0) * after).sum(axis=1), 0)
      if depth % tree.num_seats == seat:
        more = jnp.where(level.legal, others[depth][:, None] * (after - here[:, None]), 0)
        at = jnp.where(goes_on, level.info, len(tree.movers))
        gains = gains.at[at].add(more, mode='drop')
        reach = reach.at[at].max(own[depth], mode='drop')
    worth = here
  return gains, reach
