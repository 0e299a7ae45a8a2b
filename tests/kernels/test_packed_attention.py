"""Blocks of queries and keys say what a mask over all pairs says, both ways, in a fraction of its room."""

import functools
import importlib.machinery
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import sharding
from rlx.kernels import packed_attention as module
from rlx.kernels import packed_attention_triton, switch
from rlx.kernels.packed_attention import attend_packed_blockwise, packed_attention
from rlx.kernels.packed_attention_reference import Sight, attend_packed_reference
from rlx.kernels.packed_attention_splash import attend_packed_splash
from rlx.kernels.packed_attention_triton import attend_packed_triton, visible
from tests.cases import cases

EVERYTHING = 10**6
OPTIONS = {'scale': 0.5, 'softcap': 0.0, 'window': EVERYTHING}


def layout(length, segments):
  """What the tokens of one row see; `segments` are (prompt length, completion lengths), the rest padding."""
  fields, column = [], 0
  for prompt, completions in segments:
    start, end = column, column + prompt
    fields += [(c, c - start, start, end, start) for c in range(start, end)]
    column = end
    for size in completions:
      fields += [(column + i, prompt + i, start, end, column) for i in range(size)]
      column += size
  fields += [(c, 0, c + 1, 0, c + 1) for c in range(column, length)]
  return np.array(fields, np.int32).T.reshape(5, length)


def sight(length, *rows):
  return Sight(*jnp.array(np.stack([layout(length, segments) for segments in rows], axis=1)))


def fields(own):
  """What a caller of `packed_attention` says; it counts the columns itself."""
  return {name: x for name, x in own._asdict().items() if name != 'columns'}


def unshared(own):
  """The same for rows of which it is known that nothing is shared."""
  return own._replace(shared_ends=None, own_starts=own.starts)


def vectors(length, rows=2, heads=4, kv_heads=2, size=8, dtype=jnp.float32):
  rng = np.random.default_rng(length)
  normal = lambda heads: jnp.array(rng.normal(size=(rows, length, heads, size)), dtype)
  return normal(heads), normal(kv_heads), normal(kv_heads)


@functools.partial(jax.jit, static_argnums=0)
def with_gradient(attend, vectors, *args):
  """What is attended to, and the gradient of a sum that weighs every one of its entries differently."""

  def total(vectors):
    out = attend(*vectors, *args)
    return jnp.sum(jnp.cos(jnp.arange(out.size)).reshape(out.shape) * out.astype(jnp.float32)), out

  gradients, out = jax.grad(total, has_aux=True)(vectors)
  return out, gradients


def assert_same(ours, theirs, tolerance):
  for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
    x, y = (np.asarray(z, np.float32) for z in (x, y))
    assert np.isfinite(x).all()
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * max(1, np.abs(y).max()))


