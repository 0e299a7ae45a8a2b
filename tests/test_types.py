"""The table of batch keys, and the records that flow."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import types

DTYPES = {'i': jnp.int32, 'b': jnp.bool_, 'f': jnp.float32}
ALL_KEYS = pytest.mark.parametrize('name', types.BATCH_KEYS)


def standard(name, *, rank=0, dtype=None):
  """A batch of two rows with the key `name`, its highest rank raised by `rank`."""
  ranks, kinds, _ = types.BATCH_KEYS[name]
  return {name: jnp.zeros((2, 3, 4, 5, 6, 7)[: max(ranks) + rank], dtype or DTYPES[kinds[0]])}


def test_the_whole_table_passes():
  types.check({name: array for key in types.BATCH_KEYS for name, array in standard(key).items()})


@ALL_KEYS
def test_a_wrong_rank_is_named(name):
  with pytest.raises(ValueError, match=f"'{name}'.*needs rank"):
    types.check(standard(name, rank=1))


@ALL_KEYS
def test_a_wrong_dtype_is_named(name):
  wrong = next(dtype for kind, dtype in DTYPES.items() if kind not in types.BATCH_KEYS[name][1])
  with pytest.raises(ValueError, match=f"'{name}'.*dtype"):
    types.check(standard(name, dtype=wrong))


@pytest.mark.parametrize('dtype', [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize('name', [name for name, (_, kinds, _) in types.BATCH_KEYS.items() if 'f' in kinds])
def test_half_precision_is_refused(name, dtype):
  with pytest.raises(ValueError, match=name):
    types.check(standard(name, dtype=dtype))


def test_rows_must_agree():
  with pytest.raises(ValueError, match='first axis.*tokens'):
    types.check({**standard('tokens'), 'rewards': jnp.zeros(3)})


def test_columns_that_the_table_does_not_know_only_need_rows():
  images = lambda num_rows: {**standard('tokens'), 'images': jnp.zeros((num_rows, 8, 8, 3), jnp.bfloat16)}
  types.check(images(2))
  with pytest.raises(ValueError, match='first axis.*images'):
    types.check(images(3))


def test_a_scalar_is_no_column():
  with pytest.raises(ValueError, match='loss'):
    types.check({**standard('tokens'), 'loss': jnp.float32(0)})


def test_an_algorithm_is_frozen_and_its_idle_slots_are_identities():
  algorithm = types.Algorithm(rollout=lambda *_: None, loss=lambda *_: None)
  batch, slow = {'rewards': jnp.zeros(2)}, {'target': jnp.zeros(2)}
  assert algorithm.reward({}, batch, None) is batch
  assert algorithm.advantage({}, batch, None) is batch
  assert algorithm.track(slow, {}, None) is slow
  with pytest.raises(dataclasses.FrozenInstanceError):
    algorithm.reward = None


def test_models_are_lagging_and_trained_ones():
  state = types.State(
      step=jnp.int32(0), params={'policy': 1}, slow={'reference': 2}, opt_state=(), world=None, key=None
  )
  assert state.models == {'policy': 1, 'reference': 2}


def test_rows_that_are_others_are_others_where_they_are_traced_as_well():
  rows = lambda models, world, key: ({'x': np.arange(4.0)}, world)
  host = types.HostRollout(begin=lambda key: {}, draw=rows, data=None, shapes=rows, host=None)

  def first(drawn):
    def draw(models, world, key):
      batch, world = drawn(models, world, key)
      return {'y': batch['x'][jnp.argsort(batch['x'])[:2]]}, world

    return draw

  halved = types.redrawn(host, first, observe=lambda *_: 'seen')
  assert isinstance(halved, types.HostRollout) and halved.observe() == 'seen'
  np.testing.assert_array_equal(halved({}, {'at_step': 0}, None)[0]['y'], [0, 1])
  shapes, _ = jax.eval_shape(halved.traceable, {}, {}, jax.random.key(0))
  assert {name: x.shape for name, x in shapes.items()} == {'y': (2,)}
  plain = types.redrawn(rows, first)
  assert {*plain({}, {}, None)[0]} == {'y'}
