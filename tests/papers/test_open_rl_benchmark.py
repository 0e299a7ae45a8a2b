"""Open RL Benchmark (S077): a run says how it was made, and what says so makes it again.

Source: Huang et al., 2024, https://arxiv.org/abs/2402.03046.
"""

import json

import pytest

from rlx.experiments import launch

CONFIG = 'experiments/configs/control/ppo_cartpole.py:smoke'


@pytest.mark.slow
def test_runs_are_compared_and_made_again_from_what_they_left(tmp_path, capsys):
  """Two seeds, their figure, and the second one again from its own `config.json`, equal to the byte."""
  runs = [str(tmp_path / name) for name in ('first', 'second', 'again')]
  for seed, run in enumerate(runs[:2]):
    assert launch.main([f'--config={CONFIG}', f'--workdir={run}', f'--config.seed={seed}', '--quiet']) == 0
  assert launch.main(['compare', *runs[:2], f'--output={tmp_path / "out"}']) == 0
  assert '| 2 |' in capsys.readouterr().out and (tmp_path / 'out/compare.png').stat().st_size > 1000
  assert launch.main([f'--config={runs[1]}/config.json', f'--workdir={runs[2]}', '--quiet']) == 0
  metrics = [(tmp_path / name / 'metrics.jsonl').read_bytes() for name in ('first', 'second', 'again')]
  assert metrics[1] == metrics[2] != metrics[0]
  (start,) = map(json.loads, (tmp_path / 'second/starts.jsonl').read_text().splitlines())
  assert start['command'].startswith('rlx --config=') and '--config.seed=1' in start['command']
  assert {'jax', 'jaxlib', 'numpy', 'python', 'device', 'cores'} <= start.keys()
