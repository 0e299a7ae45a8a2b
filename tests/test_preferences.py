"""Configs of preferences as runs: stopped and gone on with to the bit, with all weights and with adapters."""

import chex
from ml_collections import ConfigDict
import pytest
from whole_runs import in_the_repository, numbers, run_in

from rlx.experiments.configs.preferences import dpo


@pytest.fixture(autouse=True)
def _here():
  with in_the_repository():
    yield


def small(config: ConfigDict) -> ConfigDict:
  """What compiles in seconds: no evaluation, two steps a dispatch."""
  config.evals = ConfigDict()
  config.log.headline = 'loss/total'
  config.log.writers = ()
  config.mesh.data = 1
  return config


@pytest.mark.slow
@pytest.mark.parametrize('make', [
    lambda: dpo.get_config('smoke'),
    lambda: dpo.get_config('smoke,lora_rank=2'),
], ids=['dpo', 'dpo_lora'])
def test_a_run_that_was_stopped_is_the_whole_one(make, tmp_path):
  config = small(make())
  metrics, state, _ = run_in(config, tmp_path / 'whole')
  again, resumed, _ = run_in(config, tmp_path / 'stopped', stops=(2,))
  assert metrics == again
  chex.assert_trees_all_equal(numbers(state), numbers(resumed))
  assert (tmp_path / 'whole/model/model.safetensors').is_file()
