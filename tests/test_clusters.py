"""Runs as jobs: sent, stopped before their time is over, started again until they are done."""

import json
import os
from pathlib import Path
import signal
import subprocess
import sys
import time

import pytest
import submitit  # here, where the streams that it writes to are not a test's

from rlx.experiments import jobs, peers, submit, sweep
from rlx.experiments.launch import main
from rlx.run.writers import read_metrics
from tests import slurm

ROOT = Path(__file__).parents[1]
SMOKE = 'quickstart/arithmetic:smoke'
SMALL = """
from rlx.experiments.configs.quickstart import arithmetic as parent

def get_config(arg=''):
  config = parent.get_config('smoke')
  config.models.policy.update(num_layers=1, width=16, mlp_size=16)
  del config.sft
  del config.evals['held_out']
  config.stages, config.steps = ('main',), 400
  config.checkpoint.every, config.log.steps_per_dispatch = 20, 2
  config.log.update(samples=0, headline='reward/mean')
  return config
"""


@pytest.fixture(scope='module')
def small(tmp_path_factory):
  """A config of 400 short steps, and the environment of its runs: one cache, one device."""
  folder = tmp_path_factory.mktemp('small')
  (folder / 'config.py').write_text(SMALL)
  environment = {**os.environ, 'JAX_PLATFORMS': 'cpu', 'JAX_COMPILATION_CACHE_DIR': str(folder / 'cache')}
  return folder / 'config.py', environment | {'JAX_NUM_CPU_DEVICES': '1'}


def start(environment, *words):
  command = [sys.executable, '-m', 'rlx.experiments.launch', *map(str, words)]
  return subprocess.Popen(
      command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
  )


def until(ready, what, *, seconds=200):
  deadline = time.monotonic() + seconds
  while not (found := ready()):
    assert time.monotonic() < deadline, what
    time.sleep(0.1)
  return found


def below(pid):
  """The processes that a process has started."""
  try:
    return [int(x) for x in Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]
  except FileNotFoundError:
    return []


def starts(workdir):
  """The step from which each start of a run went on."""
  path = workdir / 'starts.jsonl'
  return [json.loads(line)['step'] for line in path.read_text().splitlines()] if path.exists() else []


def at_work(workdir, times):
  """Whether a run has begun so many times, and has taken a step since."""
  begun, path = starts(workdir), workdir / 'timing.jsonl'
  rows = read_metrics(path) if path.exists() else []
  return len(begun) == times and rows and rows[-1]['step'] > begun[-1]


def digests(workdir):
  newest = max((workdir / 'checkpoints').iterdir(), key=lambda path: int(path.name))
  arrays = json.loads((newest / 'manifest.json').read_text())['arrays']
  return {name: array['digest'] for name, array in arrays.items()}


@pytest.mark.slow
def test_a_job_that_is_told_to_stop_and_one_that_stops_go_on_to_the_same_end(small, tmp_path):
  """Once by the signal that submitit has for it, as before its time is over; once by the run's own end."""
  config, environment = small
  workdir = tmp_path / 'stopped'
  run = (f'--config={config}', f'--workdir={workdir}')
  launched = start(environment, 'launch', '--cluster=local', '--wait', '--', *run)
  until(lambda: at_work(workdir, 1), 'the first start')
  controller, = below(launched.pid)
  os.kill(below(controller)[0], signal.SIGUSR2)
  until(lambda: at_work(workdir, 2), 'the second start')
  os.kill(below(below(controller)[0])[0], signal.SIGTERM)
  said, _ = launched.communicate(timeout=300)
  assert launched.returncode == 0 and 'is done' in said, said
  first, second, third = starts(workdir)
  assert first == 0 < second < third < 400
  whole = start(environment, *run[:1], f'--workdir={tmp_path}/whole', '--quiet')
  said, _ = whole.communicate(timeout=300)
  assert whole.returncode == 0, said
  assert digests(workdir) == digests(tmp_path / 'whole')
  assert (workdir / 'metrics.jsonl').read_bytes() == (tmp_path / 'whole/metrics.jsonl').read_bytes()


@pytest.mark.slow
def test_a_job_that_is_cancelled_saves_and_does_not_come_back(small, tmp_path):
  config, environment = small
  workdir = tmp_path / 'cancelled'
  launched = start(
      environment, 'launch', '--cluster=local', '--wait', '--', f'--config={config}', f'--workdir={workdir}'
  )
  until(lambda: at_work(workdir, 1), 'the start')
  controller, = below(launched.pid)
  os.kill(controller, signal.SIGTERM)
  said, _ = launched.communicate(timeout=300)
  assert launched.returncode == submit.EXIT_FAILED and 'has failed' in said
  assert starts(workdir) == [0] and (workdir / 'checkpoints').exists()


