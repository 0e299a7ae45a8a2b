"""Runs as a user starts them: files, exit codes, errors in one line, resumption to the bit."""

import json
import os
from pathlib import Path
import random
import signal
import subprocess
import sys
import time

import pytest

from rlx.experiments import launch
from rlx.run.writers import read_metrics

CONFIG = 'experiments/configs/quickstart/arithmetic.py:smoke'
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope='module')
def cache(tmp_path_factory):
  """One compilation cache for all processes of this file."""
  return tmp_path_factory.mktemp('compiled')


@pytest.fixture(scope='module')
def start(cache):
  """Starts `rlx` in a process of its own, on one device, with the quickstart's smoke config."""

  def start(workdir, *arguments):
    environment = {**os.environ, 'JAX_COMPILATION_CACHE_DIR': str(cache)}
    command = [sys.executable, '-m', 'rlx.experiments.launch', f'--config={CONFIG}', f'--workdir={workdir}']
    return subprocess.Popen(
        [*command, *arguments], cwd=ROOT, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )

  return start


LONGER = ('--config.steps=64', '--config.sft.steps=8')  # 36 dispatches, a checkpoint after each


@pytest.fixture(scope='module')
def uninterrupted(start, tmp_path_factory):
  """The workdir of a run that nobody stopped."""
  workdir = tmp_path_factory.mktemp('uninterrupted')
  process = start(workdir, *LONGER)
  _, errors = process.communicate(timeout=300)
  assert process.returncode == launch.EXIT_DONE, errors
  return workdir


@pytest.fixture(scope='module')
def finished(start, tmp_path_factory):
  """The workdir of a run as short as the config has it."""
  workdir = tmp_path_factory.mktemp('finished')
  out, errors = (process := start(workdir)).communicate(timeout=300)
  assert process.returncode == launch.EXIT_DONE, errors
  assert 'held-out accuracy' in out and 'population.size=4' in out
  return workdir


def final_digests(workdir):
  """The digest of every array of the newest checkpoint, as recorded when it was written."""
  newest = max((workdir / 'checkpoints').iterdir(), key=lambda path: int(path.name))
  manifest = json.loads((newest / 'manifest.json').read_text())
  return {name: array['digest'] for name, array in manifest['arrays'].items()}


def assert_same_run(workdir, other):
  assert (workdir / 'metrics.jsonl').read_bytes() == (other / 'metrics.jsonl').read_bytes()
  digests = final_digests(workdir)
  assert any('policy' in name for name in digests) and digests == final_digests(other)
  samples = lambda where: {path.name: path.read_bytes() for path in (where / 'samples').iterdir()}
  assert samples(workdir) == samples(other)


def test_a_run_leaves_what_it_promises(finished):
  names = {path.name for path in finished.iterdir()}
  assert names == {
      'config.json', 'metrics.jsonl', 'timing.jsonl', 'tensorboard', 'samples', 'checkpoints', 'curve.png',
      'report.html', 'starts.jsonl', 'models.json',
  }
  rows = read_metrics(finished / 'metrics.jsonl')
  assert [row['step'] for row in rows] == list(range(9))
  assert {row['stage'] for row in rows} == {'sft', 'grpo'}
  assert {'reward/mean', 'loss/policy', 'kl/old', 'eval/held_out/accuracy'} <= rows[-1].keys()
  lines = (finished / 'samples/step_00000008.jsonl').read_text().splitlines()
  samples = [json.loads(line) for line in lines]
  assert {'held_out', 'train'} == {row['split'] for row in samples}
  assert {'prompt', 'completion', 'reward', 'advantage', 'split'} == samples[-1].keys()


def num_rows(workdir):
  path = workdir / 'metrics.jsonl'
  return len(path.read_bytes().splitlines()) if path.exists() else 0


def wait_for_rows(process, workdir, count):
  while process.poll() is None and num_rows(workdir) < count:
    time.sleep(0.01)


def killed_and_restarted(start, workdir, rng, kills):
  """Kills a run at random moments of its training, saves included, then lets it finish."""
  hits = 0
  for _ in range(kills):
    process = start(workdir, *LONGER)
    wait_for_rows(process, workdir, num_rows(workdir) + rng.randint(1, 7))
    time.sleep(rng.uniform(0, 0.15))  # a dispatch, an evaluation and a save take about as long
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    hits += process.returncode == -signal.SIGKILL
  process = start(workdir, *LONGER)
  _, errors = process.communicate(timeout=300)
  assert process.returncode == launch.EXIT_DONE and 'resumed from step' in errors, errors
  return hits


@pytest.mark.slow
def test_killed_three_times_equals_uninterrupted(start, uninterrupted, tmp_path):
  assert killed_and_restarted(start, tmp_path, random.Random(0), kills=3) == 3
  assert_same_run(tmp_path, uninterrupted)


