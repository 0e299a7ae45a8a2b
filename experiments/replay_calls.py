"""`rlx replay-calls WORKDIR`: the recorded calls of a run, made again without a model."""

from pathlib import Path

from rlx.experiments.commands import EXIT_DO_NOT_RETRY, EXIT_DONE, CommandError, Parser

_SHOWN = 5


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  parser = Parser(
      prog='rlx replay-calls',
      description='Makes the recorded calls of tools of a run again, and says which answers are others. '
      'A digest that is not that of its call stops it.',
  )
  parser.add_argument('workdir', metavar='WORKDIR', help='of the run; nothing in it is changed')
  parser.add_argument('--records', default='*/*.jsonl', help='which files of WORKDIR/calls (%(default)s)')
  arguments = parser.parse_args(argv)
  from rlx.rollout import calls_again, calls_record

  folder = Path(arguments.workdir) / 'calls'
  paths = sorted(folder.glob(arguments.records))
  if not paths:
    raise CommandError(f'{folder} has no records {arguments.records}; runs with tools in Python have them')
  hosts = _hosts(arguments.workdir)
  num, changed = 0, []
  for path in paths:
    box = _host_of(path.parent.name, hosts).box_of(path.stem)
    found = calls_again.again(box, calls_record.read(path))
    num += len(found)
    changed += [(path, one) for one in found if not one.is_same]
  print(f'{num} calls of {len(paths)} records, {len(changed)} with another answer')
  for path, one in changed[:_SHOWN]:
    print(f'  {path.name} {one.entry.place} {one.entry.tool}: {one.entry.value!r:.60}, now {one.value!r:.60}')
  return EXIT_DO_NOT_RETRY if changed else EXIT_DONE


def _hosts(workdir: str) -> dict:
  """What has tools in a run: its stages by name, and its evaluations."""
  from rlx.evaluation.evaluation import HostEvaluation
  from rlx.run.build import build
  from rlx.run.opened import config_of
  from rlx.types import HostRollout

  run = build(config_of(workdir))
  rollouts = {stage.name: stage.rollout for stage in run.stages}
  hosts = {name: one.host for name, one in rollouts.items() if isinstance(one, HostRollout)}
  of_evals = {exam.name: exam.evaluation for exam in run.evals if isinstance(exam.evaluation, HostEvaluation)}
  return hosts | {f'eval_{name}': evaluation.host for name, evaluation in of_evals.items()}


def _host_of(folder: str, hosts: dict):
  """Whose folder it is: that of a stage, or `eval_<name>_<step>`."""
  for name in (folder, folder.rpartition('_')[0]):
    if name in hosts:
      return hosts[name]
  raise CommandError(f'calls/{folder} is of no stage and no evaluation of the run: {sorted(hosts)}')
