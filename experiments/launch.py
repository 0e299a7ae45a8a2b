"""`rlx --config=NAME --workdir=DIR [--config.key=value ...]`: a config becomes a run.

Beside it: `rlx init-model` writes a random Hugging Face directory to try things with, `rlx generate` talks to
one, `rlx evaluate` measures one, or a run, `rlx play` shows what a run's policy does, `rlx report` draws a
run that is at work, `rlx export` writes what others can load of it, `rlx make-dataset` writes transitions to
learn from offline, `rlx launch` sends a run to a cluster, `rlx sweep` makes many runs, `rlx compare` draws
their curves, `rlx reproduce` runs what a config claims, `rlx replay` says where a value that is not finite
comes from; `rlx list` and `rlx show` say what there is. Each has `--help`, and is a module of this folder
with a `main(argv)`.

The working folder is on the module path, so that a config can name functions of yours.

Exit codes: 0 done; 75 stopped by a signal, or for want of room on the disk, and saved, or another process of
the run has died: start the same command again; 2 the command or the config is wrong, or another process is at
work in the workdir: do not retry; 141 nobody reads what is printed (`rlx list | head`). Anything else is a
crash.
"""

import argparse
from collections.abc import Callable
import importlib
import math
import os
from pathlib import Path
import shlex
import sys

import rlx
from rlx.errors import ConfigError, did_you_mean, is_full
from rlx.experiments import catalogue, look, peers
from rlx.experiments.commands import (
  EXIT_DO_NOT_RETRY,
  EXIT_DONE,
  EXIT_NOBODY_READS,
  EXIT_REQUEUE,
  CommandError,
  Parser,
)

# Modules of experiments/, whose first line says what they do.
COMMANDS = (
    'init-model', 'generate', 'evaluate', 'play', 'report', 'export', 'make-dataset', 'launch', 'sweep',
    'compare', 'reproduce', 'replay', 'replay-calls', 'list', 'show',
)


def main(argv: list[str] | None = None) -> int:
  """Runs a command line; returns the exit code."""
  argv = sys.argv[1:] if argv is None else argv
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
  if os.getcwd() not in sys.path:
    sys.path.append(os.getcwd())
  if '_ARGCOMPLETE' in os.environ:
    argv = _line_to_complete()
  return _ended(lambda: _command(argv))


def _ended(what: Callable[[], int]) -> int:
  """The exit code of a command, whose errors are told in one line."""
  try:
    code = what()
    sys.stdout.flush()  # here, and not when Python ends, where nobody could catch what it says
    return code
  except (ConfigError, CommandError) as error:
    return _told(error, EXIT_DO_NOT_RETRY)
  except BrokenPipeError:  # of `rlx .. | head`
    _silence(sys.stdout)
    return EXIT_NOBODY_READS
  except OSError as error:
    if not is_full(error):
      raise
    where = f' ({error.filename})' if error.filename else ''
    return _told(f'{error.strerror}{where}; once there is room, the same command goes on', EXIT_REQUEUE)


def _told(error: object, code: int) -> int:
  """An error in one line, and its exit code."""
  print('rlx:', ' '.join(str(error).split('\n')), file=sys.stderr)
  return code


def _silence(stream) -> None:
  """What is left to be written to a stream goes nowhere."""
  try:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
  except (OSError, ValueError):  # no file is behind it
    return


def _command(argv: list[str]) -> int:
  """Dispatches; a line that begins with an option trains."""
  name, rest = (argv[0], argv[1:]) if argv and not argv[0].startswith('-') else ('train', argv)
  name = name.replace('_', '-')  # as modules are written
  if name == 'train':
    return _train(rest)
  if name not in COMMANDS:
    hint = did_you_mean(name, ('train', *COMMANDS)) or '; see rlx --help'
    raise CommandError(f'there is no command {name!r}{hint}')
  if name != 'launch':  # its jobs find their own folder where they run
    use_compilation_cache()
  try:
    return importlib.import_module(_module(name)).main(rest)
  except OSError as error:
    if not error.filename or is_full(error):  # or else it is of a path that cannot be read or written
      raise
    raise CommandError(f'{error.filename}: {error.strerror}') from error


def _module(command: str) -> str:
  name = 'submit' if command == 'launch' else command.replace('-', '_')  # this module is launch
  return f'rlx.experiments.{name}'


def _line_to_complete() -> list[str]:
  """The words of a line in the shell where they are a command's own, whose parser knows what can follow."""
  words = os.environ['COMP_LINE'][: int(os.environ['COMP_POINT'])].split(' ')[1:]
  if words[0] not in ('train', *COMMANDS) or len(words) == 1:
    return []
  os.environ['_ARGCOMPLETE'] = '2'  # the first word that is the command's own
  return words


