"""One run in two processes of four devices each, on this machine, through the command line."""

import dataclasses
import json
import os
from pathlib import Path
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from rlx import config as configs
from rlx.experiments import launch
from rlx.run import train
from rlx.run.build import build
from rlx.run.writers import read_metrics
from tests.whole_runs import numbers

ROOT = Path(__file__).parents[1]
STEPS = 8

ARITHMETIC = """
from rlx.experiments.configs.quickstart import arithmetic as parent

def get_config(arg=''):
  config = parent.get_config('smoke')
  config.models.policy.update(num_layers=1, width=16, mlp_size=16)
"""
WORD_PROBLEMS = """
from rlx.experiments.configs.math import gsm8k_grpo as parent

def get_config(arg=''):
  config = parent.get_config('smoke')
  config.rollout.update(batch_size=8, group_size=4, num_slots=0)
  config.decoding.max_tokens = 4
  config.reward.rows_per_call = 2
"""
ONE_STAGE = """
  del config.sft
  del config.evals['held_out']
  config.stages, config.steps = ('main',), 8
  config.checkpoint.every = config.log.steps_per_dispatch = 2
  config.mesh.fsdp = 2
  config.log.update(samples=2, headline='reward/mean')
  return config
"""


@dataclasses.dataclass
class Runs:
  """Starts one config in one process or in two."""

  config: Path
  environment: dict

  def start(self, workdir, devices, *arguments):
    environment = self.environment | {'JAX_NUM_CPU_DEVICES': str(devices)}
    command = [sys.executable, '-m', 'rlx.experiments.launch', f'--config={self.config}']
    return subprocess.Popen(
        [*command, f'--workdir={workdir}', *arguments], cwd=ROOT, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )

  def pair(self, workdir, *arguments):
    with socket.socket() as free:
      free.bind(('127.0.0.1', 0))
      port = free.getsockname()[1]
    meet = ('--distributed', f'--coordinator=127.0.0.1:{port}', '--num_processes=2', '--heartbeat_seconds=10')
    return [self.start(workdir, 4, *meet, f'--process_id={index}', *arguments) for index in range(2)]


def codes(processes):
  """Exit codes, and what was said on the standard errors."""
  said = [process.communicate(timeout=300)[1] for process in processes]
  return [process.returncode for process in processes], said


def make_runs(folder, source):
  (folder / 'config.py').write_text(source + ONE_STAGE)
  environment = {**os.environ, 'JAX_PLATFORMS': 'cpu', 'JAX_COMPILATION_CACHE_DIR': str(folder / 'cache')}
  return Runs(folder / 'config.py', environment)


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  return make_runs(tmp_path_factory.mktemp('arithmetic'), ARITHMETIC)


@pytest.fixture(scope='module')
def together(runs, tmp_path_factory):
  """The workdir of a run in two processes."""
  workdir = tmp_path_factory.mktemp('together') / 'run'
  (first, second), said = codes(runs.pair(workdir))
  assert (first, second) == (launch.EXIT_DONE, launch.EXIT_DONE), said
  return workdir


def assert_close(one, other):
  """The same numbers up to rounding."""
  rows = [read_metrics(path / 'metrics.jsonl') for path in (one, other)]
  assert len(rows[0]) == STEPS + 1
  for ours, theirs in zip(*rows, strict=True):
    assert ours.pop('stage') == theirs.pop('stage') and ours.keys() == theirs.keys()
    for name, value in ours.items():
      np.testing.assert_allclose(value, theirs[name], rtol=1e-4, atol=1e-5, err_msg=name)


def digests(workdir, step=STEPS):
  manifest = json.loads((workdir / f'checkpoints/{step}/manifest.json').read_text())
  return {name: array['digest'] for name, array in manifest['arrays'].items()}


@pytest.mark.slow
def test_two_processes_compute_what_one_does(runs, together, tmp_path):
  process = runs.start(tmp_path, 8)
  assert codes([process])[0] == [launch.EXIT_DONE]
  assert_close(together, tmp_path)
  assert {path.name for path in together.iterdir()} == {path.name for path in tmp_path.iterdir()}
  assert json.loads((together / 'starts.jsonl').read_text())['processes'] == 2


