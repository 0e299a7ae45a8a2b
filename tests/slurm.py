"""A Slurm of one machine, for tests: `sbatch` runs the file that it is given, `srun` its tasks side by side.

Installed under the names of Slurm's commands. An array runs its first job alone; `scontrol requeue` leaves a
mark, upon which the file is run again. $FAKE_SLURM is where all this is kept.
"""

import os
from pathlib import Path
import re
import signal
import subprocess
import sys

FOLDER = Path(os.environ.get('FAKE_SLURM', '.'))
JOB = '4711'
COMMANDS = ('sbatch', 'srun', 'scontrol', 'sacct')


def install(folder: Path) -> dict[str, str]:
  """Makes the commands in a folder; the variables with which they are found."""
  for command in COMMANDS:
    path = folder / command
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).absolute()} {command} "$@"\n')
    path.chmod(0o755)
  return {'PATH': f'{folder}:{os.environ["PATH"]}', 'FAKE_SLURM': str(folder)}


def sbatch(script: str) -> None:
  text = Path(script).read_text()
  (FOLDER / 'script').write_text(text)
  quiet = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}
  subprocess.Popen([sys.executable, __file__, 'job'], start_new_session=True, **quiet)
  print(f'Submitted batch job {JOB}')


def job() -> None:
  """Runs the script, and again for as long as it is sent back."""
  text = (FOLDER / 'script').read_text()
  nodes = re.search(r'--nodes=(\d+)', text)[1]
  array = {'SLURM_ARRAY_JOB_ID': JOB, 'SLURM_ARRAY_TASK_ID': '0'} if '--array' in text else {}
  sizes = {'SLURM_NTASKS': nodes, 'SLURM_JOB_NUM_NODES': nodes}
  environment = {**os.environ, 'SLURM_JOB_ID': JOB, **sizes, **array}
  mark = FOLDER / 'requeued'
  while True:
    code = subprocess.run(['bash', FOLDER / 'script'], env=environment, check=False).returncode
    if not mark.exists():
      break
    mark.unlink()
  (FOLDER / 'ended').write_text(str(code))


def srun(*words: str) -> None:
  """The tasks, one on each node, all of which are this machine."""
  at = next(i for i, word in enumerate(words) if word == sys.executable)
  output, error = (words[words.index(name) + 1] for name in ('--output', '--error'))
  tasks = []
  for rank in range(int(os.environ['SLURM_NTASKS'])):
    environment = os.environ | {
        'SLURM_PROCID': str(rank), 'SLURM_NODEID': str(rank), 'SLURM_LOCALID': '0',
        'SLURM_STEP_NODELIST': 'localhost', 'SLURM_STEP_TASKS_PER_NODE': f'1(x{os.environ["SLURM_NTASKS"]})',
    }
    own = lambda path, rank=rank: Path(path.replace('%j', JOB).replace('%t', str(rank)))
    with own(output).open('a') as out, own(error).open('a') as errors:
      tasks.append(subprocess.Popen(words[at:], env=environment, stdout=out, stderr=errors))
  (FOLDER / 'tasks').write_text(' '.join(str(task.pid) for task in tasks))
  sys.exit(max(task.wait() for task in tasks))


def scontrol(*words: str) -> None:
  assert words == ('requeue', JOB), words
  (FOLDER / 'requeued').touch()


def sacct(*words: str) -> None:
  del words
  state = 'COMPLETED' if (FOLDER / 'ended').exists() else 'RUNNING'
  print(f'JobID|State|NodeList\n{JOB}|{state}|localhost')


def signal_all(number: signal.Signals) -> None:
  """To each task, and what is below it, as Slurm does."""
  for task in (FOLDER / 'tasks').read_text().split():
    for pid in (task, *Path(f'/proc/{task}/task/{task}/children').read_text().split()):
      os.kill(int(pid), number)


if __name__ == '__main__':
  globals()[sys.argv[1]](*sys.argv[2:])
