"""`rlx launch --cluster=slurm .. -- --config=.. --workdir=..`: a run as a job, sent again until it is done.

    rlx launch --cluster=local --wait -- --config=quickstart/arithmetic:smoke --workdir=runs/tried
    rlx launch --cluster=slurm --nodes=4 --gpus=8 --slurm.partition=gpu -- --config=.. --workdir=runs/big
    rlx launch --cluster=skypilot --nodes=4 --skypilot.accelerators=H200:8 --task=mine.yaml -- --config=.. ..

What follows `--` is the command line of a run, which is checked before anything is sent. On several nodes the
same command runs on each (`--distributed`). Slurm's jobs, and those on this machine, are submitit's: before
their time is over, or where they are preempted, the run saves, and the job goes back into the queue. A job of
SkyPilot is a managed one, which finds other hosts when it loses those it has. docs/guides/launch.md has
recipes.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
import shlex

from rlx.experiments import jobs, sky_task
from rlx.experiments import launch as runs
from rlx.experiments.commands import EXIT_DONE, CommandError, Parser

CLUSTERS = ('local', 'slurm', 'skypilot')
EXIT_FAILED = 1


def main(argv: Sequence[str]) -> int:
  """Runs the command; returns the exit code."""
  parser = _parser()
  parser.complete()
  own, command = _divided(argv)
  arguments, rest = parser.parse_known_args(own)
  slurm, skypilot = ([x for x in rest if x.startswith(kind)] for kind in (jobs.SLURM, sky_task.RESOURCES))
  if unknown := [x for x in rest if x not in (*slurm, *skypilot)]:
    raise CommandError(f'{unknown[0]!r} is not understood; what the run is told comes behind --')
  run = runs.checked(command)
  if not run.workdir:
    raise CommandError('--workdir=DIR is missing behind --: where the run writes, and resumes from')
  name = f'rlx-{Path(run.workdir).name}'
  if arguments.cluster == 'skypilot':
    if slurm:
      raise CommandError(f'{slurm[0]} is for --cluster=slurm')
    return _to_skypilot(arguments, skypilot, command, name)
  if skypilot or arguments.task:
    raise CommandError(f'{skypilot[0] if skypilot else "--task"} is for --cluster=skypilot')
  return _to_submitit(arguments, slurm, command, run, name)


def _divided(argv: Sequence[str]) -> tuple[list[str], list[str]]:
  """What is this command's own, and what is the run's."""
  words = [*argv]
  if '--help' in words or '-h' in words:
    return words, []
  if '--' not in words:
    raise CommandError('-- is missing, and behind it what to run: -- --config=NAME --workdir=DIR')
  at = words.index('--')
  return words[:at], words[at + 1 :]


def _to_submitit(arguments, slurm, command: list[str], run: argparse.Namespace, name: str) -> int:
  executor = jobs.executor(arguments, Path(run.workdir) / 'jobs', slurm, name=name)
  if arguments.dry_run:
    print(*(f'{key}: {value}' for key, value in sorted(executor.parameters.items())), sep='\n')
    print(f'rlx {shlex.join(jobs.on_each_node(command, arguments))}')
    return EXIT_DONE
  (job,) = jobs.submit(executor, [command], arguments=arguments)
  print(f'job {job.job_id}; it prints to {job.paths.stdout} and {job.paths.stderr.name}')
  if not arguments.wait:
    return EXIT_DONE
  error = job.exception()
  if error is not None:
    print(f'job {job.job_id} has failed: {str(error).splitlines()[-1]}')
    return EXIT_FAILED
  print(f'job {job.job_id} is done')
  return EXIT_DONE


def _to_skypilot(arguments, resources, command: list[str], name: str) -> int:
  default = _parser().get_default
  if said := [x for x in ('timeout_minutes', 'grace_seconds', 'requeues', 'gpus', 'wait')
              if getattr(arguments, x) != default(x)]:
    raise CommandError(
        f'--{said[0]} is for jobs of submitit; SkyPilot is told by --task=FILE and --skypilot.KEY=VALUE'
    )
  task = sky_task.make(arguments, resources, command, name=name)
  print(sky_task.as_yaml(task).rstrip() if arguments.dry_run else sky_task.launch(task))
  return EXIT_DONE


def _parser() -> Parser:
  parser = Parser(
      prog='rlx launch', free=(jobs.SLURM, sky_task.RESOURCES),
      usage='rlx launch --cluster=local|slurm|skypilot [OPTIONS] -- --config=NAME --workdir=DIR ...',
      description='Sends a run to a cluster, where it is started again until it is done.',
  )
  parser.add_argument('--cluster', required=True, choices=CLUSTERS, help='this machine, Slurm, or SkyPilot')
  parser.add_argument('--dry_run', action='store_true', help='print what would be sent, and send nothing')
  parser.add_argument('--wait', action='store_true', help='until the job is done; not with SkyPilot')
  parser.add_argument(
      '--task', metavar='FILE', default='',
      help='of SkyPilot: a YAML of resources, file_mounts, setup; over its resources go --skypilot.KEY=VALUE',
  )
  jobs.add_options(parser)
  return parser
