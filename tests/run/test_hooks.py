"""Hooks: what sees the rows of a run from Python, and stops it."""

import math
from pathlib import Path

import pytest

from rlx.run import train
from rlx.run.writers import read_metrics
from tests.run.test_stages import config_of, stage

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def pieces(monkeypatch):
  """Configs here name functions of `pieces.py`."""
  monkeypatch.syspath_prepend(HERE)


def test_a_hook_sees_every_row_and_may_stop_the_run(tmp_path):
  config, seen = config_of(('main',), main=stage(steps=8)), []

  def hook(step, metrics):
    seen.append((step, dict(metrics)))
    return step == 4

  run = lambda *hooks: train.train(config, tmp_path, quiet=True, command='', hooks=hooks)
  stopped = run(hook)
  assert not stopped.finished and stopped.step == 4
  assert [step for step, _ in seen] == [0, 1, 2, 3, 4]
  assert seen[4][1]['eval/all/models'] == 1 and math.isfinite(seen[3][1]['place'])
  assert run(lambda step, metrics: None).finished
  assert run(hook).finished  # nothing is left to stop
  rows = read_metrics(tmp_path / 'metrics.jsonl')
  assert [row['step'] for row in rows] == list(range(9))
  timing = read_metrics(tmp_path / 'timing.jsonl')
  speeds = ['time/step_seconds' in row for row in timing]
  assert speeds == [False, True, False, True]  # each start compiles in its first dispatch


def test_the_trackers_of_a_run_may_change_when_it_goes_on(tmp_path):
  config = config_of(('main',), main=stage(steps=4))
  train.train(config, tmp_path, quiet=True, command='', hooks=[lambda step, metrics: step == 2])
  config.log.writers = ()
  assert train.train(config, tmp_path, quiet=True, command='').finished