def test_reference_by_hand():
  """One query and head at a time, over the keys that a list comprehension finds."""
  query, keys, values = vectors(9, rows=1)
  own = sight(9, [(2, (3, 2))])
  out = jax.jit(functools.partial(attend_packed_reference, window=4, softcap=1.5))(query, keys, values, own)
  # Columns 0 and 1 are the prompt, 2 to 4 one completion at positions 2 to 4, 5 and 6 another at 2 and 3.
  seen = {0: [0], 1: [0, 1], 2: [0, 1, 2], 3: [0, 1, 2, 3], 4: [1, 2, 3, 4], 5: [0, 1, 5], 6: [0, 1, 5, 6]}
  for column, head in np.ndindex(9, 4):
    expected = np.zeros(8)
    if column in seen:
      scores = np.asarray(keys)[0, seen[column], head // 2] @ np.asarray(query)[0, column, head]
      weights = np.exp(1.5 * np.tanh(scores / 1.5))
      expected = weights / weights.sum() @ np.asarray(values)[0, seen[column], head // 2]
    np.testing.assert_allclose(out[0, column, head], expected, rtol=1e-5, atol=1e-6)


SHARED, ALONE = [(5, (7, 3, 4)), (6, (5,))], [(20, ()), (13, ())]
CASES = {
    'shared': ({}, 37, (SHARED, ALONE), 8, EVERYTHING, 0.0),
    'one_block': ({}, 37, (SHARED, ALONE), 64, EVERYTHING, 0.0),
    'own_heads_softcap': ({'kv_heads': 4}, 37, (SHARED, ALONE), 8, EVERYTHING, 1.5),
    'one_kv_head_window': ({'kv_heads': 1}, 37, (SHARED, ALONE), 8, 6, 0.0),
    'block_divides_traced_window_softcap': ({}, 40, (SHARED, ALONE), 8, jnp.int32(4), 1.5),
    'a_row_of_padding': ({}, 20, ([(3, ())], []), 8, EVERYTHING, 0.0),
    'bfloat16': ({'dtype': jnp.bfloat16}, 37, (SHARED, ALONE), 8, EVERYTHING, 0.0),
}


@pytest.mark.parametrize('name', cases(CASES, at_once=('shared', 'own_heads_softcap', 'a_row_of_padding')))
def test_blockwise_is_the_reference(name):
  changes, length, rows, block, window, softcap = CASES[name]
  args = vectors(length, **changes)
  tolerance = 2e-2 if args[0].dtype == jnp.bfloat16 else 1e-5
  ways = (
      functools.partial(attend_packed_blockwise, softcap=softcap, block=block),
      functools.partial(attend_packed_reference, softcap=softcap),
  )
  ours, theirs = (with_gradient(way, args, sight(length, *rows), window) for way in ways)
  assert all(x.dtype == args[0].dtype for x in jax.tree.leaves(ours))
  assert_same(ours, theirs, tolerance)


TRITON = ('shared', 'own_heads_softcap', 'one_kv_head_window', 'a_row_of_padding', 'bfloat16')


@pytest.mark.parametrize('name', cases(TRITON, at_once=('one_kv_head_window',)))
def test_triton_is_the_reference_when_interpreted(name):
  changes, length, rows, _, window, softcap = CASES[name]
  args, own = vectors(length, **changes), sight(length, *rows)
  ours, theirs = (
      with_gradient(functools.partial(way, softcap=softcap), args, own, window)
      for way in (functools.partial(attend_packed_triton, interpret=True), attend_packed_reference)
  )
  assert all(x.dtype == args[0].dtype for x in jax.tree.leaves(ours))
  assert_same(ours, theirs, 2e-2 if args[0].dtype == jnp.bfloat16 else 1e-5)


@pytest.mark.slow
def test_triton_in_several_blocks_and_heads_that_are_no_power_of_two():
  rows = [(40, (130, 60, 7)), (30, (50,))], [(300, ())]
  args = vectors(330, size=24)
  plain = unshared(sight(330, [(200, ()), (100, ())], []))
  for own, window in ((sight(330, *rows), EVERYTHING), (plain, EVERYTHING), (plain, 40)):
    ways = (functools.partial(attend_packed_triton, interpret=True), attend_packed_reference)
    ours, theirs = (with_gradient(functools.partial(way, softcap=0.0), args, own, window) for way in ways)
    assert_same(ours, theirs, 1e-5)


@pytest.mark.slow
def test_triton_of_a_population_is_that_of_each_member():
  args, own = vectors(20, rows=4), sight(20, SHARED[:1], ALONE[1:], [], [(9, (5,))])
  members = lambda tree: jax.tree.map(lambda x: x.reshape(2, 2, *x.shape[1:]), tree)
  attend = functools.partial(attend_packed_triton, softcap=0.0, interpret=True)
  one = lambda args, own: with_gradient(attend, args, own, EVERYTHING)
  together, gradients = jax.vmap(one)(members(args), members(own))
  alone, _ = with_gradient(attend, args, own, EVERYTHING)
  np.testing.assert_allclose(together.reshape(alone.shape), alone, rtol=1e-5, atol=1e-6)
  assert all(np.isfinite(x).all() for x in gradients)


@pytest.mark.parametrize('window, too_many', [(EVERYTHING, 4), (40, 20)])
def test_blocks_that_are_listed_hold_all_that_is_seen_and_leave_out_what_is_not(window, too_many):
  own = sight(192, [(20, (60, 60, 40))], [(50, ()), (90, (30,))])
  mask = np.asarray(own.sees(own.columns, own.positions, window))
  seen = mask.reshape(2, 12, 16, 24, 8).any(axis=(2, 4))
  listed = np.asarray(visible(own, jnp.full((2, 1), window), 16, 8))
  assert listed[seen].all()
  assert listed.sum() <= seen.sum() + too_many


def test_of_one_sequence_the_window_leaves_out_all_blocks_that_it_hides():
  own = sight(192, [(192, ())])
  mask = np.asarray(own.sees(own.columns, own.positions, 40))
  seen = mask.reshape(1, 12, 16, 24, 8).any(axis=(2, 4))
  np.testing.assert_array_equal(visible(own, jnp.full((1, 1), 40), 16, 8), seen)


SPLASH = {
    'plain': ({}, 37, (ALONE, [(30, ())]), 0.0),
    'softcap_two_blocks': ({'kv_heads': 1}, 260, ([(200, ()), (40, ())], [(259, ())]), 1.5),
    'own_heads_bfloat16': ({'kv_heads': 4, 'dtype': jnp.bfloat16}, 128, (ALONE, []), 0.0),
}


@pytest.mark.parametrize('name', cases(SPLASH, at_once=('plain',)))
def test_splash_is_the_reference_when_interpreted(name):
  changes, length, rows, softcap = SPLASH[name]
  args, own = vectors(length, size=128, **changes), unshared(sight(length, *rows))
  ours = with_gradient(functools.partial(attend_packed_splash, softcap=softcap, interpret=True), args, own)
  plain = functools.partial(attend_packed_reference, window=EVERYTHING, softcap=softcap)
  assert all(x.dtype == args[0].dtype for x in jax.tree.leaves(ours))
  assert_same(ours, with_gradient(plain, args, own), 2e-2 if args[0].dtype == jnp.bfloat16 else 1e-5)


@pytest.mark.parametrize('way', ['reference', 'blockwise'])
def test_it_is_the_same_when_it_is_known_that_nothing_is_shared(way):
  args, own = vectors(37), sight(37, ALONE, [(30, ())])
  attend = functools.partial(packed_attention, **OPTIONS, implementation=way)
  known, unknown = (with_gradient(lambda q, k, v, own: attend(q, k, v, **fields(own)), args, x)
                    for x in (unshared(own), own))
  assert_same(known, unknown, 0)


@pytest.mark.slow
@pytest.mark.parametrize('name', ['splash', 'triton'])
def test_on_a_mesh_devices_have_their_own_heads_and_rows(name):
  """As the compiler cannot cut a kernel; what does not divide is computed by all."""
  args, own = vectors(20, heads=8, kv_heads=4, size=128), unshared(sight(20, ALONE[:1], [(9, ())]))
  kernel, window = (attend_packed_splash, ()) if name == 'splash' else (attend_packed_triton, (EVERYTHING,))
  attend = functools.partial(kernel, softcap=0.0, interpret=True)
  alone = with_gradient(attend, args, own, *window)
  for sizes in ({'data': 2, 'fsdp': 1, 'tensor': 4}, {'data': 4, 'fsdp': 1, 'tensor': 2}):
    with jax.set_mesh(sharding.make_mesh(**sizes)):
      assert_same(with_gradient(attend, args, own, *window), alone, 1e-5)


@pytest.mark.parametrize('implementation', ['reference', 'blockwise'])
def test_padding_sees_nothing_and_has_no_gradient(implementation):
  args, own = vectors(20, rows=1), sight(20, [(4, (3, 2))])
  attend = functools.partial(packed_attention, **OPTIONS, implementation=implementation)
  out, gradients = with_gradient(lambda q, k, v, own: attend(q, k, v, **fields(own)), args, own)
  for x in (out, *gradients):
    assert np.isfinite(x).all() and (x[:, 9:] == 0).all() and (x[:, :9] != 0).any()


@pytest.mark.parametrize('implementation', ['reference', 'blockwise'])
def test_who_sees_whom(implementation, monkeypatch):
  """The gradient of a token of the second completion reaches the prompt and itself, not the first."""
  monkeypatch.setitem(module.BLOCK, 'cpu', 4)
  query, keys, values = vectors(16, rows=1)
  own = sight(16, [(3, (4, 3)), (2, (3,))])
  attend = functools.partial(packed_attention, **fields(own), **OPTIONS, implementation=implementation)
  gradient = jax.jit(jax.grad(lambda values, column: attend(query, keys, values)[0, column].sum()))
  reached = lambda column: np.flatnonzero(np.abs(gradient(values, column)[0]).sum(axis=(1, 2))).tolist()
  assert reached(2) == [0, 1, 2]
  assert reached(5) == [0, 1, 2, 3, 4, 5]
  assert reached(8) == [0, 1, 2, 7, 8]
  assert reached(13) == [10, 11, 12, 13]
  assert reached(15) == []


def test_a_packed_group_is_its_sequences_one_by_one():
  """Sharing a prompt changes nothing, nor does it change the prompt's gradient summed over the copies."""
  (prompt, completions), size = (5, (4, 6)), 8
  query, keys, values = vectors(prompt + sum(completions), rows=1, size=size)
  attend = functools.partial(attend_packed_blockwise, softcap=0.0, block=4)
  packed = lambda v: attend(query, keys, v, sight(15, [(prompt, completions)]), EVERYTHING)
  columns = [np.r_[0:5, 5:9], np.r_[0:5, 9:15]]

  def one_by_one(v):
    parts = []
    for own in columns:
      alone = sight(len(own), [(len(own), ())])
      parts.append(attend(query[:, own], keys[:, own], v[:, own], alone, EVERYTHING))
    return jnp.concatenate([parts[0], parts[1][:, prompt:]], axis=1)

  both = lambda f: jax.jit(jax.grad(lambda v: (jnp.sum(jnp.square(f(v))), f(v)), has_aux=True))(values)
  assert_same(both(packed), both(one_by_one), 1e-5)


@pytest.mark.slow
def test_a_population_under_checkpoint_and_scan():
  """As layers of a model run: a scan over recomputed steps, mapped over members with rows of their own."""
  own = jax.tree.map(lambda *x: jnp.stack(x), sight(12, [(3, (4, 2))]), sight(12, [(10, ())]))
  args = [jnp.stack([x, -x]) for x in vectors(12, rows=1)]

  def run(attend, query, keys, values, own):

    @jax.checkpoint
    def layer(x, window):
      return x + attend(x, keys, values, own, window, softcap=0.0), None

    return jax.lax.scan(layer, query, jnp.array([EVERYTHING, 3]))[0]

  ways = functools.partial(attend_packed_blockwise, block=5), attend_packed_reference
  ours, theirs = (with_gradient(jax.vmap(functools.partial(run, way)), tuple(args), own) for way in ways)
  assert_same(ours, theirs, 1e-5)


def test_pairs_of_blocks_that_do_not_see_each_other_are_passed_over(monkeypatch):
  """Two rows of two sequences, eight blocks: of 36 pairs at or below the diagonal, 20 see anything."""
  taken, scores = [], module._scores
  monkeypatch.setattr(
      module, '_scores', lambda *args: (jax.debug.callback(lambda: taken.append(1)), scores(*args))[1]
  )
  rows = sight(32, [(16, ()), (16, ())], [(16, ()), (16, ())])
  attend = functools.partial(attend_packed_blockwise, softcap=0.0, block=4)
  jax.block_until_ready(jax.jit(attend)(*vectors(32), rows, EVERYTHING))
  jax.effects_barrier()
  assert len(taken) == 20


def test_room():
  """Of 2,048 columns the scores alone are 64 MiB for four heads, and the reference holds them."""
  args, own = vectors(2048, rows=1, size=32), sight(2048, [(2048, ())])

  def room(attend):
    compiled = jax.jit(functools.partial(with_gradient, attend)).lower(args, own, EVERYTHING).compile()
    return compiled.memory_analysis().temp_size_in_bytes / 2**20

  blockwise = functools.partial(attend_packed_blockwise, softcap=0.0, block=module.BLOCK['cpu'])
  assert room(functools.partial(attend_packed_reference, softcap=0.0)) > 128
  assert room(blockwise) < 12


# --- what cannot run --------------------------------------------------------------------------------------


def run(implementation, length=12, dtype=jnp.bfloat16, size=8, **changes):
  options = {**fields(sight(length, [(3, (4, 2))])), **OPTIONS, **changes, 'implementation': implementation}
  args = vectors(length, rows=1, dtype=dtype, size=size)
  return jax.jit(functools.partial(packed_attention, **options))(*args)


@pytest.mark.parametrize(
    ('implementation', 'reason'),
    [
        ('cudnn', 'this is cpu'), ('tokamax', 'tokamax is not installed'), ('splash', 'this is cpu'),
        ('fast', 'not one of'),
    ],
)
def test_what_is_not_here_is_refused(implementation, reason):
  with pytest.raises(ValueError, match=reason):
    run(implementation)


def test_auto_is_blockwise():
  np.testing.assert_array_equal(run('auto'), run('blockwise'))


@pytest.mark.parametrize(
    ('changes', 'chosen'),
    [({}, 'triton'), ({'dtype': jnp.float32}, 'blockwise'), ({'size': 264}, 'blockwise')],
    ids=['', 'float32', 'large heads'],
)
def test_auto_is_triton_where_it_runs_on_a_gpu(monkeypatch, changes, chosen):
  monkeypatch.setattr(switch, 'no_gpu', lambda capability: '')
  asked, blockwise = [], module.attend_packed_blockwise

  def note(name, attend, *args, **how):
    asked.append(name)
    return attend(*args, **how)

  interpreted = functools.partial(note, 'triton', attend_packed_triton, interpret=True)
  monkeypatch.setattr(packed_attention_triton, 'attend_packed_triton', interpreted)
  monkeypatch.setattr(module, 'attend_packed_blockwise', functools.partial(note, 'blockwise', blockwise))
  changes = {'dtype': jnp.bfloat16, 'length': 12, **changes}
  assert_same(run('auto', **changes), run('reference', **changes), 2e-2)
  assert asked == [chosen]


def test_devices_that_would_compute_the_heads_of_others_take_blocks(monkeypatch):
  monkeypatch.setattr(switch, 'no_gpu', lambda capability: '')
  with jax.set_mesh(sharding.make_mesh(data=1, fsdp=1, tensor=4)):
    with pytest.raises(ValueError, match='4 devices of tensor do not divide 2 kv heads'):
      run('triton')
    np.testing.assert_array_equal(run('auto'), run('blockwise'))


def test_a_jax_without_triton_is_told(monkeypatch):
  monkeypatch.setattr(switch, 'no_gpu', lambda capability: '')
  monkeypatch.setattr(switch, 'no_module', lambda name: f'this jax has no {name}')
  with pytest.raises(ValueError, match='this jax has no jax.experimental.pallas.triton'):
    run('triton', dtype=jnp.bfloat16)


@pytest.mark.parametrize('implementation', ['cudnn', 'tokamax'])
def test_what_the_fused_ones_are_asked_for(monkeypatch, implementation):
  """Pretends that they are there: what they are asked for is computed by the plain formula."""
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
  assert_same(run(implementation, window=4), run('reference', window=4), 2e-2)
  assert asked == [(implementation, None)]
  if implementation == 'tokamax':
    run('tokamax', softcap=2.0)
    assert asked[-1] == ('tokamax', 2.0)
    return
  for changes, reason in (
      ({'softcap': 2.0}, r'no softcap \(2.0\)'),
      ({'length': 13}, '13 columns'),
      ({'dtype': jnp.float32}, 'float32'),
  ):
    with pytest.raises(ValueError, match=reason):
      run('cudnn', **changes)


def test_what_splash_is_asked_for(monkeypatch):
  """Pretends that this is a TPU; what hides columns in other ways is refused."""
  monkeypatch.setattr(switch, 'no_tpu', lambda: '')
  for changes, reason in (({}, 'share a beginning'), ({'shared_ends': None, 'window': 4}, 'a window')):
    with pytest.raises(ValueError, match=reason):
      run('splash', **changes)


def test_heads_that_cannot_be_shared_are_refused():
  own = fields(sight(6, [(6, ())]))
  with pytest.raises(ValueError, match='2 kv heads do not divide 3 query heads'):
    packed_attention(*vectors(6, rows=1, heads=3), **own, **OPTIONS, implementation='auto')
