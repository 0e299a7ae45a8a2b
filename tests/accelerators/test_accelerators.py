"""Programs compiled for TPUs and GPUs that are not here, by their own compilers: `make test-accelerators`."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
import numpy as np
import optax
import pytest

from rlx import sharding
from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.kernels import decode_attention, packed_attention, sampler, switch
from rlx.kernels.linear_logprob import linear_logprob
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.run import costs, topologies
from tests import algorithms_table as table
from tests.test_conformance import AXES, make_state, make_step, rollout_of

pytestmark = pytest.mark.accelerators
PLACES = ('v5e:2x2', 'h200:4')
everywhere = pytest.mark.parametrize('place', PLACES)


@functools.cache
def mesh_of(place, *sizes):
  """A mesh of a topology's first devices."""
  devices = topologies.parse(place).devices()[: int(np.prod(sizes))]
  axis_types = (jax.sharding.AxisType.Auto,) * 3
  return jax.sharding.Mesh(np.array(devices).reshape(sizes), sharding.MESH_AXES, axis_types=axis_types)


def compiled(function, place, mesh, *shapes):
  """The program for shapes (with their shardings, or whole on every device)."""
  whole = NamedSharding(mesh, PartitionSpec())

  def placed(leaf):
    where = leaf.sharding if isinstance(getattr(leaf, 'sharding', None), NamedSharding) else whole
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where)

  shapes = jax.tree.map(placed, shapes)
  platform = topologies.parse(place).machine.platform
  with jax.set_mesh(mesh):
    return jax.jit(function).trace(*shapes).lower(lowering_platforms=(platform,)).compile()


@everywhere
@pytest.mark.parametrize('row', table.ROWS, ids=lambda row: row.name)
def test_every_algorithm_compiles(row, place):
  """A whole train step over four devices, rows over two, weights over two."""
  mesh = mesh_of(place, 2, 2, 1)
  state = jax.eval_shape(lambda: make_state(row, optax.adam(1e-3)))
  places = sharding.state_shardings(state, mesh, AXES)
  state = jax.tree.map(
      lambda leaf, where: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where), state, places
  )
  data = jax.eval_shape(lambda: rollout_of(row).data)
  program = compiled(make_step(row, optax.adam(1e-3)), place, mesh, state, data)
  assert program.memory_analysis().temp_size_in_bytes < topologies.parse(place).machine.memory


QWEN2_7B = TransformerConfig(  # fewer layers
    vocab_size=152064, num_layers=2, width=3584, num_heads=28, num_kv_heads=4, head_size=128, mlp_size=18944,
    context_length=2048, dtype='bfloat16', param_dtype='bfloat16', tied=False, qkv_bias=True,
)
LONG = Decoding(
    max_tokens=512, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='inverse_cdf', eos_ids=(1,),
    pad_id=0,
)


@everywhere
@pytest.mark.parametrize('num_slots', [0, 16])
def test_a_token_reads_weights_and_cache_once(place, num_slots):
  """Bytes that a decoding step moves, against the weights (but the embedding, of which rows are read) and the
  allocated keys and values."""
  model, mesh, prompts, group_size, columns = LanguageModel(QWEN2_7B), mesh_of(place, 1, 1, 1), 4, 8, 256
  params = jax.eval_shape(model.init, jax.random.key(0))

  def program(params, tokens, lengths, seed):
    return engine.sample(
        params, model, tokens, lengths, jax.random.key(seed), group_size=group_size, decoding=LONG,
        num_slots=num_slots,
    )

  shapes = [jax.ShapeDtypeStruct(shape, jnp.int32) for shape in ((prompts, columns), (prompts,), ())]
  text = compiled(program, place, mesh, params, *shapes).as_text()
  steps = LONG.max_tokens * prompts * group_size // num_slots if num_slots else LONG.max_tokens - 1
  # The loop's share: what the program moves with its loop once, and with all its trips.
  once, all_trips = (
      costs.read(text, trips=lambda loop, often=often: often if loop.endswith(f'times_{steps}/while') else 1)
      for often in (1, steps)
  )
  a_step = (all_trips.num_bytes - once.num_bytes) / (steps - 1)
  read = {name: weights for name, weights in params.items() if name != 'embedding'}
  weights = sum(2 * leaf.size for leaf in jax.tree.leaves(read))
  per_column = 2 * 2 * QWEN2_7B.num_layers * QWEN2_7B.num_kv_heads * QWEN2_7B.head_size
  held = num_slots * (columns + LONG.max_tokens) or prompts * columns + prompts * group_size * LONG.max_tokens
  assert a_step <= 1.15 * (weights + per_column * held)


def queries(tokens=1, columns=512):
  """Shapes of a decoding step's queries, keys, values and positions: 16 rows, 8 heads over 2."""
  shape = lambda *sizes, dtype=jnp.bfloat16: jax.ShapeDtypeStruct(sizes, dtype)
  cache = shape(16, columns, 2, 128)
  return shape(16, tokens, 8, 128), cache, cache, shape(16, tokens, dtype=jnp.int32)


HOW = {'scale': 0.1, 'softcap': 0.0, 'window': 4096}


