"""One run in several processes, one on each host: how they find each other, and what the death of one does.

JAX aborts a process when another one of its job has died, which no code in it can catch. So the one that was
started forks before JAX is there, and only looks on: it knows the abort by what JAX says, and ends with the
exit code for `start the same command again`.
"""

import argparse
from collections.abc import Callable, Iterator
import contextlib
import os
import re
import signal
import sys
import threading
import time

from rlx.errors import ConfigError
from rlx.experiments.commands import EXIT_REQUEUE, CommandError, Parser, natural, positive

_A_DEATH = b'the JAX distributed service detected fatal errors'
_SPARE_SECONDS = 10  # beyond the heartbeat, for the word of a death to come


def add_options(parser: Parser) -> None:
  """The options of a run in several processes."""
  group = parser.add_argument_group(
      'many processes', 'The same command on each host, over all of their devices (docs/guides/scaling.md)'
  )
  group.add_argument(
      '--distributed', action='store_true',
      help='join the others: Slurm, Open MPI, Kubernetes and TPU pods say who they are, or the next three do',
  )
  group.add_argument('--coordinator', metavar='HOST:PORT', help='of process 0, which the others can reach')
  group.add_argument('--num_processes', metavar='N', type=positive, help='how many there are')
  group.add_argument('--process_id', metavar='I', type=natural, help='which this is, from 0')
  group.add_argument(
      '--heartbeat_seconds', metavar='S', type=positive, default=100,
      help='a process that is silent for longer is gone, and the others end (100)',
  )


def check(arguments: argparse.Namespace) -> None:
  """Raises `CommandError` where the options do not go together."""
  given = (arguments.coordinator, arguments.num_processes, arguments.process_id)
  if any(one is not None for one in given) and (None in given or not arguments.distributed):
    raise CommandError('--distributed, --coordinator, --num_processes and --process_id belong together')
  if arguments.coordinator is not None and not arguments.coordinator.rpartition(':')[2].isdecimal():
    raise CommandError(f'--coordinator={arguments.coordinator} has no port; it is HOST:PORT')
  if None not in given and arguments.process_id >= arguments.num_processes:
    raise CommandError(
        f'--process_id={arguments.process_id} of {arguments.num_processes} processes; they are counted from 0'
    )


@contextlib.contextmanager
def joined(arguments: argparse.Namespace) -> Iterator[None]:
  """Begins when all processes of the run are there; before anything asks for devices.

  Raises:
    ConfigError: nothing says who they are, or they do not come.
  """
  import jax

  given = (arguments.coordinator, arguments.num_processes, arguments.process_id)
  jax.config.update('jax_enable_preemption_service', False)  # signals are ours: `train.stop_signals`
  try:
    jax.distributed.initialize(
        *given, local_device_ids=_own_devices(), heartbeat_timeout_seconds=arguments.heartbeat_seconds
    )
  except (ValueError, RuntimeError) as error:
    raise ConfigError(
        f'--distributed: {error}; under Slurm, Open MPI, Kubernetes and on TPU pods processes find each '
        'other, elsewhere say --coordinator, --num_processes and --process_id'
    ) from error
  try:
    yield
  except jax.errors.JaxRuntimeError:
    time.sleep(arguments.heartbeat_seconds + _SPARE_SECONDS)  # where another one died, this is aborted here
    raise


def _own_devices() -> list[int] | None:
  """What JAX is told of the devices that are this process's: nothing in particular, [], are all of the host.

  Under Slurm and Open MPI it would take one alone, that of the process's number on its host. Where a host has
  several processes, it may.
  """
  environ = os.environ
  of_each_host = environ.get('SLURM_STEP_TASKS_PER_NODE') or environ.get('OMPI_COMM_WORLD_LOCAL_SIZE') or '1'
  alone = re.fullmatch(r'1(\(x\d+\))?', of_each_host)
  return [] if alone and 'JAX_LOCAL_DEVICE_IDS' not in environ else None


def supervised(run: Callable[[], int]) -> int:
  """Runs in a process of its own; returns its exit code, that for a requeue if another process has died.

  Args:
    run: nothing of JAX was started before.
  """
  lifeline, held = os.pipe()  # the other end is closed when this process ends, however it does
  errors, said = os.pipe()
  child = os.fork()
  if not child:
    os.close(held)
    os.dup2(said, sys.stderr.fileno())
    for one in (errors, said):
      os.close(one)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    sys.exit(run())
  os.close(lifeline)
  os.close(said)
  signal.signal(signal.SIGTERM, lambda number, frame: os.kill(child, number))
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
  is_a_death = _pass_on(errors)
  _, status = os.waitpid(child, 0)
  if is_a_death:
    print('rlx: another process of the run has ended; the same commands go on', file=sys.stderr)
    return EXIT_REQUEUE
  code = os.waitstatus_to_exitcode(status)
  return code if code >= 0 else 128 - code


def _end_with_parent(lifeline: int) -> None:
  os.read(lifeline, 1)
  os.kill(os.getpid(), signal.SIGKILL)


def _pass_on(errors: int) -> bool:
  """Writes what is read until it ends, or until it tells of a death: JAX's stack says nothing more."""
  is_a_death = False
  with open(errors, 'rb', buffering=0) as lines:
    while text := lines.read(1 << 16):
      is_a_death = is_a_death or _A_DEATH in text
      if not is_a_death:
        os.write(sys.stderr.fileno(), text)
  return is_a_death
