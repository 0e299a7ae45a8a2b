"""`rlx play --workdir=DIR`: what a run's policy does, as a moving picture, or what its model writes."""

from pathlib import Path
from typing import Any

import numpy as np

from rlx.experiments import look
from rlx.experiments.commands import EXIT_DONE, CommandError, Parser, natural, positive, seed

PAUSE = 8  # frames that the last picture of an episode stays


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  arguments, overrides = look.parse(_parser(), argv)
  from rlx import config as configs
  from rlx.envs.control.environment import Environment
  from rlx.run.opened import config_of, open_run

  if arguments.output and Path(arguments.output).suffix.lower() != '.gif':
    raise CommandError(f'--output={arguments.output}: pictures are written as a GIF; call it NAME.gif')
  config = config_of(arguments.workdir)
  for path, text in overrides:
    configs.override(config, path, text)
  if 'task' in config:
    with config.unlocked():
      config.log.samples = arguments.episodes
  with open_run(arguments.workdir, config, step=arguments.step) as opened:
    if opened.run.is_text:
      _write_transcripts(opened, arguments)
    elif isinstance(opened.run.task, Environment):
      _play(opened, arguments)
    else:
      raise CommandError(f'{type(opened.run.task).__name__} is no environment that is played step by step')
  return EXIT_DONE


def _play(opened, arguments) -> None:
  """Prints the returns of episodes and writes the pictures, where there are any."""
  env, output = opened.run.task, arguments.output or Path(arguments.workdir) / 'play.gif'
  blind = f'{opened.run.config.env.name} cannot be drawn: it has no `draw` (rlx/envs/control/drawing.py)'
  if env.draw is None and arguments.output:
    raise CommandError(f'--output={output}: {blind}; without --output its returns are printed')
  played = _recorded(opened, arguments.model, arguments)
  for i, (earned, length, ended) in enumerate(
      zip(played['returns'], played['lengths'], played['ended'], strict=True)
  ):
    print(f'episode {i}: return {earned:.6g}, {length} steps{"" if ended else ", not over"}')
  print(f'mean {played["returns"].mean():.6g}, score {env.score(played["returns"].mean()):.1f} at step '
        f'{opened.position.step}')
  if env.draw is not None:
    _write_gif(Path(output), _pictures(env, played), arguments.fps)
  print(blind if env.draw is None else output)


def _recorded(opened, name: str, arguments) -> dict[str, Any]:
  """Episodes of a model of the run, on the host."""
  import jax

  from rlx.evaluation.recording import record
  from rlx.run.stages import there

  stage, env = opened.stage, opened.run.task
  known = there(stage.own, stage.models)
  if name not in known:
    raise CommandError(f'--model={name}: stage {stage.name!r} has {sorted(known)}')
  policy, key = stage.kind(name).model.functions, jax.random.key(arguments.seed)
  counts = {'episodes': arguments.episodes, 'max_steps': arguments.max_steps}
  play = jax.jit(lambda params, key: record(env, policy, params, key, **counts))
  with jax.set_mesh(opened.run.mesh):
    try:
      return jax.device_get(play(stage.view(opened.own(arguments.member))[name], key))
    except ValueError as error:
      raise CommandError(f'--model={name}: {error}') from error


def _pictures(env, played: dict[str, Any]) -> list[np.ndarray]:
  """One episode behind the other, each up to its end."""
  import jax

  pictures = []
  for i, length in enumerate(played['lengths']):
    at = lambda t, i=i: jax.tree.map(lambda x: np.asarray(x[t, i]), played['states'])
    pictures += [env.draw(at(t)) for t in range(length + 1)]
    pictures += [pictures[-1]] * PAUSE
  return pictures


def _write_gif(path: Path, pictures: list[np.ndarray], fps: int) -> None:
  from PIL import Image

  path.parent.mkdir(parents=True, exist_ok=True)
  first, *rest = (Image.fromarray(picture) for picture in pictures)
  first.save(path, save_all=True, append_images=rest, duration=round(1000 / fps), loop=0)


def _write_transcripts(opened, arguments) -> None:
  """Prints what the evaluations of a run on language read."""
  if arguments.output:
    raise CommandError(f'--output={arguments.output}: texts have no moving pictures; leave it away')
  read = []
  for exam in (exam for exam in opened.run.evals if not opened.lacks(exam)):
    read += opened.examine(exam)[1][: arguments.episodes - len(read)]
  if not read:
    raise CommandError('no evaluation of this run reads texts; rlx export and rlx generate ask its model')
  for row in read:
    wrong = f'it is {row["solution"]}' if row['solution'] else 'wrong'  # of an episode there is none
    mark = 'right' if row['correct'] else wrong
    print(f'{row["prompt"]}{row["completion"]}\n  ({mark})')


def _parser() -> Parser:
  parser = Parser(
      prog='rlx play', free=('--config.',),
      description='Plays episodes with the policy of a run of control and draws them as a GIF; prints '
      'transcripts of a run on language. Any value of the config can be set, such as --config.env.max_steps.',
  )
  look.add_run_options(parser)
  parser.add_argument('--episodes', type=positive, default=3, metavar='N', help='3 by default')
  parser.add_argument('--output', metavar='FILE.gif', help='by default play.gif in the workdir')
  parser.add_argument('--model', default='policy', metavar='NAME', help='of the run, policy by default')
  parser.add_argument('--member', type=natural, default=0, metavar='I', help='of a population')
  parser.add_argument('--max_steps', type=positive, default=500, help='of an episode that does not end')
  parser.add_argument('--seed', type=seed, default=0, help='of the starts; 0, that of the evaluations')
  parser.add_argument('--fps', type=positive, default=25, help='pictures a second')
  return parser
