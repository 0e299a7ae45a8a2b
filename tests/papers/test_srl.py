"""SRL (S068): one experiment, three placements of its workers, one learning curve.

Source: https://arxiv.org/abs/2306.16688, section 4. Actors, policy workers and trainers are there processes
joined by streams. Here sampling and learning take turns on the same devices, or lie side by side on devices
of their own, or are spread over two processes: a matter of the command line.
"""

import json

import numpy as np
import pytest

from rlx.experiments import launch
from rlx.run.writers import read_metrics
from tests.test_processes import ARITHMETIC, codes, make_runs

PLACEMENTS = {
    'in turn': (),
    'side by side': (
        '--config.mesh.data=2', "--config.sampling={'lag': 0, 'mesh': {'data': 4, 'fsdp': 1, 'tensor': 1}}",
    ),
    'in two processes': (),
}
CURVE = ('loss/total', 'policy/entropy', 'optimizer/grad_norm')
LEARNS = '--config.algorithm.entropy_coef=0.5'  # a model so small is never right, and learns to vary


@pytest.mark.slow
def test_three_placements_learn_the_same(tmp_path):
  runs, curves = make_runs(tmp_path, ARITHMETIC), {}
  for name, placement in PLACEMENTS.items():
    arguments = (LEARNS, *placement)
    workdir = tmp_path / name.replace(' ', '_')
    several = name == 'in two processes'
    started = runs.pair(workdir, *arguments) if several else [runs.start(workdir, 8, *arguments)]
    ended, said = codes(started)
    assert set(ended) == {launch.EXIT_DONE}, said
    rows = read_metrics(workdir / 'metrics.jsonl')[1:]
    curves[name] = {metric: [row[metric] for row in rows] for metric in CURVE}
    if name == 'side by side':
      assert rows[0]['sampling/weights_bytes'] > 0  # they did go there
      timing = (workdir / 'timing.jsonl').read_text().splitlines()
      assert json.loads(timing[-1])['time/weights_seconds'] > 0
  for name, curve in curves.items():
    for metric, values in curve.items():
      expected = curves['in turn'][metric]
      assert len(values) == 8 and len(set(expected)) > 1
      np.testing.assert_allclose(values, expected, rtol=1e-3, atol=1e-5, err_msg=f'{name}: {metric}')
