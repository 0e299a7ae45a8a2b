"""Which past policy is played next, read off a table of payoffs; and Elo numbers of such a table.

A table holds what each of N past policies, and the one that learns (row and column N), got against each other
on average. A draw is a function `(table, present [N], newest) -> chances [N]`, which sum to 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Table(NamedTuple):
  """Who got what against whom; N past policies and, last, the one that learns."""

  payoffs: jax.Array  # [N + 1, N + 1] float32, mean payoff of the row against the column; 0 where none played
  games: jax.Array  # [N + 1, N + 1] float32, how many games that is


def fresh(size: int) -> Table:
  """A table of N past policies before the first game."""
  return Table(jnp.zeros((size + 1, size + 1)), jnp.zeros((size + 1, size + 1)))


def record(
    table: Table, opponent: jax.Array, own: jax.Array, theirs: jax.Array, games: int, *, memory: float
) -> Table:
  """The table behind games of the one that learns against a past policy.

  Args:
    table: before.
    opponent: [] int32, its place.
    own: [] float32, mean payoff of the learner in these games.
    theirs: [] float32, that of the past policy.
    games: how many.
    memory: games after which what was found of a policy that goes on learning is half forgotten.
  """
  last = table.games.shape[0] - 1
  before = table.games[last, opponent]
  kept = before * 0.5 ** (games / memory)
  share = games / (kept + games)
  mix = lambda old, new: old + share * (new - old)
  payoffs = table.payoffs.at[last, opponent].set(mix(table.payoffs[last, opponent], own))
  payoffs = payoffs.at[opponent, last].set(mix(table.payoffs[opponent, last], theirs))
  total = kept + games
  return Table(payoffs, table.games.at[last, opponent].set(total).at[opponent, last].set(total))


def joined(table: Table, place: jax.Array, joins: jax.Array) -> Table:
  """The table when the one that learns has joined at a place: its numbers are known there, where `joins`."""
  last = table.games.shape[0] - 1

  def move(x: jax.Array) -> jax.Array:
    row, column = x[last].at[place].set(0), x[:, last].at[place].set(0)
    return jnp.where(joins, x.at[place].set(row).at[:, place].set(column), x)

  return Table(move(table.payoffs), move(table.games))


def latest(table: Table, present: jax.Array, newest: jax.Array) -> jax.Array:
  """[N]: the newest, always."""
  del table
  return (jnp.arange(present.shape[0]) == newest).astype(jnp.float32)


def uniform(table: Table, present: jax.Array, newest: jax.Array) -> jax.Array:
  """[N]: each as often. (fictitious self-play)"""
  del table, newest
  return present / present.sum()


def prioritised(
    table: Table, present: jax.Array, newest: jax.Array, *, power: float, scale: float
) -> jax.Array:
  """[N]: the more often, the less is won against it, ∝ (1 - w)^power with w = (payoff / scale + 1) / 2.

  Args:
    table: of payoffs within ±scale; who was not played yet counts as even.
    present: [N] bool, who is there.
    newest: place of the newest; not looked at.
    power: 0 is uniform.
    scale: the most that can be won.
  Source: AlphaStar, Vinyals et al., 2019, https://doi.org/10.1038/s41586-019-1724-z, PFSP.
  """
  del newest
  won = jnp.clip((table.payoffs[-1, :-1] / scale + 1) / 2, 0, 1)
  weights = jnp.where(present, jnp.maximum((1 - won) ** power, 1e-6), 0)
  return weights / weights.sum()


def nash_mix(table: Table, present: jax.Array, newest: jax.Array, *, iterations: int) -> jax.Array:
  """[N]: an equilibrium of the table among past policies, by regret matching: the mix of PSRO.

  Args:
    table: of payoffs; a pair that has not met counts as even.
    present: [N] bool.
    newest: not looked at.
    iterations: of regret matching, whose average is taken.
  Source: Lanctot et al., 2017, https://arxiv.org/abs/1711.00832; Hart and Mas-Colell, 2000.
  """
  del newest
  payoffs = table.payoffs[:-1, :-1]
  game = (payoffs - payoffs.T) / 2  # of two players whose sum is 0
  even = present / present.sum()

  def step(carry, _):
    regrets, total = carry
    positive = jnp.where(present, jnp.maximum(regrets, 0), 0)
    mix = jnp.where(positive.sum() > 0, positive / jnp.maximum(positive.sum(), 1e-9), even)
    worth = game @ mix
    return (jnp.maximum(regrets + worth - mix @ worth, 0), total + mix), None

  none = jnp.zeros(present.shape[0])
  (_, total), _ = jax.lax.scan(step, (none, none), length=iterations)
  return total / total.sum()


def elo(payoffs: jax.Array, games: jax.Array, *, scale: float, iterations: int = 400) -> jax.Array:
  """[N] Elo numbers with mean 0, by which the expected scores of all games come out right.

      Σ_j games_ij (w_ij - 1 / (1 + 10^((R_j - R_i) / 400))) = 0 for each i,   w = (payoff / scale + 1) / 2

  One game of a half point each is added to every pair, so that who has won all of his has a number too.

  Args:
    payoffs: [N, N] mean payoff of the row against the column.
    games: [N, N] how many.
    scale: the most that can be won.
    iterations: of Newton's method on the diagonal, damped.
  Source: Elo, 1978; Bradley and Terry, 1952.
  """
  apart = 1 - jnp.eye(games.shape[0])
  num = (games + 1) * apart
  won = (games * jnp.clip((payoffs / scale + 1) / 2, 0, 1) + 0.5) * apart

  def step(ratings, _):
    expected = jax.nn.sigmoid(ratings[:, None] - ratings[None])
    slope = (num * expected * (1 - expected)).sum(axis=1)
    ratings += 0.5 * (won - num * expected).sum(axis=1) / jnp.maximum(slope, 1e-6)
    return ratings - ratings.mean(), None

  ratings, _ = jax.lax.scan(step, jnp.zeros(games.shape[0]), length=iterations)
  return ratings * 400 / jnp.log(10.0)
