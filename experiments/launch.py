"""`rlx --config=FILE --workdir=DIR [--config.key=value ...]`: a config becomes a run.

Beside it: `rlx init-model` writes a random Hugging Face directory to try things with, `rlx generate` talks to
one, `rlx evaluate` measures one, `rlx export` writes one from a run, `rlx make-dataset` writes transitions to
learn from offline, `rlx sweep` makes many runs, `rlx compare` draws their curves. Each has `--help`.

Exit codes: 0 done; 75 stopped by a signal and saved, start the same command again; 2 the command or the
config is wrong, do not retry. Anything else is a crash.
"""

import argparse
import importlib
import os
from pathlib import Path
import sys

EXIT_DONE, EXIT_DO_NOT_RETRY, EXIT_REQUEUE = 0, 2, 75

# Modules of experiments/.
COMMANDS = ('init-model', 'generate', 'evaluate', 'export', 'make-dataset', 'sweep', 'compare')


def main(argv: list[str] | None = None) -> int:
  """Runs a command line; returns the exit code."""
  argv = sys.argv[1:] if argv is None else argv
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
  use_compilation_cache()
  from rlx.errors import ConfigError  # after the environment is set: these import jax

  try:
    if argv and argv[0] in COMMANDS:
      return importlib.import_module(f'rlx.experiments.{argv[0].replace("-", "_")}').main(argv[1:])
    return _train(argv)
  except (ConfigError, CommandError) as error:
    print(f'rlx: {error}', file=sys.stderr)
    return EXIT_DO_NOT_RETRY


def _train(argv: list[str]) -> int:
  from rlx import config as configs

  arguments, rest = _parser().parse_known_args(argv)
  config = configs.load(arguments.config)
  for argument in rest:
    configs.override(config, *_override(argument))
  return _run(arguments, config, argv)


def _run(arguments, config, argv) -> int:
  from rlx import config as configs

  if arguments.dry_run:
    from rlx.run.build import build
    from rlx.run.dry_run import dry_run

    _fake_devices(config.mesh)
    print(dry_run(build(config)))
    return EXIT_DONE
  if not arguments.workdir:
    raise configs.ConfigError('--workdir=DIR is missing: where the run writes, and resumes from')
  from rlx.run import train

  command = 'rlx ' + ' '.join(argv)
  try:
    outcome = train.train(config, arguments.workdir, quiet=arguments.quiet, command=command)
  except train.NonFiniteError as error:
    print(f'rlx: {error}', file=sys.stderr)
    return EXIT_DO_NOT_RETRY
  if not outcome.finished:
    if not arguments.quiet:
      print(f'stopped and saved at step {outcome.step}; the same command goes on from there')
    return EXIT_REQUEUE
  if not arguments.quiet:
    print(_summary(outcome, arguments))
    print(_next(config, arguments))
  return EXIT_DONE


def _next(config, arguments) -> str:
  """What one would try next."""
  from rlx.config import flat

  # Seeds side by side in one program, but where the reward is Python.
  on_host = 'reward' in config and config.reward.name == 'host'
  workdir, begin = arguments.workdir, f'rlx --config={arguments.config} --workdir={arguments.workdir}'
  lines = [f'{begin}-seeds {"--config.seed=1" if on_host else "--config.population.size=4"}']
  rates = [(key, x) for key, x in flat(config.optimizer) if 'learning_rate' in key and isinstance(x, float)]
  lines += [f'{begin}-lr --config.optimizer.{key}={rate / 2:g}' for key, rate in rates[:1]]
  return 'next  ' + '\n      '.join([*lines, f'tensorboard --logdir={workdir}/tensorboard'])


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
  return f'{prompt}{completion} ({"right" if row["correct"] else f"it is {solution}"})'


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
      prog='rlx',
      allow_abbrev=False,
      description='Train from a config. Any value of it can be set: --config.algorithm.clip_high=0.28',
  )
  parser.add_argument(
      '--config', required=True, metavar='FILE[:ARG]', help='a Python file with get_config(arg)'
  )
  parser.add_argument('--workdir', metavar='DIR', help='where the run writes, and resumes from')
  parser.add_argument('--dry_run', action='store_true', help='print sizes and FLOPs, and run nothing')
  parser.add_argument('--quiet', action='store_true', help='print errors only')
  return parser


def _override(argument: str) -> tuple[str, str]:
  from rlx.errors import ConfigError

  name, equals, value = argument.partition('=')
  if not name.startswith('--config.') or not equals:
    raise ConfigError(
        f'{argument!r} is not understood; options are --config, --workdir, --dry_run, --quiet '
        'and --config.key=value'
    )
  return name.removeprefix('--config.'), value


class CommandError(ValueError):
  """A command that cannot run: one line with the value, the limit and what to do."""


def use_compilation_cache() -> None:
  """Compiled programs outlive the process, so that a second start takes seconds."""
  import jax

  if jax.config.jax_compilation_cache_dir is None:
    cache = Path(os.environ.get('XDG_CACHE_HOME', Path.home() / '.cache')) / 'rlx' / 'compiled'
    jax.config.update('jax_compilation_cache_dir', str(cache))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.5)


def _fake_devices(mesh) -> None:
  """On a CPU, as many devices as a fixed mesh asks for: a dry run needs no real ones."""
  import jax

  size = max(mesh.data, 1) * mesh.fsdp * mesh.tensor
  if size > 1 and os.environ.get('JAX_PLATFORMS', 'cpu') == 'cpu':
    jax.config.update('jax_num_cpu_devices', size)


if __name__ == '__main__':
  sys.exit(main())
