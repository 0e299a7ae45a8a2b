"""`rlx evaluate --workdir=DIR`: the evaluations of a run, language or control, made from its checkpoint."""

from collections.abc import Iterable
import json
from pathlib import Path

from rlx.experiments import evaluate_matches, look
from rlx.experiments.commands import EXIT_DONE, CommandError, Parser


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  arguments, overrides = look.parse(_parser(), argv)
  evaluate_matches.check(arguments)
  if arguments.against:
    return evaluate_matches.main(arguments, overrides)
  from rlx.run.opened import config_of, open_run

  config = config_of(arguments.workdir)
  _override(config, overrides)
  if not config.evals:
    raise CommandError('the run has no evaluations; add one: --config.evals.NAME="{\'name\': ..}"')
  if unknown := sorted(set(arguments.eval) - set(config.evals)):
    raise CommandError(f'--eval={",".join(unknown)}: the run has the evaluations {sorted(config.evals)}')
  with open_run(arguments.workdir, config, step=arguments.step) as opened:
    if arguments.output and not opened.run.is_text:
      raise CommandError(f'--output={arguments.output}: a run without texts has no transcripts to write')
    row, transcripts = {}, []
    possible = [exam.name for exam in opened.run.evals if not opened.lacks(exam)]
    for exam in opened.run.evals:
      if exam.name in (arguments.eval or possible or config.evals):  # where none is possible, it says why
        metrics, read = opened.examine(exam)
        row |= metrics
        transcripts += [{'split': exam.name, **one} for one in read]
    head = {'step': opened.position.step, 'stage': opened.stage.name}
  if arguments.output:
    lines = (json.dumps(one, ensure_ascii=False) + '\n' for one in transcripts)
    Path(arguments.output).write_text(''.join(lines), errors='backslashreplace')
  if arguments.json:
    print(json.dumps({**head, **row}))
    return EXIT_DONE
  print(f'step {head["step"]} ({head["stage"]})')
  for name in sorted(row):
    print(f'{name:<40}{row[name]:.6g}')
  return EXIT_DONE


def _override(config, overrides: Iterable[tuple[str, str]]) -> None:
  """Sets values of the config. An evaluation that is asked for here and now needs no period."""
  from rlx import config as configs

  for path, text in overrides:
    configs.override(config, path, text)
  with config.unlocked():
    for section in config.evals.values():
      if 'every' not in section:
        section.every = config.log.steps_per_dispatch
    if config.evals and not config.log.headline.startswith('eval/'):  # of a run that had no evaluation
      config.log.headline = f'eval/{min(config.evals)}/accuracy'  # nobody reads it here


def _parser() -> Parser:
  parser = Parser(
      prog='rlx evaluate', free=('--config.',),
      description='Makes the evaluations of a run from its checkpoint. Any value of its config can be set, '
      'and evaluations added: --config.evals.many="{\'name\': \'episodes\', \'episodes\': 999, ..}"',
  )
  look.add_run_options(parser)
  parser.add_argument(
      '--eval', action='append', default=[], metavar='NAME', help='may be repeated; by default all of them'
  )
  evaluate_matches.add_options(parser)
  parser.add_argument('--json', action='store_true', help='one line, like those of metrics.jsonl')
  parser.add_argument('--output', metavar='FILE', help='JSONL with the transcripts, where there are texts')
  return parser
