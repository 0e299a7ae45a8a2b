"""A run goes on over other devices: from the same bits, to the same numbers up to rounding."""

import json

import jax
import numpy as np
import pytest

from rlx import config as configs
from rlx.run import train
from rlx.run.build import build
from rlx.run.writers import read_metrics
from tests.whole_runs import numbers

pytestmark = pytest.mark.slow  # a program a mesh; test_workdirs.py has the quick half

MESHES = ((8, 1, 1), (2, 1, 2), (1, 2, 1), (1, 1, 1))  # data, fsdp, tensor: 8, 4, 2 and 1 devices


def config_on(sizes):
  config = configs.load('quickstart/arithmetic:smoke')
  with config.unlocked():
    del config.sft
  config.stages, config.steps = ('main',), 2 * len(MESHES)
  config.models.policy.update(num_layers=1, width=16, mlp_size=16)
  config.mesh.update(dict(zip(('data', 'fsdp', 'tensor'), sizes, strict=True)))
  config.log.update(samples=0, headline='reward/mean')
  configs.override(config, 'evals', '{}')
  return config


def go_on(workdir, sizes, until):
  """The run in a working directory, on a mesh, until a step."""
  stop = lambda step, row: step == until
  return train.train(config_on(sizes), workdir, quiet=False, command='', hooks=[stop]).step


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """Nobody disturbed it, on 8 devices."""
  workdir = tmp_path_factory.mktemp('whole') / 'run'
  assert go_on(workdir, MESHES[0], 8) == 8
  return workdir


def test_it_goes_on_over_other_devices(whole, tmp_path, capsys):
  for index, sizes in enumerate(MESHES):
    assert go_on(tmp_path, sizes, 2 * index + 2) == 2 * index + 2
    assert tuple(json.loads((tmp_path / 'config.json').read_text())['mesh'].values()) == sizes
  told = capsys.readouterr().err
  assert 'not bitwise: mesh data=8 x fsdp=1 x tensor=1 -> data=2 x fsdp=1 x tensor=2)' in told
  starts = [json.loads(line)['mesh'] for line in (tmp_path / 'starts.jsonl').read_text().splitlines()]
  assert starts == [f'data={data} x fsdp={fsdp} x tensor={tensor}' for data, fsdp, tensor in MESHES]
  for ours, theirs in zip(*(read_metrics(path / 'metrics.jsonl') for path in (tmp_path, whole)), strict=True):
    assert ours.pop('stage') == theirs.pop('stage') and ours.keys() == theirs.keys()
    for name, value in ours.items():
      np.testing.assert_allclose(value, theirs[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize('sizes', MESHES[1:])
def test_no_bit_is_changed_by_a_restore(whole, sizes):
  states = [train.restore(build(config_on(one)), whole)[0] for one in (MESHES[0], sizes)]
  jax.tree.map(np.testing.assert_array_equal, *map(numbers, states))
  devices = [leaf.sharding.device_set for leaf in jax.tree.leaves(states[1])]
  assert {len(some) for some in devices} == {np.prod(sizes)}