@pytest.mark.slow
def test_two_nodes_of_slurm_are_one_run_that_is_preempted_and_goes_on(small, tmp_path, monkeypatch):
  """The file that submitit writes is run by a Slurm of this machine: each task finds the other by itself."""
  config, environment = small
  (tmp_path / 'bin').mkdir()
  environment = environment | slurm.install(tmp_path / 'bin')
  monkeypatch.setattr(slurm, 'FOLDER', tmp_path / 'bin')
  workdir = tmp_path / 'two'
  launched = start(
      environment, 'launch', '--cluster=slurm', '--nodes=2', '--', f'--config={config}',
      f'--workdir={workdir}', '--config.mesh.data=2', '--config.steps=60',
  )
  said, _ = launched.communicate(timeout=60)
  assert launched.returncode == 0 and f'job {slurm.JOB}' in said, said
  until(lambda: at_work(workdir, 1), 'the first start')
  slurm.signal_all(signal.SIGUSR2)
  until((tmp_path / 'bin/ended').exists, 'the end')
  assert (tmp_path / 'bin/ended').read_text() == '0'
  first, second = starts(workdir)
  assert first == 0 < second < 60
  assert read_metrics(workdir / 'metrics.jsonl')[-1]['step'] == 60


def sent_to_slurm(tmp_path, monkeypatch, *words):
  """The lines of the file that sbatch is given."""
  (tmp_path / 'bin').mkdir()
  for name, value in slurm.install(tmp_path / 'bin').items():
    monkeypatch.setenv(name, value)
  said = f'echo Submitted batch job {slurm.JOB}'
  (tmp_path / 'bin/sbatch').write_text(f'#!/bin/sh\ncp $1 {tmp_path}/script\n{said}\n')
  assert main([*words]) == 0
  return (tmp_path / 'script').read_text().splitlines()


def test_what_sbatch_is_told(tmp_path, monkeypatch, capsys):
  lines = sent_to_slurm(
      tmp_path, monkeypatch, 'launch', '--cluster=slurm', '--nodes=4', '--gpus=8', '--timeout_minutes=600',
      '--setup=module load cuda', '--slurm.partition=big', '--slurm.exclusive=', '--',
      f'--config={SMOKE}', f'--workdir={tmp_path}/one',
  )
  options = {line.removeprefix('#SBATCH --') for line in lines if line.startswith('#SBATCH')}
  assert options >= {
      'nodes=4', 'ntasks-per-node=1', 'gpus-per-node=8', 'time=600', 'signal=USR2@120', 'requeue',
      'partition=big', 'exclusive', 'open-mode=append', 'job-name=rlx-one',
  }
  assert lines.index('module load cuda') < next(i for i, x in enumerate(lines) if x.startswith('srun'))
  (job,) = (tmp_path / 'one/jobs').glob(f'{slurm.JOB}_submitted.pkl')
  submission = submitit.SlurmJob(job.parent, slurm.JOB).submission()
  assert submission.args == (['--distributed', f'--config={SMOKE}', f'--workdir={tmp_path}/one'],)
  assert f'{slurm.JOB}_0_log.out' in capsys.readouterr().out


def test_a_sweep_is_an_array(tmp_path, monkeypatch):
  """Trials that begin together; the sweep then waits, which this test does not."""
  monkeypatch.setattr(sweep, '_write_tables', lambda *arguments: None)
  monkeypatch.setattr(sweep.time, 'sleep', lambda seconds: sys.exit('waits'))
  with pytest.raises(SystemExit, match='waits'):
    sent_to_slurm(
        tmp_path, monkeypatch, 'sweep', f'--config={SMOKE}', f'--workdir={tmp_path}/sweep', '--cluster=slurm',
        '--sampler=grid', '--jobs=3', '--gpus=1', '--slurm.account=me',
        '--space.algorithm.clip_high=0.2,0.3,0.4,0.5',
    )
  lines = (tmp_path / 'script').read_text().splitlines()
  assert {'#SBATCH --array=0-2%3', '#SBATCH --gpus-per-node=1', '#SBATCH --account=me'} <= set(lines)
  assert len(list((tmp_path / 'sweep/jobs').glob('*_submitted.pkl'))) == 3


RUN = ('--', f'--config={SMOKE}', '--workdir=runs/x')


