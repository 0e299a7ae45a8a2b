"""Small games, exactly: how far from Nash the seats are, and how often they win; nothing is sampled."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from rlx.engine.speaker import Speaker
from rlx.envs.games import tree as trees
from rlx.envs.text import Task
from rlx.envs.worlds.tables import WordGame, read_rows
from rlx.errors import ConfigError
from rlx.evaluation.evaluation import Evaluation
from rlx.models.league import COUNT, POLICIES, size_of
from rlx.types import Models, World

EXPLOITABILITY = 'nash_conv'


def nash_conv(task: Task, speakers: Mapping[str, Speaker]) -> Evaluation:
  """`nash_conv`, what all seats together could gain; `illegal`, the chance of a move that is none.

  The chances of moves are read off the model at every information set, so nothing is sampled. An action is
  one token: `rollout.turn_tokens` is 1. What is said besides moves is an illegal move, and costs its forfeit.

  Args:
    task: a game in words of which `history` is known, such as `kuhn`.
    speakers: seat -> who plays it, by `names`.
  Returns:
    The evaluation; besides, `value/<seat>` is what a seat gets on average where the speakers play each other.
  Raises:
    ConfigError: the task is no such game, or a seat has no speaker.
  """
  game, strategy_of = _read(task, speakers)

  def ask(models: Models, world: World):
    del world
    strategy = strategy_of(models)
    values = trees.values(game.tree, strategy)
    return {
        EXPLOITABILITY: trees.nash_conv(game.tree, strategy), 'illegal': jnp.mean(1 - strategy.sum(axis=1)),
        **{f'value/{seat}': values[number] for number, seat in enumerate(game.seats)},
    }

  return Evaluation(ask=ask, read=_numbers)


def nash_conv_of_league(task: Task, speakers: Mapping[str, Speaker]) -> Evaluation:
  """`nash_conv` of who draws one of a league's versions before each game, all alike, and keeps to it.

  That is the average which fictitious play takes towards Nash, where no single version need come near it.

  Args:
    task: as for `nash_conv`; an action is one token.
    speakers: seat -> the league that plays it (`models.league`), by `names`.
  Returns:
    The evaluation.
  Raises:
    ConfigError: as `nash_conv`.
  Source: Heinrich, Lanctot and Silver, 2015, Fictitious self-play in extensive-form games.
  """
  game, strategy_of = _read(task, speakers)

  def ask(models: Models, world: World):
    del world
    strategies = jax.vmap(strategy_of)({seat: models[seat][POLICIES] for seat in task.seats})
    first = models[task.seats[0]]
    there = jnp.arange(size_of(first)) < first[COUNT]
    mix = trees.mixed(game.tree, strategies, there / there.sum())
    return {EXPLOITABILITY: trees.nash_conv(game.tree, mix)}

  return Evaluation(ask=ask, read=_numbers)


def against_chance(task: Task, speakers: Mapping[str, Speaker]) -> Evaluation:
  """`win_rate`, how often a seat is paid more than 0 where the others make any allowed move; mean of seats.

  Args:
    task: as for `nash_conv`; an action is one token.
    speakers: seat -> who plays it, alone against the others, by `names`.
  Returns:
    The evaluation; besides, `win_rate/<seat>` is that of a seat.
  Raises:
    ConfigError: as `nash_conv`.
  """
  game, strategy_of = _read(task, speakers)
  seats = range(len(game.seats))

  def ask(models: Models, world: World):
    del world
    strategy, wins = strategy_of(models), trees.won(game.tree)
    beside = trees.uniform(wins)
    alone = [jnp.where((wins.movers == seat)[:, None], strategy, beside) for seat in seats]
    rates = [trees.values(wins, alone[seat])[seat] for seat in seats]
    return {'win_rate': sum(rates) / len(rates), **{f'win_rate/{game.seats[n]}': rates[n] for n in seats}}

  return Evaluation(ask=ask, read=_numbers)


def _numbers(answer):
  return {name: float(x) for name, x in answer.items()}, []


def _read(task: Task, speakers: Mapping[str, Speaker]):
  """A game in words, and `models -> [I, A]`, what its seats do."""
  if not isinstance(task, WordGame):
    raise ConfigError(f'asked is a game in words, such as kuhn; {type(task).__name__} is none')
  if missing := [seat for seat in task.seats if seat not in speakers]:
    raise ConfigError(f'the seats {missing} have no model; name one for each in names')
  tree = task.tree
  rows = read_rows(task, tree.views, tree.movers)
  ask_seat = {seat: _asked(task, speakers[seat], tree, rows, n) for n, seat in enumerate(task.seats)}

  def strategy_of(models: Models) -> jax.Array:
    strategy = jnp.zeros(tree.legal.shape)
    for number, seat in enumerate(task.seats):
      strategy = strategy.at[tree.movers == number].set(ask_seat[seat](models[seat]))
    return strategy

  return task, strategy_of


def _asked(task: WordGame, speaker: Speaker, tree: trees.Tree, rows: Mapping[str, np.ndarray], seat: int):
  """`params -> [I of the seat, A]`, the chances of allowed moves."""
  own = tree.movers == seat
  tokens, lengths = jnp.asarray(rows['tokens'][own]), jnp.asarray(rows['lengths'][own])
  legal = jnp.asarray(tree.legal[own])

  def chances(params) -> jax.Array:
    logits = speaker.next_logits(params, tokens, lengths, prompt_columns=task.prompt_columns)
    return jnp.where(legal, jax.nn.softmax(logits)[:, task.moves], 0)

  return chances
