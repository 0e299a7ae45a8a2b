"""Jobs of submitit: a run that a cluster starts, tells to stop before its time is over, and starts again.

submitit calls `Run` on each host of a job. The run itself is a process below it: what was started before JAX
can wait for it, and pass on what the cluster says. Upon submitit's signal (before the job's time is over, or
where Slurm takes its hosts away) the run saves and ends, and the job goes back into the queue with the same
command; so it does when the run ends by itself with the exit code that asks for it. SIGTERM alone, as of
`scancel`, makes the run save and end, and nothing starts it again.
"""

import argparse
from collections.abc import Sequence
import contextlib
import ctypes
import os
from pathlib import Path
import signal
import subprocess
import sys
import time

from rlx import names
from rlx.experiments.commands import EXIT_DONE, EXIT_REQUEUE, CommandError, Parser, positive

SLURM = '--slurm.'  # what options of sbatch begin with
_SPARE_SECONDS = 10  # from a SIGTERM to the signal that may follow it
_PR_SET_PDEATHSIG = 1


class Run:
  """What a job does: `rlx ...` in a process below it, from the beginning or from where it was stopped."""

  def __init__(self, requeues: int):
    """Args: requeues: how often it may still be started again."""
    self._requeues = requeues
    self._process: subprocess.Popen | None = None
    self._is_told = False

  def __call__(self, argv: Sequence[str]) -> None:
    """Runs to the end; where the run has stopped before, ends this process without a result."""
    signal.signal(signal.SIGTERM, lambda number, frame: self._stop())
    command = [sys.executable, '-m', 'rlx.experiments.launch', *argv]
    self._process = subprocess.Popen(command, preexec_fn=_as_a_child)
    _wait(self._process)
    code = self._process.wait()
    if code in (EXIT_REQUEUE, -signal.SIGTERM):  # the second before it listens
      self._again()
    if code != EXIT_DONE:
      raise RuntimeError(f'rlx {" ".join(argv)} ended with exit code {code}')

  def checkpoint(self, argv: Sequence[str]):
    """Asked by submitit when the job is to stop: the same again, once the run has saved."""
    from submitit.helpers import DelayedSubmission

    if self._process is not None:
      self._stop()
      _wait(self._process)
    return DelayedSubmission(Run(self._requeues - 1), argv) if self._requeues else None

  def _stop(self) -> None:
    self._is_told = True
    if self._process is not None:
      self._process.send_signal(signal.SIGTERM)

  def _again(self) -> None:
    """The run has stopped: the first process of the job asks for a new start by the signal that does it."""
    from submitit import JobEnvironment

    if self._is_told:
      time.sleep(_SPARE_SECONDS)
    elif JobEnvironment().global_rank == 0:
      signal.raise_signal(_requeue_signal())  # ends this process
    sys.exit(EXIT_REQUEUE)


def _requeue_signal() -> signal.Signals:
  """That upon which submitit asks for a checkpoint and sends the job again."""
  from submitit import JobEnvironment

  return signal.Signals[f'SIG{JobEnvironment.USR_SIG}']


def _as_a_child() -> None:
  """Before the run begins: it ends with its parent, and what Slurm sends to all of a job does not end it."""
  signal.signal(_requeue_signal(), signal.SIG_IGN)
  with contextlib.suppress(OSError, AttributeError):  # Linux alone has it
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait(process: subprocess.Popen) -> None:
  """Until a process has ended, and leaves its exit code to be read; within a signal handler, too."""
  with contextlib.suppress(ChildProcessError):
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def add_options(parser: Parser) -> None:
  """What a job is given; options of sbatch (`free` of the parser) beside them."""
  group = parser.add_argument_group('jobs', f'Of Slurm also any option of sbatch: {SLURM}partition=gpu')
  group.add_argument(
      '--timeout_minutes', metavar='N', type=positive, default=24 * 60,
      help='of a job, which is then sent again (a day)',
  )
  group.add_argument(
      '--grace_seconds', metavar='N', type=positive, default=120,
      help='before that time is over the run is told to save: longer than a dispatch and a checkpoint (120)',
  )
  group.add_argument(
      '--requeues', metavar='N', type=positive, default=100,
      help='how often it is sent again, for whatever reason (100; on this machine at most 5)',
  )
  group.add_argument(
      '--nodes', metavar='N', type=positive, default=1, help='hosts of a run, which is then --distributed'
  )
  group.add_argument(
      '--gpus', metavar='N', type=positive, help='of each host; on this machine none is seen without it'
  )
  group.add_argument(
      '--setup', metavar='COMMAND', action='append', default=[], help='in the shell before; any number'
  )


def executor(arguments: argparse.Namespace, folder: Path, slurm: Sequence[str], *, name: str):
  """What submits jobs, of submitit.

  Args:
    arguments: `cluster` ('local' or 'slurm'), and those of `add_options`.
    folder: for what jobs are and what they print.
    slurm: options of sbatch, as they were written.
    name: of the jobs.
  Raises:
    CommandError: the cluster is not here, or does not have what is asked for.
    ConfigError: submitit is missing.
  """
  submitit = names.imported('submitit', extra='launch', who=f'--cluster={arguments.cluster}')
  gpus = {} if arguments.gpus is None else {'gpus_per_node': arguments.gpus}
  alike = {'setup': arguments.setup, 'signal_delay_s': arguments.grace_seconds, **gpus}
  if arguments.grace_seconds >= 60 * arguments.timeout_minutes:
    raise CommandError(
        f'--grace_seconds={arguments.grace_seconds}: more than the time of the job, '
        f'--timeout_minutes={arguments.timeout_minutes}; set one of them'
    )
  if arguments.cluster == 'local':
    if arguments.nodes > 1 or slurm:
      raise CommandError(f'{slurm[0] if slurm else "--nodes"} is for --cluster=slurm')
    made = submitit.LocalExecutor(folder, max_num_timeout=arguments.requeues)
    made.update_parameters(timeout_min=arguments.timeout_minutes, **alike)
    return made
  try:
    made = submitit.SlurmExecutor(folder, max_num_timeout=arguments.requeues)
  except RuntimeError as error:
    raise CommandError('--cluster=slurm: no srun is here; start it where one would use sbatch') from error
  made.update_parameters(
      job_name=name, time=arguments.timeout_minutes, nodes=arguments.nodes, ntasks_per_node=1,
      additional_parameters={'requeue': True, **options_of_sbatch(slurm)}, **alike,
  )
  return made


def options_of_sbatch(words: Sequence[str]) -> dict[str, str | bool]:
  """`--slurm.NAME=VALUE` as they stand; `--slurm.exclusive=` is one without a value."""
  parts = [word.removeprefix(SLURM).partition('=') for word in words]
  return {name: value or True for name, _, value in parts}


def submit(executor, argvs: Sequence[Sequence[str]], *, arguments: argparse.Namespace) -> list:
  """A job for each command line of `rlx`; of Slurm one array of jobs."""
  if not argvs:
    return []
  return executor.map_array(Run(arguments.requeues), [on_each_node(argv, arguments) for argv in argvs])


def on_each_node(argv: Sequence[str], arguments: argparse.Namespace) -> list[str]:
  """The command line of each node of a job: where there are several, they are told to join."""
  together = arguments.nodes > 1 and '--distributed' not in argv
  return ['--distributed', *argv] if together else [*argv]
