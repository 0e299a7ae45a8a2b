"""Where arrays live: every parameter is placed by its name, and what belongs to it is placed beside it."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
import numpy as np
import optax
import pytest

from rlx import sharding
from rlx.models import transformer
from rlx.models.transformer import AXES, TransformerConfig
from rlx.types import State

CONFIG = TransformerConfig(  # with every parameter there is
    vocab_size=32, num_layers=2, width=16, num_heads=4, num_kv_heads=2, head_size=4, mlp_size=24,
    context_length=8, norm='layernorm', positions='learned', qk_norm=True, qkv_bias=True, out_bias=True,
    mlp_bias=True, post_norms=True, tied=False,
)
EXPERTS = dataclasses.replace(CONFIG, mlp_bias=False, num_experts=4, experts_per_token=2)
PARAMS, EXPERT_PARAMS = (
    jax.eval_shape(functools.partial(transformer.init, config=config), jax.random.key(0))
    for config in (CONFIG, EXPERTS)
)
SPECS = {  # without the leading axis of stacked layers
    'embedding': ('tensor', 'fsdp'),
    'unembedding': ('tensor', 'fsdp'),
    'position_embedding': (None, 'fsdp'),
    'query': ('fsdp', 'tensor', None),
    'key': ('fsdp', 'tensor', None),
    'value': ('fsdp', 'tensor', None),
    'attention_out': ('tensor', None, 'fsdp'),
    'gate': ('fsdp', 'tensor'),
    'up': ('fsdp', 'tensor'),
    'down': ('tensor', 'fsdp'),
    'router': ('fsdp', None),
    'expert_gate': (None, 'fsdp', 'tensor'),
    'expert_up': (None, 'fsdp', 'tensor'),
    'expert_down': (None, 'tensor', 'fsdp'),
    'query_bias': ('tensor', None),
    'key_bias': ('tensor', None),
    'value_bias': ('tensor', None),
    'gate_bias': ('tensor',),
    'up_bias': ('tensor',),
    'attention_out_bias': (None,),
    'down_bias': (None,),
    'scale': (None,),
    'bias': (None,),
}


MODEL_AXES = {'policy': AXES, 'reference': AXES}


def mesh_of(*sizes):
  return sharding.make_mesh(**dict(zip(sharding.MESH_AXES, sizes, strict=True)))


def bytes_per_device(params, mesh):
  return sharding.bytes_per_device(params, sharding.shardings(params, mesh, AXES))


def named_leaves(tree):
  """(name of the parameter, whether it is one of stacked layers, leaf)."""
  for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
    yield path[-1].key, 'layers' in jax.tree_util.keystr(path), leaf


def make_state():
  optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
  params = {'policy': PARAMS}
  return State(
      step=jax.ShapeDtypeStruct((), jnp.int32), params=params, slow={'reference': PARAMS},
      opt_state=jax.eval_shape(optimizer.init, params), world=(), key=jax.random.key(0),
  )


def test_specs_by_name():
  placed = sharding.shardings([PARAMS, EXPERT_PARAMS], mesh_of(2, 2, 2), AXES)
  seen = set()
  for name, stacked, leaf in named_leaves(placed):
    assert leaf.spec == P(*(None,) * stacked, *SPECS[name]), name
    seen.add(name)
  assert seen == SPECS.keys()


def test_a_population_is_an_axis_in_front():
  population = jax.tree.map(lambda x: jax.ShapeDtypeStruct((4, *x.shape), x.dtype), PARAMS)
  for name, stacked, leaf in named_leaves(sharding.shardings(population, mesh_of(2, 2, 2), AXES)):
    assert leaf.spec == P(None, *(None,) * stacked, *SPECS[name]), name


@pytest.mark.parametrize(
    ('shape', 'spec'),
    [
        ((32, 16), P('tensor', 'fsdp')),
        ((31, 16), P(None, 'fsdp')),
        ((32, 15), P('tensor', None)),
        ((31, 15), P(None, None)),
        ((15, 32, 16), P(None, 'tensor', 'fsdp')),
        ((16,), P()),  # fewer axes than the name explains: somebody else's array
    ],
    ids=str,
)
def test_an_axis_that_does_not_divide_stays_whole(shape, spec):
  tree = {'embedding': jax.ShapeDtypeStruct(shape, jnp.float32)}
  assert sharding.shardings(tree, mesh_of(2, 2, 2), AXES)['embedding'].spec == spec


def test_moments_and_copies_are_placed_like_their_parameters():
  state = make_state()
  placed = sharding.state_shardings(state, mesh_of(2, 2, 2), MODEL_AXES)
  policy = placed.params['policy']
  for moments in ('mu', 'nu'):
    assert optax.tree.get(placed.opt_state, moments) == {'policy': policy}
  assert placed.slow['reference'] == policy
  assert {optax.tree.get(placed.opt_state, 'count').spec, placed.step.spec, placed.key.spec} == {P()}


def test_a_name_means_what_its_own_model_says():
  matrix = jax.ShapeDtypeStruct((16, 16), jnp.float32)
  tree = {name: {'up': matrix} for name in ('policy', 'network', 'cursor')}
  axes = {'policy': AXES, 'network': {'up': ('mlp', 'embed')}}
  placed = sharding.state_shardings(tree, mesh_of(2, 2, 2), axes)
  specs = {name: place['up'].spec for name, place in placed.items()}
  assert specs == {'policy': P('fsdp', 'tensor'), 'network': P('tensor', 'fsdp'), 'cursor': P(None, None)}


def test_a_whole_state_can_be_placed():
  state, mesh = make_state(), mesh_of(2, 2, 2)
  zeros = lambda x: np.zeros(x.shape, x.dtype) if isinstance(x, jax.ShapeDtypeStruct) else x
  places = sharding.state_shardings(state, mesh, MODEL_AXES)
  state = jax.device_put(jax.tree.map(zeros, state), places)
  held = {device: 0 for device in mesh.devices.flat}
  for leaf in jax.tree.leaves(state.replace(key=())):
    for shard in leaf.addressable_shards:
      held[shard.device] += shard.data.nbytes
  assert set(held.values()) == {sharding.bytes_per_device(state.replace(key=()), places.replace(key=()))}


@pytest.mark.parametrize('sizes', [(1, 1, 1), (8, 1, 1), (2, 2, 2), (1, 8, 1), (1, 1, 2), (1, 4, 2)], ids=str)
def test_bytes_fall_by_the_devices_that_share_a_parameter(sizes):
  num_shards = dict(zip((*sharding.MESH_AXES, None), (*sizes, 1), strict=True))
  expected = sum(
      4 * leaf.size // math.prod(num_shards[axis] for axis in SPECS[name])
      for name, _, leaf in named_leaves(PARAMS)
  )
  assert bytes_per_device(PARAMS, mesh_of(*sizes)) == expected


@pytest.mark.parametrize(('sizes', 'factor'), [((8, 1, 1), 1), ((2, 2, 2), 4), ((1, 8, 1), 8)], ids=str)
def test_matrices_are_nearly_all_there_is(sizes, factor):
  """Of a model of some width, `fsdp * tensor` devices hold their share each; replicas hold everything."""
  config = TransformerConfig(
      vocab_size=512, num_layers=2, width=256, num_heads=4, num_kv_heads=2, head_size=64, mlp_size=512,
      context_length=8,
  )
  params = jax.eval_shape(functools.partial(transformer.init, config=config), jax.random.key(0))
  whole = 4 * transformer.num_parameters(params)
  assert whole / bytes_per_device(params, mesh_of(*sizes)) == pytest.approx(factor, rel=0.02)


def test_half_precision_is_half_the_bytes():
  half = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.bfloat16), PARAMS)
  mesh = mesh_of(2, 2, 2)
  assert 2 * bytes_per_device(half, mesh) == bytes_per_device(PARAMS, mesh)


def test_sampling_weights_are_whole_over_fsdp():
  mesh = mesh_of(2, 2, 2)
  weights = {'query': jnp.ones((16, 4, 4)), 'up': jnp.ones((2, 16, 24))}
  weights = jax.device_put(weights, sharding.shardings(weights, mesh, AXES))
  with jax.set_mesh(mesh):
    gathered = jax.jit(functools.partial(sharding.gather, axes=AXES))(weights)
  shapes = lambda tree: {name: leaf.addressable_shards[0].data.shape for name, leaf in tree.items()}
  assert shapes(weights) == {'query': (8, 2, 4), 'up': (2, 8, 12)}
  assert shapes(gathered) == {'query': (16, 2, 4), 'up': (2, 16, 12)}


def test_rows_are_spread_where_they_divide():
  batch = {'tokens': jnp.ones((16, 5)), 'odd': jnp.ones((6, 5)), 'scalar': jnp.float32(1)}
  with jax.set_mesh(mesh_of(2, 2, 2)):
    batch = jax.jit(sharding.shard_rows)(batch)
  shapes = {name: leaf.addressable_shards[0].data.shape for name, leaf in batch.items()}
  assert shapes == {'tokens': (4, 5), 'odd': (6, 5), 'scalar': ()}


def test_without_a_mesh_nothing_happens():
  tree = {'embedding': jnp.ones((4, 4))}
  assert sharding.gather(tree, {'policy': AXES}) is tree
  assert sharding.shard_rows(tree) is tree


def test_the_mesh_takes_the_devices_that_are_left():
  assert dict(sharding.make_mesh(data=-1, fsdp=2, tensor=2).shape) == {'data': 2, 'fsdp': 2, 'tensor': 2}
  assert dict(sharding.make_mesh(data=-1, fsdp=8, tensor=1).shape) == {'data': 1, 'fsdp': 8, 'tensor': 1}
  assert sharding.make_mesh(data=1, fsdp=3, tensor=1).size == 3  # said so: some may be idle


@pytest.mark.parametrize(
    ('sizes', 'message'),
    [
        ((2, 4, 2), 'needs 16 devices, 8 are free'),
        ((-1, 16, 1), 'needs 16 devices, 8 are free'),
        ((-1, 3, 1), '3 does not divide the 8 devices'),
        ((0, 1, 1), 'data=0'),
        ((1, 0, 1), 'fsdp=0'),
        ((-1, 0, 1), 'fsdp=0'),
        ((1, -1, -1), 'fsdp=-1'),
    ],
    ids=str,
)
def test_a_mesh_that_does_not_fit_raises(sizes, message):
  with pytest.raises(ValueError, match=message):
    mesh_of(*sizes)
