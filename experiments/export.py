"""`rlx export --workdir=DIR --output=DIR`: the policy of a run as a Hugging Face directory."""

from pathlib import Path

from rlx.experiments.commands import EXIT_DONE, CommandError, Parser


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  arguments = _parser().parse_args(argv)
  workdir = Path(arguments.workdir)
  if not (workdir / 'config.json').is_file():
    raise CommandError(f'--workdir={workdir} holds no run (there is no config.json in it)')
  import jax

  from rlx import config as configs
  from rlx.run import export, states, train
  from rlx.run.build import build

  run = build(configs.load(str(workdir / 'config.json')))
  with jax.set_mesh(run.mesh):
    state, position = train.restore(run, workdir)
    models = {**states.load_frozen(run, position.stage, {}), **state.models}
    written = export.export(run, models, position.stage, Path(arguments.output))
  if not written:
    raise CommandError(f'the model of {workdir} did not come from a Hugging Face directory: nothing to do')
  print(f'step {position.step}: ' + ', '.join(map(str, written)))
  return EXIT_DONE


def _parser() -> Parser:
  parser = Parser(
      prog='rlx export',
      description='Writes OUTPUT/model (and OUTPUT/adapter of a LoRA run) from the newest checkpoint.',
  )
  parser.add_argument('--workdir', required=True, metavar='DIR', help='of the run, finished or not')
  parser.add_argument('--output', required=True, metavar='DIR')
  return parser