@pytest.mark.slow
def test_killed_twelve_times_equals_uninterrupted(start, uninterrupted, tmp_path):
  assert killed_and_restarted(start, tmp_path, random.Random(1), kills=12) >= 10
  assert_same_run(tmp_path, uninterrupted)


@pytest.mark.slow
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_asks_to_be_started_again(start, uninterrupted, tmp_path, number):
  process = start(tmp_path, *LONGER)
  wait_for_rows(process, tmp_path, 5)
  process.send_signal(number)
  out, errors = process.communicate(timeout=120)
  assert process.returncode == launch.EXIT_REQUEUE, errors
  assert 'the same command goes on' in out
  process = start(tmp_path, *LONGER)
  _, errors = process.communicate(timeout=300)
  assert process.returncode == launch.EXIT_DONE and 'resumed from step' in errors
  assert_same_run(tmp_path, uninterrupted)


@pytest.mark.slow
def test_a_flipped_bit_is_found_and_the_step_before_used(start, uninterrupted, tmp_path):
  copy = tmp_path / 'run'
  subprocess.run(['cp', '-r', uninterrupted, copy], check=True)
  newest = max((copy / 'checkpoints').iterdir(), key=lambda path: int(path.name))
  file = max((path for path in newest.rglob('*') if path.is_file()), key=lambda path: path.stat().st_size)
  data = bytearray(file.read_bytes())
  data[len(data) // 2] ^= 4
  file.write_bytes(data)
  process = start(copy, *LONGER)
  _, errors = process.communicate(timeout=300)
  assert process.returncode == launch.EXIT_DONE, errors
  assert 'checkpoint of step 72 is damaged' in errors and 'falling back to step 70' in errors
  assert_same_run(copy, uninterrupted)


@pytest.mark.parametrize(
    'arguments, words',
    [
        (['--config=nowhere.py', '--workdir=x'], 'no such file'),
        ([f'--config={CONFIG}'], '--workdir=DIR is missing'),
        ([f'--config={CONFIG}', '--workdir=x', '--config.algoritm.clip_high=1'], "'algorithm.clip_high'?"),
        ([f'--config={CONFIG}', '--workdir=x', '--quite'], "'--quite' is not understood"),
        ([f'--config={CONFIG}', '--workdir=x', '--config.seed=a'], 'needs int'),
    ],
)
def test_a_wrong_command_line_is_one_line_and_not_to_be_retried(arguments, words, capsys, monkeypatch):
  monkeypatch.chdir(ROOT)
  assert launch.main(arguments) == launch.EXIT_DO_NOT_RETRY
  error = capsys.readouterr().err
  assert words in error and error.count('\n') == 1
  assert not Path('x').exists()


def test_the_workdir_of_another_config_is_refused(start, finished):
  process = start(finished, '--config.algorithm.clip_high=0.3')
  _, errors = process.communicate(timeout=120)
  assert process.returncode == launch.EXIT_DO_NOT_RETRY
  assert 'algorithm.clip_high: 0.2 -> 0.3' in errors and errors.count('\n') == 1


@pytest.mark.slow
def test_dry_run_prints_sizes_of_a_mesh_that_is_not_here(start, tmp_path):
  process = start(tmp_path / 'none', '--dry_run', '--config.mesh.fsdp=2', '--config.mesh.tensor=2')
  out, errors = process.communicate(timeout=300)
  assert process.returncode == launch.EXIT_DONE, errors
  for words in ('fsdp=2 x tensor=2', "stage 'sft'", "stage 'grpo'", 'policy', 'optimizer', 'FLOPs'):
    assert words in out
  assert not (tmp_path / 'none').exists()


@pytest.mark.slow
def test_a_population_logs_median_and_spread(start, tmp_path):
  process = start(tmp_path, '--config.population.size=3', '--quiet')
  out, errors = process.communicate(timeout=300)
  assert process.returncode == launch.EXIT_DONE, errors
  assert not out and not errors
  row = read_metrics(tmp_path / 'metrics.jsonl')[-1]
  assert row['policy/entropy.min'] < row['policy/entropy'] < row['policy/entropy.max']


@pytest.mark.slow
def test_a_run_that_stays_nonfinite_is_given_up_with_a_dump(start, tmp_path):
  rate = '--config.optimizer.learning_rate=1e39'  # infinite as a float32; 1e38 ends in a uniform policy
  process = start(tmp_path, *LONGER, rate, '--config.steps=40')
  _, errors = process.communicate(timeout=300)
  assert process.returncode == launch.EXIT_DO_NOT_RETRY
  assert 'updates in a row' in errors and (tmp_path / 'nonfinite').is_dir()