@pytest.mark.slow
def test_one_process_restores_what_two_have_saved(together):
  states = []
  for data, fsdp in ((4, 2), (1, 4), (1, 1)):
    config = configs.load(str(together / 'config.json'))
    config.mesh.update(data=data, fsdp=fsdp)
    states.append(numbers(train.restore(build(config), together)[0]))
  for state in states[1:]:
    jax.tree.map(np.testing.assert_array_equal, states[0], state)


@pytest.mark.slow
def test_one_process_goes_on_where_two_were_stopped(runs, together, tmp_path):
  """A signal to one of them stops both at the same step."""
  pair = runs.pair(tmp_path, '--config.steps=2000', '--config.optimizer.decay_steps=0')
  wait_for_rows(pair, tmp_path, 4)
  pair[1].send_signal(signal.SIGTERM)
  assert codes(pair)[0] == [launch.EXIT_REQUEUE, launch.EXIT_REQUEUE]
  step = read_metrics(tmp_path / 'metrics.jsonl')[-1]['step']
  assert digests(tmp_path, step)
  more = (f'--config.steps={step + 2}', '--config.optimizer.decay_steps=0')
  config = json.loads((tmp_path / 'config.json').read_text())
  (tmp_path / 'config.json').write_text(json.dumps({**config, 'steps': step}))
  (code,), (said,) = codes([runs.start(tmp_path, 2, *more)])
  assert code == launch.EXIT_DONE and 'processes 2 -> 1' in said


@pytest.mark.slow
@pytest.mark.parametrize('dead', [0, 1])
def test_when_one_dies_the_other_ends_and_both_go_on(runs, together, tmp_path, dead):
  pair = runs.pair(tmp_path)
  wait_for_rows(pair, tmp_path, 4)
  pair[dead].kill()
  killed = time.monotonic()
  said = pair[1 - dead].communicate(timeout=120)[1]
  assert pair[1 - dead].returncode == launch.EXIT_REQUEUE, said
  assert time.monotonic() - killed < 40 and 'another process of the run has ended' in said
  pair[dead].communicate()
  exits, said = codes(runs.pair(tmp_path))
  assert exits == [launch.EXIT_DONE, launch.EXIT_DONE] and 'resumed from step' in said[0], said
  assert (tmp_path / 'metrics.jsonl').read_bytes() == (together / 'metrics.jsonl').read_bytes()
  assert digests(tmp_path) == digests(together)


def wait_for_rows(processes, workdir, count):
  path = workdir / 'metrics.jsonl'
  while all(process.poll() is None for process in processes):
    if path.exists() and path.read_bytes().count(b'\n') >= count:
      return
    time.sleep(0.05)
  raise AssertionError(codes(processes))


@pytest.mark.slow
def test_each_process_scores_its_share_of_the_rows(tmp_path):
  runs = make_runs(tmp_path, WORD_PROBLEMS)
  exits, said = codes(runs.pair(tmp_path / 'two'))
  assert exits == [launch.EXIT_DONE, launch.EXIT_DONE], said
  assert codes([runs.start(tmp_path / 'one', 8)])[0] == [launch.EXIT_DONE]
  assert_close(tmp_path / 'two', tmp_path / 'one')


@pytest.mark.slow
def test_what_is_wrong_at_the_first_ends_both(runs, together):
  exits, said = codes(runs.pair(together, '--config.algorithm.clip_high=0.3'))
  assert exits == [launch.EXIT_DO_NOT_RETRY, launch.EXIT_DO_NOT_RETRY]
  assert all('algorithm.clip_high: 0.2 -> 0.3' in text for text in said)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--coordinator=a:1'], 'belong together'),
        (['--distributed', '--process_id=1'], 'belong together'),
        (['--distributed', '--coordinator=a:1', '--num_processes=2', '--process_id=2'], 'counted from 0'),
    ],
)
def test_options_that_do_not_go_together_are_told(arguments, message, capsys):
  assert launch.main(['--config=quickstart/arithmetic', *arguments]) == launch.EXIT_DO_NOT_RETRY
  error = capsys.readouterr().err
  assert message in error and error.count('\n') == 1
