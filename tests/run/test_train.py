"""Runs in this process: sharded ones, and their states."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import config as configs
from rlx import sharding
from rlx.run import states, train
from rlx.run.build import build

QUICKSTART = 'experiments/configs/quickstart/arithmetic.py:smoke'


def make_run(*overrides):
  config = configs.load(QUICKSTART)
  for text in overrides:
    configs.override(config, *text.split('=', 1))
  return build(config)


def first_dispatch(run, stage):
  """The state at the start of a stage, and the metrics of its first steps."""
  with jax.set_mesh(run.mesh):
    train.check(run)
    models = {} if stage == 0 else states.begin(run, 0, {}, 0).models
    state = states.begin(run, stage, models, 0)
    shards = [shard for leaf in numbers(state) for shard in leaf.addressable_shards]
    sizes = [sum(s.data.nbytes for s in shards if s.device == device) for device in run.mesh.devices.flat]
    _, metrics = run.stages[stage].program.dispatch(state, None)
    return sizes, jax.device_get(metrics)


def numbers(state):
  return jax.tree.leaves(state.replace(key=jax.random.key_data(state.key)))


@pytest.mark.slow
def test_a_sharded_run_holds_less_and_says_the_same():
  alone = make_run('mesh.data=1')
  spread = make_run('mesh.data=2', 'mesh.fsdp=2', 'mesh.tensor=2')
  (whole,), metrics = first_dispatch(alone, 1)
  sizes, sharded_metrics = first_dispatch(spread, 1)
  assert len(set(sizes)) == 1 and len(sizes) == 8
  # Matrices are split four ways (fsdp x tensor; data is replication). Norms and the odd vocabulary are not.
  assert whole / 4 < sizes[0] < whole / 3
  with jax.set_mesh(spread.mesh):
    state, _ = states.abstract_state(spread, 1)
    places = sharding.state_shardings(state, spread.mesh, spread.stages[1].axes)
  assert abs(sizes[0] - sharding.bytes_per_device(state, places)) <= 16  # the key
  chex.assert_trees_all_close(sharded_metrics, metrics, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('overrides', [(), ("sampling={'lag': 1}",)])
def test_a_donated_state_is_there_once(overrides):
  """Every array of the state that goes in is the memory of the one that comes out, on each of 8 devices."""
  run = make_run('mesh.data=2', 'mesh.fsdp=2', 'mesh.tensor=2', *overrides)
  with jax.set_mesh(run.mesh):
    state, frozen = states.abstract_state(run, 1)
    compiled = run.stages[1].program.trace(state, None, frozen)[-1].lower().compile()
  places = jax.tree.map(lambda leaf: leaf.sharding, state)
  aliases = compiled.as_text().split('input_output_alias={', 1)[1].split('}, entry_computation', 1)[0]
  assert aliases.count('alias)') == len(jax.tree.leaves(state))
  held = sharding.bytes_per_device(state, places)
  assert compiled.memory_analysis().alias_size_in_bytes == held
  assert compiled.memory_analysis().output_size_in_bytes < held + 2048  # metrics


def test_parameters_are_made_in_their_shards():
  run = make_run('mesh.data=1', 'mesh.fsdp=4', 'mesh.tensor=2')
  with jax.set_mesh(run.mesh):
    state = states.begin(run, 0, {}, 0)
    abstract, _ = states.abstract_state(run, 0)
  for leaf, like in zip(jax.tree.leaves(state), jax.tree.leaves(abstract), strict=True):
    assert leaf.sharding.is_equivalent_to(like.sharding, leaf.ndim)
  query = state.params['policy']['layers']['query']
  assert query.addressable_shards[0].data.shape == (2, 64 // 4, 4 // 2, 16)
  reference = make_run('mesh.data=1')
  with jax.set_mesh(reference.mesh):
    alone = states.begin(reference, 0, {}, 0)
  chex.assert_trees_all_equal(jax.device_get(state.params), jax.device_get(alone.params))


@pytest.mark.slow
def test_a_population_is_its_members():
  """Three seeds in one program begin as the three seeds alone, and learn as they do, up to rounding."""
  together = make_run('mesh.data=1', 'population.size=3')
  with jax.set_mesh(together.mesh):
    state = states.begin(together, 0, {}, 0)
    keys = np.array(jax.random.key_data(state.key))  # copies: the state is donated below
    embedding = np.array(state.params['policy']['embedding'])
    _, metrics = together.stages[0].program.dispatch(state, None)
  for seed in range(3):
    alone = make_run('mesh.data=1', f'seed={seed}')
    with jax.set_mesh(alone.mesh):
      member = states.begin(alone, 0, {}, 0)
      np.testing.assert_array_equal(jax.random.key_data(member.key), keys[seed])
      np.testing.assert_allclose(member.params['policy']['embedding'], embedding[seed], rtol=1e-6)
      _, one = alone.stages[0].program.dispatch(member, None)
    chex.assert_trees_all_close(one, jax.tree.map(lambda x, i=seed: x[i], metrics), rtol=1e-4, atol=1e-6)


def test_a_reference_is_a_copy_of_the_policy_at_the_start_of_the_stage():
  config = configs.load(QUICKSTART).unlock()
  config.slow.reference = 'policy'
  run = build(config.lock())
  with jax.set_mesh(run.mesh):
    state = states.begin(run, 1, states.begin(run, 0, {}, 0).models, 5)
  chex.assert_trees_all_equal(state.slow['reference'], state.params['policy'])
  assert int(state.step) == 5 and jnp.issubdtype(state.key.dtype, jax.dtypes.prng_key)
