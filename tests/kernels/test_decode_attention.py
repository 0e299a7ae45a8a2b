"""Every way of attending to a cache says what the plain one says, and reads no more than it has to."""

import functools
import importlib.machinery
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import sharding
from rlx.kernels import decode_attention as module
from rlx.kernels import decode_attention_mosaic, switch
from rlx.kernels.decode_attention import Prefix, attend, attend_blockwise, decode_attention, merge, stretches
from rlx.kernels.decode_attention_mosaic import attend_mosaic
from rlx.kernels.decode_attention_reference import attend_reference
from tests.cases import cases

EVERYTHING = 10**6
TOLERANCE = {jnp.float32: 1e-5, jnp.bfloat16: 2e-2}


def numbers(*shape, dtype=jnp.float32):
  return jnp.array(np.random.default_rng(shape).normal(size=shape), dtype)


def arguments(rows=3, queries=1, heads=4, kv_heads=2, columns=21, size=8, dtype=jnp.float32):
  """Queries, keys, values, and positions that reach from the first column to the last."""
  normal = functools.partial(numbers, dtype=dtype)
  last = jnp.linspace(queries - 1, columns - 1, rows).astype(jnp.int32)[:, None]
  positions = last - jnp.arange(queries, dtype=jnp.int32)[::-1][None]
  cache = (rows, columns, kv_heads, size)
  return normal(rows, queries, heads, size), normal(*cache), normal(*cache, 1)[..., 0], positions


def prefix_of(keys, lengths, rows, columns):
  bank = (len(lengths), columns, *keys.shape[2:])
  lengths, rows = (jnp.array(x, jnp.int32) for x in (lengths, rows))
  return Prefix(numbers(*bank, dtype=keys.dtype), numbers(*bank, 1, dtype=keys.dtype)[..., 0], lengths, rows)