@pytest.mark.parametrize('words, said', [
    (('--cluster=local',), '-- is missing'),
    (('--cluster=local', '--'), '--config=NAME is missing'),
    (('--cluster=local', '--', f'--config={SMOKE}'), '--workdir=DIR is missing behind --'),
    (('--cluster=local', *RUN, '--config.stepz=2'), "did you mean 'steps'?"),
    (('--cluster=lokal', *RUN), "did you mean 'local'?"),
    (('--cluster=local', '--node=2', *RUN), "did you mean '--nodes'?"),
    (('--cluster=local', '--nodes=2', *RUN), '--nodes is for --cluster=slurm'),
    (('--cluster=local', '--slurm.partition=x', *RUN), '--slurm.partition=x is for --cluster=slurm'),
    (('--cluster=local', '--timeout_minutes=2', *RUN), '--grace_seconds=120: more than the time'),
    (('--cluster=slurm', '--skypilot.cpus=2', *RUN), '--skypilot.cpus=2 is for --cluster=skypilot'),
    (('--cluster=slurm', *RUN), 'no srun is here'),
    (('--cluster=skypilot', '--gpus=2', *RUN), '--gpus is for jobs of submitit'),
])
def test_mistakes_are_told_before_anything_is_sent(words, said, tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(tmp_path)
  assert main(['launch', *words]) == 2
  error = capsys.readouterr().err
  assert said in error and error.count('\n') == 1


@pytest.mark.parametrize('cluster, module', [
    ('local', 'submitit'), ('slurm', 'submitit'), ('skypilot', 'sky'),
])
def test_a_package_that_is_missing_is_a_line_with_the_command(cluster, module, monkeypatch, capsys):
  monkeypatch.setitem(sys.modules, module, None)
  assert main(['launch', f'--cluster={cluster}', *RUN]) == 2
  error = capsys.readouterr().err
  assert f'needs the package {module}' in error and "pip install 'rlx[" in error and error.count('\n') == 1


def test_a_job_is_started_again_so_often_and_no_more():
  again = jobs.Run(1).checkpoint(['--config=x'])
  assert again.args == (['--config=x'],)
  assert again.function.checkpoint(['--config=x']) is None


def test_a_sweep_in_this_process_that_is_stopped_leaves_its_trial_to_the_next(tmp_path, monkeypatch, capsys):
  codes = iter([75, 0])
  monkeypatch.setattr(sweep, 'launch', lambda argv: next(codes))
  monkeypatch.setattr(sweep, '_metric', lambda workdir, name: 1.0)
  words = [
      'sweep', f'--config={SMOKE}', f'--workdir={tmp_path}', '--cluster=here', '--sampler=grid', '--trials=1',
      '--space.algorithm.clip_high=0.2,0.3',
  ]
  assert main(words) == 75 and 'the same command goes on' in capsys.readouterr().out
  assert main(words) == 0
  assert '| 1 |' in (tmp_path / sweep.FACTORS).read_text()


@pytest.mark.parametrize('environment, devices', [
    ({}, []),
    ({'SLURM_STEP_TASKS_PER_NODE': '1(x4)'}, []),
    ({'SLURM_STEP_TASKS_PER_NODE': '8(x4)'}, None),
    ({'SLURM_STEP_TASKS_PER_NODE': '2,1'}, None),
    ({'OMPI_COMM_WORLD_LOCAL_SIZE': '1'}, []),
    ({'OMPI_COMM_WORLD_LOCAL_SIZE': '8'}, None),
    ({'JAX_LOCAL_DEVICE_IDS': '0,1'}, None),
])
def test_a_process_that_is_alone_on_its_host_has_all_of_its_devices(environment, devices, monkeypatch):
  for name in ('SLURM_STEP_TASKS_PER_NODE', 'OMPI_COMM_WORLD_LOCAL_SIZE', 'JAX_LOCAL_DEVICE_IDS'):
    monkeypatch.delenv(name, raising=False)
  for name, value in environment.items():
    monkeypatch.setenv(name, value)
  assert peers._own_devices() == devices


TASK = """
resources: {infra: gcp, cpus: 4+, accelerators: 'H100:8'}
file_mounts:
  /runs: {source: 'gs://my-runs', mode: MOUNT_CACHED}
setup: pip install -e .
"""


@pytest.mark.filterwarnings('default')  # SkyPilot's own
def test_a_task_of_skypilot(tmp_path, capsys):
  sky = pytest.importorskip('sky', reason='SkyPilot is not installed: pip install skypilot')
  import yaml

  (tmp_path / 'task.yaml').write_text(TASK)
  assert main([
      'launch', '--cluster=skypilot', '--dry_run', '--nodes=2', f'--task={tmp_path}/task.yaml',
      '--skypilot.accelerators=H200:8', '--skypilot.use_spot=true', '--setup=nvidia-smi', '--',
      f'--config={SMOKE}', '--workdir=/runs/big one',
  ]) == 0
  task = yaml.safe_load(capsys.readouterr().out)
  assert task['resources']['accelerators'] == {'H200': 8} and task['resources']['use_spot'] is True
  assert task['resources']['job_recovery']['recover_on_exit_codes'] == [75]
  assert (task['num_nodes'], task['name'], task['workdir']) == (2, 'rlx-big one', '.')
  last = f'--process_id="$SKYPILOT_NODE_RANK" --config={SMOKE} \'--workdir=/runs/big one\''
  assert task['run'].splitlines()[-1].endswith(last)
  assert task['file_mounts']['/runs']['source'] == 'gs://my-runs'
  assert task['setup'].splitlines() == ['pip install -e .', 'nvidia-smi']
  assert sky.Task.from_yaml_config(task).num_nodes == 2  # SkyPilot reads what was printed