@pytest.mark.parametrize(
    ('place', 'name'),
    [
        ('v5e:2x2', 'reference'), ('v5e:2x2', 'blockwise'), ('h200:4', 'reference'), ('h200:4', 'blockwise'),
        ('h200:4', 'cudnn'), ('h200:4', 'mosaic'),
    ],
)
def test_decode_attention_compiles_where_it_says_it_runs(place, name):
  attend = functools.partial(decode_attention.decode_attention, **HOW, implementation=name)
  text = compiled(attend, place, mesh_of(place, 1, 1, 1), *queries()).as_text()
  if name in ('cudnn', 'mosaic'):
    assert 'custom-call' in text


@pytest.mark.parametrize(
    ('place', 'name'),
    [
        ('v5e:2x2', 'reference'), ('v5e:2x2', 'blockwise'), ('h200:4', 'reference'), ('h200:4', 'blockwise'),
        ('h200:4', 'cudnn'), ('h200:4', 'triton'),
    ],
)
@pytest.mark.filterwarnings('ignore:The Pallas Triton backend')
def test_packed_attention_compiles_with_its_gradient(place, name):
  query, keys, values, places = queries(tokens=512)

  def loss(query, keys, values, places):
    attend = functools.partial(packed_attention.packed_attention, **HOW, implementation=name)
    out = attend(
        query, keys, values, starts=places, shared_ends=places, own_starts=places, positions=places
    )
    return out.astype(jnp.float32).sum()

  compiled(jax.grad(loss, argnums=(0, 1, 2)), place, mesh_of(place, 1, 1, 1), query, keys, values, places)


@pytest.mark.parametrize('sizes', [(1, 1, 1), (1, 1, 2), (1, 2, 2), (2, 2, 1)], ids=str)
@pytest.mark.parametrize('size', [64, 128])
def test_splash_compiles_with_its_gradient(sizes, size):
  """On devices that have their own rows and heads; scores stay on the chip."""
  mesh, columns = mesh_of('v5e:2x2', *sizes), 1000
  shape = lambda *sizes, dtype=jnp.bfloat16: jax.ShapeDtypeStruct(sizes, dtype)

  def loss(query, keys, values, places):
    out = packed_attention.packed_attention(
        query, keys, values, starts=places, shared_ends=None, own_starts=places, positions=places, **HOW,
        implementation='splash',
    )
    return out.astype(jnp.float32).sum()

  heads = shape(4, columns, 8, size), shape(4, columns, 2, size), shape(4, columns, 2, size)
  places = shape(4, columns, dtype=jnp.int32)
  program = compiled(jax.grad(loss, argnums=(0, 1, 2)), 'v5e:2x2', mesh, *heads, places)
  assert program.as_text().count('custom_call_target="tpu_custom_call"') >= 3  # forward, keys, queries
  rows, num_heads = 4 // (sizes[0] * sizes[1]), 8 // sizes[2]
  assert program.memory_analysis().temp_size_in_bytes < 4 * rows * num_heads * columns**2


@everywhere
def test_scores_and_draws_compile(place):
  mesh = mesh_of(place, 1, 1, 1)
  shape = lambda *sizes, dtype=jnp.bfloat16: jax.ShapeDtypeStruct(sizes, dtype)

  def loss(hidden, weights, targets):
    return linear_logprob(hidden, weights, targets, chunk_size=256).logprobs.sum()

  arguments = shape(1024, 512), shape(32000, 512), shape(1024, dtype=jnp.int32)
  compiled(jax.grad(loss, argnums=(0, 1)), place, mesh, *arguments)
  logits, numbers = shape(16, 32000, dtype=jnp.float32), shape(16, dtype=jnp.float32)
  compiled(sampler.inverse_cdf, place, mesh, logits, numbers)


def test_kernels_are_chosen_by_the_mesh():
  """Not by what this process runs on, which is a CPU."""
  mesh = mesh_of('h200:4', 1, 1, 1)
  assert switch.device().platform == 'cpu'
  assert 'this is cpu' in switch.no_hopper()
  with jax.set_mesh(mesh):
    assert switch.device() == switch.Device('gpu', 'NVIDIA H200', (9, 0))
    assert switch.no_hopper() == ''
  with jax.set_mesh(mesh_of('v5e:2x2', 1, 1, 1)):
    assert 'this is tpu' in switch.no_gpu((8, 0))


@everywhere
def test_layers_are_gathered_where_they_are_used(place):
  """FSDP in the accelerator's own text: a gradient gathers every split weight twice and scatters its sum."""
  model = LanguageModel(dataclasses.replace(
      QWEN2_7B, vocab_size=1024, width=512, num_heads=4, mlp_size=1024, context_length=256
  ))
  mesh = mesh_of(place, 1, 4, 1)
  params = jax.eval_shape(model.init, jax.random.key(0))
  params = jax.tree.map(
      lambda leaf, where: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where), params,
      sharding.shardings(params, mesh, model.axes),
  )

  def loss(params, tokens):
    hidden, _ = model.forward(params, tokens)
    return hidden.astype(jnp.float32).sum()

  rows = NamedSharding(mesh, PartitionSpec(sharding.ROWS))
  tokens = jax.ShapeDtypeStruct((16, 256), jnp.int32, sharding=rows)
  found = costs.read(compiled(jax.grad(loss), place, mesh, params, tokens).as_text())
  split = sum(2 * x.size for x in jax.tree.leaves(params) if 'fsdp' in x.sharding.spec)
  gathered = found.collective_bytes('all-gather')
  assert gathered <= 1.25 * 2 * 3 / 4 * split
  # Sums of gradients: a compiler may write a scatter as a sum of which a part is kept, twice the bytes.
  assert found.collective_bytes() - gathered <= 1.25 * 2 * 3 / 4 * split
