"""`rlx evaluate --against`: checkpoints of runs play each other, as a user has it."""

import json
from pathlib import Path

import pytest

from rlx.experiments import launch

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_checkpoints_of_runs_play_each_other(tmp_path, monkeypatch, capsys):
  monkeypatch.chdir(ROOT)
  run = tmp_path / 'run'
  trained = launch.main(['--config=selfplay/kuhn_magnet:smoke', f'--workdir={run}', '--quiet'])
  assert trained == launch.EXIT_DONE
  capsys.readouterr()
  command = ['evaluate', f'--workdir={run}', f'--against={run}@2', '--games=64']
  assert launch.main([*command, '--json']) == launch.EXIT_DONE
  rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  assert [Path(row['name']).name for row in rows] == ['run@4', 'run@2']
  assert rows[0]['payoffs'][1] == pytest.approx(-rows[1]['payoffs'][0], abs=1e-6)
  assert rows[0]['elo'] == pytest.approx(-rows[1]['elo'], abs=1e-3)
  assert launch.main([*command, '--player=past']) != launch.EXIT_DONE
  assert "holds the models ['policy', 'reference']" in capsys.readouterr().err