def assert_same(ours, theirs, tolerance):
  for x, y in zip(ours, theirs, strict=True):
    x, y = (np.asarray(z, np.float32) for z in (x, y))
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def by_hand(query, keys, values, positions, window, softcap):
  """One query, head and column at a time; [S, N, K, H] and [S, N, K]."""
  query, keys, values = (np.asarray(x, np.float64) for x in (query, keys, values))
  out, lse = np.zeros(query.shape), np.full(query.shape[:3], -np.inf)
  share = query.shape[2] // keys.shape[2]
  for s, n, k in np.ndindex(lse.shape):
    columns = [c for c in range(keys.shape[1]) if 0 <= positions[s, n] - c < window]
    scores = keys[s, columns, k // share] @ query[s, n, k]
    scores = softcap * np.tanh(scores / softcap) if softcap else scores
    if columns:
      lse[s, n, k] = np.log(np.sum(np.exp(scores)))
      out[s, n, k] = np.exp(scores - lse[s, n, k]) @ values[s, columns, k // share]
  return out, lse


@pytest.mark.parametrize(('window', 'softcap'), [(EVERYTHING, 0.0), (4, 1.5)])
def test_reference_by_hand(window, softcap):
  *args, positions = arguments(queries=2)
  plain = lambda query, *past: attend_reference(query, stretches(*past, window, None), softcap=softcap)
  expected = by_hand(*args, positions, window, softcap)
  assert_same(jax.jit(plain)(*args, positions), expected, 1e-5)


CASES = {
    'plain': ({}, 8, EVERYTHING, 0.0),
    'block_divides': ({'columns': 24}, 8, EVERYTHING, 0.0),
    'blocks_of_one': ({'columns': 5}, 1, EVERYTHING, 0.0),
    'window': ({}, 4, 6, 0.0),
    'window_of_one': ({}, 64, 1, 0.0),
    'traced_window': ({}, 4, jnp.int32(6), 0.0),
    'softcap': ({}, 8, EVERYTHING, 1.5),
    'several_queries_in_a_window': ({'queries': 3}, 5, 4, 0.7),
    'own_heads': ({'heads': 3, 'kv_heads': 3}, 8, EVERYTHING, 0.0),
    'one_kv_head': ({'heads': 4, 'kv_heads': 1}, 8, EVERYTHING, 0.0),
    'one_row': ({'rows': 1, 'columns': 1}, 8, EVERYTHING, 0.0),
}


SWEEP = [
    *((name, jnp.float32, False) for name in CASES),
    *((name, jnp.float32, True) for name in ('several_queries_in_a_window', 'one_kv_head')),
    *((name, jnp.bfloat16, True) for name in ('block_divides', 'traced_window', 'softcap')),
    ('own_heads', jnp.bfloat16, False),
]


AT_ONCE = [
    ('plain', jnp.float32, False), ('several_queries_in_a_window', jnp.float32, True),
    ('traced_window', jnp.bfloat16, True),
]


@pytest.mark.parametrize(('name', 'dtype', 'with_prefix'), cases(SWEEP, at_once=AT_ONCE))
def test_blockwise_is_the_reference(name, dtype, with_prefix):
  changes, block, window, softcap = CASES[name]
  query, keys, values, positions = arguments(**changes, dtype=dtype)
  prefix = None
  if with_prefix:
    rows = np.arange(query.shape[0]) % 2
    prefix = prefix_of(keys, lengths=[3, 11], rows=rows, columns=11)
    positions += prefix.lengths[prefix.rows][:, None]

  @jax.jit
  def both(query, keys, values, positions, window, prefix):
    parts = stretches(keys, values, positions, window, prefix)
    plain = attend_reference(query, parts, softcap=softcap)
    return attend_blockwise(query, parts, softcap=softcap, block=block), plain

  ours, theirs = both(query, keys, values, positions, window, prefix)
  assert ours[0].dtype == dtype and ours[1].dtype == jnp.float32
  assert_same(ours, theirs, TOLERANCE[dtype])


@pytest.mark.parametrize('implementation', ['reference', 'blockwise'])
def test_a_prefix_is_the_beginning_of_a_longer_cache(implementation):
  query, keys, values, positions = arguments(rows=3, queries=2)
  prefix = prefix_of(keys, lengths=[4, 7], rows=[1, 0, 1], columns=9)
  whole = []
  for row, which in enumerate([1, 0, 1]):
    length = int(prefix.lengths[which])
    join = lambda bank, cache: np.concatenate([bank[which, :length], cache[row]])[: keys.shape[1]]
    whole.append([join(prefix.keys, keys), join(prefix.values, values)])
  whole_keys, whole_values = (np.stack(x) for x in zip(*whole, strict=True))
  positions = jnp.array([[8, 9], [3, 4], [6, 7]], jnp.int32)  # behind, at and across the end of the prefix
  options = {'scale': 0.3, 'softcap': 0.0, 'window': 6, 'implementation': implementation}
  run = jax.jit(functools.partial(attend, **options))
  ours = run(query, keys, values, positions, prefix=prefix)
  assert_same(ours, run(query, whole_keys, whole_values, positions), 1e-5)


@pytest.mark.parametrize('implementation', ['reference', 'blockwise'])
def test_a_query_that_sees_nothing(implementation):
  query, keys, values, _ = arguments(rows=2)
  options = {'scale': 1.0, 'softcap': 0.0, 'window': EVERYTHING, 'implementation': implementation}
  out, lse = jax.jit(functools.partial(attend, **options))(query, keys, values, jnp.array([[-1], [2]]))
  assert (out[0] == 0).all() and (lse[0] == -jnp.inf).all()
  assert np.isfinite(out[1]).all() and np.isfinite(lse[1]).all()


@pytest.mark.parametrize('with_prefix', [False, True], ids=['', 'prefix'])
@pytest.mark.parametrize('implementation', ['reference', 'blockwise'])
def test_nothing_in_dead_columns_matters(implementation, with_prefix, monkeypatch):
  """Not a bit of the result is another with zeros, garbage or NaN behind a row or before its window."""
  monkeypatch.setattr(module, 'BLOCK', 4)
  query, keys, values, _ = arguments(rows=3, queries=2)
  positions, window = jnp.array([[2, 3], [8, 9], [14, 15]], jnp.int32), 7
  prefix, start = None, 0
  if with_prefix:
    prefix = prefix_of(keys, lengths=[2, 5, 7], rows=[2, 1, 2], columns=9)
    start = jnp.array([7, 5, 7])[:, None]
  columns = start + jnp.arange(keys.shape[1])[None]
  dead = (columns > positions[:, 1:]) | (columns <= positions[:, :1] - window)
  fill = lambda x, dead, what: jnp.where(dead[..., None, None], what, x)
  dead_prefix = jnp.arange(9)[None] >= jnp.array([[0], [5], [7]])  # no row has the first

  @jax.jit
  def run(what):
    bank = prefix and prefix._replace(
        keys=fill(prefix.keys, dead_prefix, what), values=fill(prefix.values, dead_prefix, what)
    )
    options = {'scale': 0.5, 'softcap': 0.0, 'window': window, 'implementation': implementation}
    return attend(query, fill(keys, dead, what), fill(values, dead, what), positions, **options, prefix=bank)

  expected = run(0.0)
  assert np.isfinite(expected[0]).all()
  for what in (1e30, jnp.nan, jnp.inf):
    jax.tree.map(np.testing.assert_array_equal, run(what), expected)


@pytest.mark.parametrize(
    ('positions', 'window', 'blocks'),
    [([3, 9], EVERYTHING, (0, 3)), ([9, 10], 3, (1, 3)), ([20, 0], 21, (0, 6)), ([-1, -1], 9, (0, 0))],
)
def test_dead_blocks_are_not_read(monkeypatch, positions, window, blocks):
  """The loop goes over the blocks, of four columns, that some row sees."""
  query, keys, values, _ = arguments(rows=2)
  parts = stretches(keys, values, jnp.array(positions)[:, None], window, None)
  loops = []
  spy = lambda lower, upper, body, start: (loops.append((int(lower), int(upper))), start)[1]
  monkeypatch.setattr(jax.lax, 'fori_loop', spy)
  attend_blockwise(query, parts, softcap=0.0, block=4)
  assert loops == [blocks]


def test_the_bits_of_a_row_do_not_depend_on_the_others(monkeypatch):
  monkeypatch.setattr(module, 'BLOCK', 4)
  query, keys, values, _ = arguments(rows=2)
  run = jax.jit(functools.partial(attend, scale=0.5, softcap=0.0, window=7, implementation='blockwise'))
  results = [run(query, keys, values, jnp.array([[9], [other]])) for other in (0, 8, 20)]
  for out, lse in results[1:]:
    np.testing.assert_array_equal(out[0], results[0][0][0])
    np.testing.assert_array_equal(lse[0], results[0][1][0])


def test_a_population_has_members_of_different_lengths(monkeypatch):
  monkeypatch.setattr(module, 'BLOCK', 4)
  query, keys, values, _ = arguments(rows=2)
  stack = lambda x: jnp.stack([x, -x, 2 * x])
  positions = jnp.array([[[3], [1]], [[19], [7]], [[-1], [-1]]], jnp.int32)
  run = functools.partial(attend, scale=0.5, softcap=0.0, window=9, implementation='blockwise')
  population = stack(query), stack(keys), stack(values), positions
  together, alone = jax.jit(jax.vmap(run))(*population), jax.jit(run)
  for i in range(3):
    assert_same([x[i] for x in together], alone(*(x[i] for x in population)), 1e-6)
  shared = jax.jit(jax.vmap(run, in_axes=(0, None, None, None)))(population[0], keys, values, positions[1])
  assert_same([x[1] for x in shared], alone(population[0][1], keys, values, positions[1]), 1e-6)


def test_in_a_loop_that_writes_the_cache(monkeypatch):
  """A row that grows token by token attends as one that is read at once."""
  monkeypatch.setattr(module, 'BLOCK', 3)
  length = 8
  queries, keys, values, _ = arguments(rows=2, queries=length, columns=length)
  options = {'scale': 0.5, 'softcap': 0.0, 'window': EVERYTHING, 'implementation': 'blockwise'}
  run = jax.jit(functools.partial(decode_attention, **options))

  def body(carry):
    t, cache_keys, cache_values, out = carry
    write = lambda x, new: jax.lax.dynamic_update_slice_in_dim(x, new, t, 1)
    row = lambda x: jax.lax.dynamic_slice_in_dim(x, t, 1, 1)
    cache_keys, cache_values = write(cache_keys, row(keys)), write(cache_values, row(values))
    new = run(row(queries), cache_keys, cache_values, jnp.full((2, 1), t))
    return t + 1, cache_keys, cache_values, write(out, new)

  empty = jnp.full_like(keys, jnp.nan)
  start = (jnp.int32(0), empty, empty, jnp.zeros_like(queries))
  out = jax.jit(lambda: jax.lax.while_loop(lambda carry: carry[0] < length, body, start))()[-1]
  positions = jnp.broadcast_to(jnp.arange(length)[None], (2, length))
  assert_same([out], [run(queries, keys, values, positions)], 1e-5)


def test_attention_to_parts_is_merged_into_attention_to_the_whole():
  query, keys, values, positions = arguments()
  part = stretches(keys, values, positions, EVERYTHING, None)[0]
  cuts = [0, 5, 6, 21, 21]
  pieces = [
      part._replace(first=jnp.clip(part.first, a, b), last=jnp.clip(part.last, a, b))
      for a, b in zip(cuts, cuts[1:], strict=False)
  ]
  plain = jax.jit(lambda part: attend_reference(query, [part], softcap=0.0))
  outs, lses = zip(*map(plain, pieces), strict=True)
  assert_same(merge(jnp.stack(outs), jnp.stack(lses), axis=0), plain(part), 1e-6)


# --- the kernel for GPUs, interpreted ---------------------------------------------------------------------

@pytest.fixture(scope='module')
def attend_interpreted():
  """The interpreter has no public name yet."""
  params = pytest.importorskip('jax._src.pallas.mosaic_gpu.interpret.params')
  return functools.partial(attend_mosaic, interpret=params.InterpretGPUParams())


SPLIT_CASES = {
    'splits_do_not_divide': ({'queries': 2}, 3, 250, 1.5, False),
    'prefix': ({'heads': 6, 'queries': 3}, 1, 200, 0.0, True),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', SPLIT_CASES)
def test_mosaic_is_the_reference_when_interpreted(attend_interpreted, name):
  """Rows of no, one and many live blocks, NaN wherever nothing is seen."""
  changes, splits, window, softcap, with_prefix = SPLIT_CASES[name]
  query, keys, values, _ = arguments(**changes, rows=3, columns=320, size=64, dtype=jnp.bfloat16)
  length = query.shape[1]
  positions = jnp.array([[-length], [40], [300]]) + jnp.arange(length)[None]
  prefix = None
  if with_prefix:
    prefix = prefix_of(keys, lengths=[128, 70], rows=[1, 0, 1], columns=128)
    positions += prefix.lengths[prefix.rows][:, None]
  query *= jnp.asarray(0.125, query.dtype)

  def run(attend, what):
    parts = stretches(keys, values, positions, window, prefix)
    live = [part.seen_by_any(jnp.arange(part.keys.shape[1])) for part in parts]
    if with_prefix:  # the bank has fewer rows: what no row of queries sees
      live[0] = jnp.stack([live[0][1], live[0][0] | live[0][2]])
    dirty = [
        part._replace(keys=fill(part.keys, seen, what), values=fill(part.values, seen, what))
        for part, seen in zip(parts, live, strict=True)
    ]
    return attend(query, dirty, softcap=softcap)

  fill = lambda x, seen, what: jnp.where(seen[..., None, None], x, what)
  interpreted = jax.jit(functools.partial(run, functools.partial(attend_interpreted, splits=splits)))
  out, lse = interpreted(jnp.bfloat16(jnp.nan))
  assert out.dtype == jnp.bfloat16 and lse.dtype == jnp.float32
  expected = jax.jit(functools.partial(run, attend_reference))(0)
  assert_same((out, lse), expected, 2e-2)
  assert_same([lse], [expected[1]], 1e-4)


@pytest.mark.slow
def test_the_bits_of_a_row_do_not_depend_on_the_others_when_interpreted(attend_interpreted):
  query, keys, values, _ = arguments(rows=2, columns=192, size=64, dtype=jnp.bfloat16)

  @jax.jit
  def run(other):
    parts = stretches(keys, values, jnp.stack([jnp.full(1, 150), jnp.full(1, other)]), EVERYTHING, None)
    return [x[0] for x in attend_interpreted(query, parts, softcap=0.0, splits=2)]

  jax.tree.map(np.testing.assert_array_equal, run(20), run(191))


@pytest.mark.parametrize(('size', 'queries', 'softcap'), [(64, 1, 0.0), (128, 3, 30.0)])
def test_mosaic_lowers_to_gpu_code(size, queries, softcap):
  """What the interpreter lets pass, e.g. a layout that does not fit, is refused here; no GPU is needed."""
  query, keys, values, positions = arguments(
      queries=queries, columns=128, size=size, heads=8, dtype=jnp.bfloat16
  )
  prefix = prefix_of(keys, lengths=[64, 70], rows=[0, 1, 1], columns=128)
  run = lambda *args: attend_mosaic(args[0], stretches(*args[1:], 100, prefix), softcap=softcap)
  lowered = jax.jit(run).trace(query, keys, values, positions).lower(lowering_platforms=('cuda',))
  assert lowered.as_text().count('mosaic_gpu') >= 2  # the prefix and the cache


# --- what cannot run --------------------------------------------------------------------------------------

OPTIONS = {'scale': 0.5, 'softcap': 0.0, 'window': EVERYTHING}


@pytest.mark.parametrize(
    ('implementation', 'reason'),
    [
        ('cudnn', 'this is cpu'),
        ('tokamax', 'tokamax is not installed'),
        ('mosaic', 'this is cpu'),
        ('fast', 'not one of'),
    ],
)
def test_what_is_not_here_is_refused(implementation, reason):
  with pytest.raises(ValueError, match=reason):
    decode_attention(*arguments(dtype=jnp.bfloat16), **OPTIONS, implementation=implementation)


def test_attend_has_no_implementation_without_a_log_sum_exp():
  with pytest.raises(ValueError, match="'cudnn' is not one of"):
    attend(*arguments(dtype=jnp.bfloat16), **OPTIONS, implementation='cudnn')


def test_auto_is_blockwise():
  args = arguments()
  run = lambda name: jax.jit(functools.partial(decode_attention, **OPTIONS, implementation=name))(*args)
  np.testing.assert_array_equal(run('auto'), run('blockwise'))


@pytest.fixture
def on_a_gpu(monkeypatch):
  """Pretends that there is one, and computes what cuDNN and tokamax are asked for."""
  plain, asked = jax.nn.dot_product_attention, []

  def compute(query, keys, values, *, implementation='tokamax', logits_soft_cap=None, **options):
    asked.append((implementation, logits_soft_cap))
    return plain(query, keys, values, **options)

  tokamax = types.ModuleType('tokamax')
  tokamax.__spec__ = importlib.machinery.ModuleSpec('tokamax', None)
  tokamax.dot_product_attention = compute
  monkeypatch.setattr(jax.nn, 'dot_product_attention', compute)
  monkeypatch.setitem(sys.modules, 'tokamax', tokamax)
  monkeypatch.setattr(switch, 'no_gpu', lambda capability: '')
  monkeypatch.setattr(switch, 'no_hopper', lambda: '')
  return asked


@pytest.mark.parametrize(
    ('changes', 'chosen'),
    [({}, 'mosaic'), ({'columns': 100}, 'reference'), ({'dtype': jnp.float32}, 'reference')],
    ids=['', 'columns', 'float32'],
)
def test_auto_is_the_fastest_of_a_gpu(on_a_gpu, monkeypatch, changes, chosen):
  monkeypatch.setattr(switch, 'device', lambda: switch.Device('gpu', 'NVIDIA H200', (9, 0)))
  asked = []

  def note(name, query, parts, softcap):
    asked.append(name)
    return attend_reference(query, parts, softcap=softcap)

  monkeypatch.setattr(module, '_ATTEND', {name: functools.partial(note, name) for name in module._ATTEND})
  args = arguments(**{'columns': 128, 'size': 64, 'dtype': jnp.bfloat16, **changes})
  for attends in (decode_attention, attend):
    attends(*args, **OPTIONS, implementation='auto')
  assert asked == [chosen] * 2


def test_on_a_mesh_mosaic_has_the_heads_of_its_device(on_a_gpu, monkeypatch):
  """The compiler cannot cut a kernel."""
  shapes = []

  def attend_own(query, parts, *, softcap):
    shapes.append((query.shape, *(part.keys.shape for part in parts)))
    return attend_reference(query, parts, softcap=softcap)

  monkeypatch.setattr(decode_attention_mosaic, 'attend_mosaic', attend_own)
  args = arguments(columns=128, size=64, dtype=jnp.bfloat16)
  prefix = prefix_of(args[1], lengths=[3, 64], rows=[0, 0, 1], columns=64)
  run = lambda name: jax.jit(functools.partial(attend, **OPTIONS, prefix=prefix, implementation=name))(*args)
  alone = run('reference')
  with jax.set_mesh(sharding.make_mesh(data=1, fsdp=1, tensor=2)):
    assert_same(run('mosaic'), alone, 2e-2)
  assert shapes == [((3, 1, 2, 64), (2, 64, 1, 64), (3, 128, 1, 64))]
  mesh = sharding.make_mesh(data=1, fsdp=1, tensor=4)
  with jax.set_mesh(mesh), pytest.raises(ValueError, match='4 devices of tensor do not divide 2 kv heads'):
    decode_attention(*args, **OPTIONS, implementation='mosaic')
  mesh = sharding.make_mesh(data=2, fsdp=1, tensor=1)
  with jax.set_mesh(mesh), pytest.raises(ValueError, match='rows are split over data'):
    decode_attention(*args, **OPTIONS, implementation='mosaic')


@pytest.mark.parametrize('implementation', ['cudnn', 'tokamax'])
def test_what_the_fused_ones_are_asked_for(on_a_gpu, implementation):
  args = arguments(dtype=jnp.bfloat16)
  args = (*args[:3], args[3].at[0].set(-1))
  run = lambda name: jax.jit(functools.partial(decode_attention, **OPTIONS, implementation=name))(*args)
  assert_same([run(implementation)], [run('reference')], 2e-2)
  assert on_a_gpu == [(implementation, None)]
  decode_attention(*args, **{**OPTIONS, 'softcap': 2.0}, implementation='tokamax')
  assert on_a_gpu[-1] == ('tokamax', 2.0)


@pytest.mark.parametrize('implementation', ['cudnn', 'tokamax'])
def test_what_the_fused_ones_do_not_have_is_refused(on_a_gpu, implementation):
  args = arguments(dtype=jnp.bfloat16)
  run = functools.partial(decode_attention, implementation=implementation)
  with pytest.raises(ValueError, match='no window, and window=20 is below the 21 columns'):
    run(*args, **{**OPTIONS, 'window': 20})
  with pytest.raises(ValueError, match='no window, and this one is a traced number'):
    jax.jit(lambda window: run(*args, **{**OPTIONS, 'window': window}))(EVERYTHING)
  with pytest.raises(ValueError, match='no shared prefix'):
    run(*args, **OPTIONS, prefix=prefix_of(args[1], lengths=[1], rows=[0, 0, 0], columns=2))
  with pytest.raises(ValueError, match='2 queries a row'):
    run(*arguments(queries=2, dtype=jnp.bfloat16), **OPTIONS)
  if implementation == 'cudnn':
    with pytest.raises(ValueError, match=r'no softcap \(2.0\)'):
      run(*args, **{**OPTIONS, 'softcap': 2.0})
  assert not on_a_gpu


@pytest.mark.parametrize(
    ('changes', 'reason'),
    [
        ({'dtype': jnp.float32}, 'float32 queries'),
        ({'size': 72}, 'head size 72'),
        ({'columns': 100}, r'\[100\] columns'),
        ({'heads': 34, 'queries': 4}, '68 queries share a kv head'),
    ],
    ids=['dtype', 'size', 'columns', 'queries'],
)
def test_what_mosaic_does_not_have_is_refused(on_a_gpu, changes, reason):
  args = arguments(**{'columns': 128, 'size': 64, 'dtype': jnp.bfloat16, **changes})
  with pytest.raises(ValueError, match=reason):
    decode_attention(*args, **OPTIONS, implementation='mosaic')


def test_mosaic_is_handed_scaled_queries_and_what_they_see(on_a_gpu, monkeypatch):
  monkeypatch.setattr(decode_attention_mosaic, 'attend_mosaic', attend_reference)
  args = arguments(rows=1, columns=64, size=64, dtype=jnp.bfloat16)
  run = lambda name: jax.jit(functools.partial(decode_attention, **OPTIONS, implementation=name))(*args)
  np.testing.assert_array_equal(run('mosaic'), run('reference'))


def test_heads_that_cannot_be_shared_are_refused():
  with pytest.raises(ValueError, match='2 kv heads do not divide 3 query heads'):
    decode_attention(*arguments(heads=3), **OPTIONS, implementation='auto')
