"""`rlx export --workdir=DIR --output=DIR`: what others can load of a run.

Of language a Hugging Face directory; of control the parameters, and the policy as a function for jax alone.
"""

from pathlib import Path

from rlx.experiments import look
from rlx.experiments.commands import EXIT_DONE, CommandError, Parser, natural


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  arguments = _parser().parse_args(argv)
  workdir, output = Path(arguments.workdir), Path(arguments.output)
  from rlx.envs.control.environment import Environment
  from rlx.run import export
  from rlx.run.export_policy import export_policies
  from rlx.run.opened import config_of, open_run

  with open_run(workdir, config_of(workdir), step=arguments.step) as opened:
    run, position = opened.run, opened.position
    if run.is_text and arguments.member:
      raise CommandError(f'--member={arguments.member}: a run on language is one seed; leave it away')
    if run.is_text:
      written = export.export(run, opened.own(0), position.stage, output)
      nothing = (
          f'the model of {workdir} did not come from a Hugging Face directory: nothing to do'
          if run.population == 1
          else f'of the {run.population} seeds of {workdir} none is exported; start one alone'
      )
    else:
      is_played = isinstance(run.task, Environment)
      written = export_policies(opened, output, member=arguments.member) if is_played else ()
      nothing = f'{workdir} has trained no policy from observations to actions: nothing to do'
  if not written:
    raise CommandError(nothing)
  print(f'step {position.step}: ' + ', '.join(map(str, written)))
  return EXIT_DONE


def _parser() -> Parser:
  parser = Parser(
      prog='rlx export',
      description='Writes, from a checkpoint, OUTPUT/model (and OUTPUT/adapter of a LoRA run), or of control '
      'OUTPUT/policy: params.safetensors, and policy.stablehlo for jax.export.',
  )
  look.add_run_options(parser)
  parser.add_argument('--output', required=True, metavar='DIR')
  parser.add_argument('--member', type=natural, default=0, metavar='I', help='of a population, for control')
  return parser
