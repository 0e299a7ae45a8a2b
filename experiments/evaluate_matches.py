"""`rlx evaluate --workdir=DIR --against=DIR[@STEP]`: checkpoints of runs play each other in a game.

What is printed is what each gets on average against each of the others, sides swapped, and Elo numbers. The
world and how long its actions are come from the first run; a checkpoint that is not named is the newest.
"""

import argparse
import json
from pathlib import Path

from rlx.experiments.commands import EXIT_DONE, CommandError, Parser, positive

_EXAM = 'versions'
_GAMES, _PLAYER = 512, 'policy'


def add_options(parser: Parser) -> None:
  """Who is played against."""
  parser.add_argument(
      '--against', action='append', default=[], metavar='DIR[@STEP]',
      help='play the checkpoint of another run, or another one of this; may be repeated',
  )
  parser.add_argument('--games', type=positive, help=f'of each two, at each seat; by default {_GAMES}')
  parser.add_argument('--player', metavar='MODEL', help=f'who plays, by its name; by default {_PLAYER}')


def check(arguments: argparse.Namespace) -> None:
  """Refuses options that would be of no use, as `CommandError`."""
  if arguments.against and (arguments.eval or arguments.output):
    raise CommandError('--against has an evaluation of its own, without texts: leave --eval and --output out')
  if not arguments.against and (arguments.games or arguments.player):
    raise CommandError('--games and --player are for --against=DIR[@STEP], which is missing')


def main(arguments: argparse.Namespace, overrides: list[tuple[str, str]]) -> int:
  """Plays and prints; returns the exit code."""
  import jax
  import jax.numpy as jnp

  from rlx.controllers import league
  from rlx.run.opened import open_run

  player, games = arguments.player or _PLAYER, arguments.games or _GAMES
  runs = [(arguments.workdir, arguments.step), *map(place, arguments.against)]
  found = [_player(workdir, step, player, overrides) for workdir, step in runs]
  names, players = [name for name, _ in found], [params for _, params in found]
  for name, params in zip(names[1:], players[1:], strict=True):
    if jax.tree.map(jnp.shape, params) != jax.tree.map(jnp.shape, players[0]):
      raise CommandError(f'--against={name}: {player!r} has another shape than in {names[0]}')
  stacked = jax.tree.map(lambda *x: jnp.stack(x), *players)
  config = _with_exam(arguments.workdir, overrides, player, games, len(players))
  with open_run(arguments.workdir, config, step=arguments.step) as opened, jax.set_mesh(opened.run.mesh):
    exam = next(exam for exam in opened.run.evals if exam.name == _EXAM)
    payoffs = jax.jit(exam.evaluation.ask)({player: stacked}, None)
  # Elo knows who won, not whether there was more to be had for both.
  ahead = (payoffs - payoffs.T) / 2
  played = jnp.full(payoffs.shape, 2.0 * games)
  ratings = league.elo(ahead, played, scale=float(jnp.maximum(jnp.abs(ahead).max(), 1.0)))
  rows = [
      {'name': name, 'elo': float(ratings[i]), 'payoffs': [float(x) for x in payoffs[i]]}
      for i, name in enumerate(names)
  ]
  print('\n'.join(map(json.dumps, rows)) if arguments.json else table(rows))
  return EXIT_DONE


def table(rows: list[dict]) -> str:
  """Who got what against whom, a line each: number, payoffs against each number, Elo, name."""
  width = range(len(rows))
  lines = ['  ' + ''.join(f'{i + 1:>9}' for i in width) + f'{"Elo":>8}']
  for i, row in enumerate(rows):
    numbers = ''.join(f'{x:>+9.3f}' for x in row['payoffs'])
    lines.append(f'{i + 1:>2}{numbers}{row["elo"]:>+8.0f}  {row["name"]}')
  return '\n'.join(lines)


def place(text: str) -> tuple[str, int | None]:
  """The directory and the step of `DIR[@STEP]`."""
  workdir, at, step = text.rpartition('@')
  if not at or Path(text).is_dir():
    return text, None
  if not step.isdigit():
    raise CommandError(f'--against={text}: needs DIR or DIR@STEP, with a whole number')
  return workdir, int(step)


def _player(workdir: str, step: int | None, name: str, overrides) -> tuple[str, dict]:
  """A checkpoint's name, and what is seen of a model there; of a population its first member."""
  from rlx.run.opened import open_run

  with open_run(workdir, _config(workdir, overrides), step=step) as opened:
    models = opened.stage.view(opened.own(0))
    if name not in models:
      raise CommandError(f'--player={name}: {workdir} holds the models {sorted(models)} at this step')
    return f'{workdir}@{opened.position.step}', models[name]


def _config(workdir: str, overrides: list[tuple[str, str]]):
  """What ran there, with the options of this command."""
  from rlx import config as configs
  from rlx.run.opened import config_of

  config = config_of(workdir)
  for path, text in overrides:
    configs.override(config, path, text)
  return config


def _with_exam(workdir: str, overrides: list[tuple[str, str]], player: str, games: int, size: int):
  """The config with nothing but the evaluation in which they meet."""
  config = _config(workdir, overrides)
  if 'turn_tokens' not in config.rollout or 'max_turns' not in config.rollout:
    raise CommandError(f'--workdir={workdir}: its rollout {config.rollout.name!r} plays no turns')
  most = config.rollout.max_turns
  if 'value' not in most:
    raise CommandError('--against needs so many turns and no schedule: set --config.rollout.max_turns')
  with config.unlocked():
    config.evals = {_EXAM: {
        'name': 'seats.versions', 'names': {'player': player}, 'size': size, 'problems': games,
        'turn_tokens': config.rollout.turn_tokens, 'max_turns': most.value,
        'every': config.log.steps_per_dispatch,
    }}
    config.log.headline = f'eval/{_EXAM}/0_0'
  return config