def _train(argv: list[str]) -> int:
  arguments, rest = _options(argv)
  if arguments.distributed and not arguments.dry_run:
    return peers.supervised(lambda: _join_and_run(arguments, rest, argv))
  return _load_and_run(arguments, rest, argv)


def _options(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
  """What a run is told, and `--config.key=value` as they stand."""
  parser = _parser()
  parser.complete()
  arguments, rest = parser.parse_known_args(argv)
  if arguments.command:
    raise CommandError(f'{arguments.command!r} is a command: it comes first, rlx {arguments.command} ...')
  if not arguments.config:
    raise CommandError('--config=NAME is missing: what to train; see rlx --help and rlx list configs')
  peers.check(arguments)
  return arguments, rest


def checked(argv: list[str]) -> argparse.Namespace:
  """The options of a run, whose config is there and has what is set of it.

  Raises:
    CommandError, ConfigError: the run would not begin; it may still be told by `build` that it cannot.
  """
  arguments, rest = _options(argv)
  _config(arguments, rest)
  return arguments


def _join_and_run(arguments, rest, argv) -> int:
  with peers.joined(arguments):
    return _ended(lambda: _load_and_run(arguments, rest, argv))


def _load_and_run(arguments, rest, argv) -> int:
  return _run(arguments, _config(arguments, rest), argv)


def _config(arguments, rest):
  from rlx import config as configs

  config = configs.load(arguments.config)
  for path, text in look.overrides(rest):
    configs.override(config, path, text)
  return config


def _run(arguments, config, argv) -> int:
  from rlx import config as configs

  if arguments.dry_run:
    from rlx.run.build import build
    from rlx.run.dry_run import dry_run

    topology = _topology(arguments, config)
    print(dry_run(build(config), topology))
    return EXIT_DONE
  if arguments.topology:
    raise CommandError('--topology only compiles: it goes with --dry_run')
  if not arguments.workdir:
    raise configs.ConfigError('--workdir=DIR is missing: where the run writes, and resumes from')
  from rlx import processes
  from rlx.run import train

  use_compilation_cache()
  quiet = arguments.quiet or not processes.is_first()
  command = 'rlx ' + ' '.join(argv)
  try:
    outcome = train.train(config, arguments.workdir, quiet=quiet, command=command)
  except train.NonFiniteError as error:
    return _told(error, EXIT_DO_NOT_RETRY)
  if not outcome.finished:
    if not quiet:
      print(f'stopped and saved at step {outcome.step}; the same command goes on from there')
    return EXIT_REQUEUE
  if not quiet:
    print(_summary(outcome, arguments))
    print(_next(config, arguments, [word for word in argv if word.startswith('--config.')]))
  return EXIT_DONE


def _next(config, arguments, overrides: list[str]) -> str:
  """What one would try next, with what was overridden, and one thing else."""
  from rlx.config import flat

  # Seeds side by side in one program, but where the reward is Python.
  on_host = 'reward' in config and config.reward.name == 'host'

  def line(suffix: str, key: str, value: object) -> str:
    kept = [word for word in overrides if not word.startswith(f'--config.{key}=')]
    words = [f'--config={arguments.config}', f'--workdir={arguments.workdir}-{suffix}', *kept]
    return f'rlx {shlex.join(words)} --config.{key}={value}'

  lines = [line('seeds', 'seed', 1) if on_host else line('seeds', 'population.size', 4)]
  rates = [(key, x) for key, x in flat(config) if 'learning_rate' in key and isinstance(x, float)]
  rates.sort(key=lambda rate: not rate[0].startswith('optimizer.'))  # before those of stages and learners
  lines += [line('lr', key, f'{rate / 2:g}') for key, rate in rates[:1]]
  lines.append(f'tensorboard --logdir={shlex.quote(f"{arguments.workdir}/tensorboard")}')
  return 'next  ' + '\n      '.join(lines)


def _summary(outcome, arguments) -> str:
  """Three transcripts before and after, the headline metric, and where to look."""
  lines = []
  for name, rows in (('before', outcome.transcripts_before), ('after', outcome.transcripts_after)):
    lines += [f'{name:<7}' + '   '.join(map(_transcript, rows[:3]))] if rows else []
  lines.append(_headline(outcome))
  lines += [f'the model is in {path}' for path in outcome.exported]
  lines.append(f'{outcome.seconds:.0f} s; look at {arguments.workdir}/curve.png and report.html')
  return '\n'.join(lines)


def _headline(outcome) -> str:
  """The metric that an evaluation is read by, at the start of the last stage and at its end."""
  number = lambda x: 'not measured' if x is None else f'{x:.3f}'
  percent = lambda x: 'not measured' if x is None else f'{100 * x:.1f} %'
  from rlx.run.report import called

  show = percent if outcome.metric.endswith('/accuracy') else number
  return f'{called(outcome.metric)}: {show(outcome.before)} before, {show(outcome.after)} after'


def _transcript(row, *, characters: int = 60) -> str:
  """Prompt and completion in one line: the end of a long prompt, the beginning of a long completion."""
  line = lambda text: text.replace('\n', '\\n')
  prompt, completion = line(row['prompt']), line(row['completion'])
  prompt = prompt if len(prompt) <= characters else f'...{prompt[-characters:]}'
  completion = completion if len(completion) <= characters else f'{completion[:characters]}...'
  solution = line(row['solution'])
  solution = solution if len(solution) <= characters else f'...{solution[-characters:]}'
  wrong = f'it is {solution}' if solution else 'wrong'  # data may have an answer and no solution
  return f'{prompt}{completion} ({"right" if row["correct"] else wrong})'


def _parser() -> Parser:
  parser = Parser(
      prog='rlx', free=('--config.',), formatter_class=argparse.RawDescriptionHelpFormatter,
      description='Train from a config. Any value of it can be set: --config.algorithm.clip_high=0.28',
      epilog=f'{_commands()}\n\n'
      'Exit codes: 0 done, 75 stopped and saved (start it again), 2 wrong input (do not).',
  )
  parser.add_argument('--version', action='version', version=f'rlx {rlx.__version__}')
  parser.add_argument(
      '--config', metavar='NAME[:ARG]', help='quickstart/arithmetic:smoke, or a file with get_config(arg)'
  ).completer = lambda **_: _configs()
  parser.add_argument('--workdir', metavar='DIR', help='where the run writes, and resumes from')
  parser.add_argument('--dry_run', action='store_true', help='print sizes and FLOPs, and run nothing')
  parser.add_argument(
      '--topology', metavar='KIND:SIZES', default='',
      help='with --dry_run: compile for devices that are not here, such as v5p:4x4x4 or h200:8',
  )
  parser.add_argument('--quiet', action='store_true', help='print errors only')
  peers.add_options(parser)
  parser.add_argument(
      'command', nargs='?', choices=('train', *COMMANDS), metavar='COMMAND', help=argparse.SUPPRESS
  )
  return parser


def _commands() -> str:
  """A line for each command."""
  source = lambda name: Path(__file__).with_name(f'{_module(name).rpartition(".")[2]}.py')
  lines = {'train': 'a config becomes a run; `rlx --config=..` is short for it'}
  lines |= {name: catalogue.what(catalogue.docstring(source(name))) for name in COMMANDS}
  return 'commands:\n' + '\n'.join(f'  {name:<14}{what}' for name, what in lines.items())


def _configs() -> list[str]:
  from rlx import config as configs

  return list(configs.names())


def use_compilation_cache() -> None:
  """Compiled programs outlive the process, so that a second start takes seconds; what is set already stays.

  Importing jax takes a second, which `--help` and the shell's completion need not wait for: it reads this."""
  home = Path(os.environ.get('XDG_CACHE_HOME', Path.home() / '.cache'))
  cache = os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', str(home / 'rlx' / 'compiled'))
  seconds = os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.5')
  jax = sys.modules.get('jax')
  if jax is not None and jax.config.jax_compilation_cache_dir is None:
    jax.config.update('jax_compilation_cache_dir', cache)
    jax.config.update('jax_persistent_cache_min_compile_time_secs', float(seconds))


def _topology(arguments, config):
  """The devices that a dry run compiles for; None for those that are here, or made up."""
  if not arguments.topology:
    _fake_devices(config.mesh)
    return None
  from rlx.run import topologies

  topology = topologies.parse(arguments.topology)
  topologies.prepare(topology)
  return topology


def _fake_devices(mesh) -> None:
  """On a CPU, as many devices as a fixed mesh asks for: a dry run needs no real ones."""
  import jax

  sizes = [mesh[name] for name in mesh if isinstance(mesh[name], int)]  # what is none is told by the builder
  size = math.prod(max(size, 1) for size in sizes)
  if size > 1 and os.environ.get('JAX_PLATFORMS', 'cpu') == 'cpu':
    jax.config.update('jax_num_cpu_devices', size)


if __name__ == '__main__':
  sys.exit(main())
