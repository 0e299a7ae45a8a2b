"""How far from Nash the seats of a small game are, exactly: what each could gain by its best answer."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from rlx.engine.sample import adjusted_logits
from rlx.engine.speaker import Speaker
from rlx.envs.games import tree as trees
from rlx.envs.text import Task
from rlx.envs.worlds.tables import WordGame, read_rows
from rlx.errors import ConfigError
from rlx.evaluation.evaluation import Evaluation
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
  if not isinstance(task, WordGame):
    raise ConfigError(f'nash_conv asks a game in words, such as kuhn; {type(task).__name__} is none')
  if missing := [seat for seat in task.seats if seat not in speakers]:
    raise ConfigError(f'nash_conv: the seats {missing} have no model; name one for each in names')
  tree = trees.written_out(task.game)
  rows = read_rows(task, tree.views, tree.movers)
  ask_seat = {seat: _asked(task, speakers[seat], tree, rows, n) for n, seat in enumerate(task.seats)}

  def ask(models: Models, world: World):
    del world
    strategy = jnp.zeros(tree.legal.shape)
    for number, seat in enumerate(task.seats):
      strategy = strategy.at[tree.movers == number].set(ask_seat[seat](models[seat]))
    values = trees.values(tree, strategy)
    return {
        EXPLOITABILITY: trees.nash_conv(tree, strategy), 'illegal': jnp.mean(1 - strategy.sum(axis=1)),
        **{f'value/{seat}': values[number] for number, seat in enumerate(task.seats)},
    }

  def read(answer):
    return {name: float(x) for name, x in answer.items()}, []

  return Evaluation(ask=ask, read=read)


def _asked(task: WordGame, speaker: Speaker, tree: trees.Tree, rows: Mapping[str, np.ndarray], seat: int):
  """`params -> [I of the seat, A]`, the chances of allowed moves."""
  own = tree.movers == seat
  tokens, lengths = jnp.asarray(rows['tokens'][own]), jnp.asarray(rows['lengths'][own])
  legal = jnp.asarray(tree.legal[own])

  def chances(params) -> jax.Array:
    hidden, _ = speaker.model.forward(params, tokens)
    last = jnp.take_along_axis(hidden, (lengths - 1)[:, None, None], axis=1)[:, 0]
    behind = lengths - task.prompt_columns
    logits = adjusted_logits(params, speaker.model, speaker.decoding, last, behind)
    return jnp.where(legal, jax.nn.softmax(logits)[:, task.moves], 0)

  return chances
