"""A run that hangs says where (`log.stuck_seconds`), and goes on."""

import pytest

from rlx.run import train
from tests.run.points import HERE, config_of, stage


@pytest.fixture(autouse=True)
def pieces(monkeypatch):
  """Configs here name functions of `pieces.py`."""
  monkeypatch.syspath_prepend(HERE)


def test_an_evaluation_that_hangs_is_told_with_its_stack(tmp_path, capfd):
  config = config_of(('main',), main=stage(steps=2))
  config.evals.all = {'name': 'pieces.seen_slowly', 'every': 2, 'seconds': 1.0}
  with config.unlocked():
    config.log.stuck_seconds = 0.4
  assert train.train(config, tmp_path, quiet=True, command='').finished
  said = capfd.readouterr().err
  assert 'rlx: evaluation has taken more than 0.4 s (log.stuck_seconds)' in said and 'in _evaluate' in said
  assert '_sleep_in_an_evaluation' in said


@pytest.mark.slow
def test_the_limit_may_change_while_a_run_goes_on(tmp_path):
  config = config_of(('main',), main=stage(steps=4))
  stop = lambda step, row: step == 2
  assert not train.train(config, tmp_path, quiet=True, command='', hooks=[stop]).finished
  with config.unlocked():
    config.log.stuck_seconds = 0.0
  assert train.train(config, tmp_path, quiet=True, command='').finished
