"""Checkpoints: bitwise round trips, and what happens to one that is damaged, interrupted or of another run.

The claim behind every test here: `restore` returns a state that was saved, bit for bit, or none at all.
"""

import errno
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import threading
import time
import types

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
import numpy as np
import orbax.checkpoint as ocp
import pytest

from rlx.run import checkpoint
from rlx.run.checkpoint import Checkpoints
from rlx.testing.damage import data_files, flip_bit
from rlx.types import State


def make_state(step):
  """A small state with every kind of leaf, a function of the step."""
  rng = np.random.default_rng(step)
  normal = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)
  key = jax.random.key(step)
  return State(
      step=jnp.int32(step),
      params={'policy': {'query': normal(8, 4, 3), 'embedding': normal(16, 8).astype(jnp.bfloat16)}},
      slow={'target': {'w': normal(5)}},
      opt_state=({'count': jnp.int32(step + 1)}, (), None, {'scale': normal()}),
      world={
          'done': jnp.asarray(rng.random(7) < 0.5),
          'cursor': jnp.asarray(rng.integers(0, 255, 3), jnp.uint8),
          'none_yet': jnp.zeros((0, 4)),
          'odd': jnp.array([-0.0, np.nan, np.inf, 1e-45], jnp.float32),
          'keys': jax.random.split(key, 8),
          'other_keys': jax.random.split(jax.random.key(step, impl='rbg'), 2),
      },
      key=key,
  )


# `make_state` draws with NumPy from a concrete step, so its abstract form is that of one example.
ABSTRACT = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), make_state(0))


def like(step, extra):
  del step
  return ABSTRACT


def bits(state):
  """Every leaf as (dtype, shape, bytes): what `restore` promises to give back."""
  data = lambda leaf: jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
  record = lambda leaf: (str(leaf.dtype), leaf.shape, np.asarray(data(leaf)).tobytes())
  return jax.tree.map(record, state)


def save_steps(directory, steps, keep=9):
  with Checkpoints(directory, keep=keep) as checkpoints:
    for step in steps:
      checkpoints.save(make_state(step), extra={'stage': 'sft', 'step': step})


def restore(directory, like=like, keep=9):
  """(state, extra, lines said), or (None, None, lines said)."""
  said = []
  with Checkpoints(directory, keep=keep) as checkpoints:
    restored = checkpoints.restore(like, said.append)
  return *(restored or (None, None)), said


@pytest.fixture(scope='module')
def three_steps(tmp_path_factory):
  directory = tmp_path_factory.mktemp('saved') / 'checkpoints'
  save_steps(directory, (10, 20, 30))
  return directory


@pytest.fixture
def run(three_steps, tmp_path):
  """A fresh copy of checkpoints of the steps 10, 20 and 30."""
  return shutil.copytree(three_steps, tmp_path / 'checkpoints')


# --- round trips --------------------------------------------------------------------------------------------


def test_round_trip_is_bitwise_and_keeps_types(tmp_path):
  save_steps(tmp_path, [3])
  state, extra, said = restore(tmp_path)
  assert bits(state) == bits(make_state(3))
  assert jax.tree.structure(state) == jax.tree.structure(make_state(3))
  assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))
  assert jax.random.key_impl(state.world['other_keys']) == 'rbg'
  assert extra == {'stage': 'sft', 'step': 3}
  assert said == ['resumed from step 3 (bitwise: same devices, cores and versions)']


def test_arrays_move_between_shardings(tmp_path):
  mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ('data', 'tensor'), axis_types=(AxisType.Auto,) * 2)
  specs = {(16, 8): ('data', 'tensor'), (8, 4, 3): ('tensor', 'data'), (8,): (('data', 'tensor'),)}
  sharding_of = lambda leaf: NamedSharding(mesh, PartitionSpec(*specs.get(leaf.shape, ())))

  sharded = jax.tree.map(lambda leaf: jax.device_put(leaf, sharding_of(leaf)), make_state(3))
  with Checkpoints(tmp_path, keep=1) as checkpoints:
    checkpoints.save(sharded, extra={})
  abstract = jax.tree.map(
      lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding_of(leaf)), ABSTRACT
  )
  assert bits(restore(tmp_path)[0]) == bits(make_state(3))
  with jax.set_mesh(mesh):
    state, _, _ = restore(tmp_path, like=lambda step, extra: abstract)
  assert bits(state) == bits(make_state(3))
  for leaf in jax.tree.leaves(state):
    assert leaf.sharding.is_equivalent_to(sharding_of(leaf), leaf.ndim)
  assert state.params['policy']['embedding'].addressable_shards[0].data.shape == (8, 2)
  assert state.world['keys'].addressable_shards[0].data.shape == (1,)


def test_a_population_is_saved_under_its_common_step(tmp_path):
  one = lambda step: State(step=step, params={'w': step * 2.0}, slow={}, opt_state=(), world={}, key=None)
  population = jax.vmap(one)(jnp.full(3, 7, jnp.int32))
  with Checkpoints(tmp_path, keep=1) as checkpoints:
    checkpoints.save(population, extra={})
    state, _ = checkpoints.restore(lambda step, extra: jax.eval_shape(lambda: population), print)
    assert bits(state) == bits(population)
    with pytest.raises(ValueError, match=r'different steps: \[0, 1, 2\]'):
      checkpoints.save(jax.vmap(one)(jnp.arange(3)), extra={})


def test_a_state_may_be_donated_as_soon_as_save_returns(tmp_path):
  overwrite = jax.jit(lambda state: jax.tree.map(lambda a: a * 0 - 7, state), donate_argnums=0)
  values = lambda step: {f'w{i}': jnp.full((64, 64), step + i, jnp.float32) for i in range(20)}
  with Checkpoints(tmp_path, keep=9) as checkpoints:
    for step in range(5):
      state = State(step=jnp.int32(step), params=values(step), slow={}, opt_state=(), world={}, key=None)
      abstract = jax.eval_shape(lambda: state)
      checkpoints.save(state, extra={})
      jax.block_until_ready(overwrite(state))
      assert state.params['w0'].is_deleted()
      restored, _ = checkpoints.restore(lambda step, extra: abstract, print)
      assert int(restored.step) == step
      assert bits(restored.params) == bits(values(step))


def test_no_room_is_noticed_before_anything_is_written(tmp_path, monkeypatch):
  free = lambda num_bytes: types.SimpleNamespace(free=num_bytes)
  with Checkpoints(tmp_path, keep=2) as checkpoints:
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: free(10))  # less than the first arrays
    monkeypatch.setattr(checkpoints, '_write_whole', None)
    checkpoints.save(make_state(1), extra={})
    with pytest.raises(OSError) as raised:
      checkpoints.wait()
    assert raised.value.errno == errno.ENOSPC
    monkeypatch.undo()
    checkpoints.save(make_state(2), extra={})
    checkpoints.wait()
    written = sum(path.stat().st_size for path in (tmp_path / '2').rglob('*') if path.is_file())
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: free(written - 1))
    checkpoints.save(make_state(3), extra={})
    with pytest.raises(OSError, match='No space left'):
      checkpoints.wait()
  assert [path.name for path in tmp_path.iterdir()] == ['2']


def test_extra_is_copied_when_save_is_called(tmp_path, monkeypatch):
  written = threading.Event()
  write = Checkpoints._write
  monkeypatch.setattr(Checkpoints, '_write', lambda *args: written.wait(10) and write(*args))
  with Checkpoints(tmp_path, keep=1) as checkpoints:
    extra = {'rows': (1, 2), 3: 'three'}
    checkpoints.save(make_state(1), extra=extra)
    extra['rows'] = 'changed'
    written.set()
    _, restored = checkpoints.restore(like, print)
    assert restored == {'rows': [1, 2], '3': 'three'}
    with pytest.raises(TypeError, match='not JSON serializable'):
      checkpoints.save(make_state(2), extra={'array': np.ones(2)})


def test_the_last_few_are_kept(tmp_path):
  save_steps(tmp_path, range(1, 7), keep=2)
  assert sorted(path.name for path in tmp_path.iterdir()) == ['5', '6']
  with pytest.raises(ValueError, match='keep=0'):
    Checkpoints(tmp_path, keep=0)


def test_two_arrays_with_one_path_are_refused(tmp_path):
  params = {'a/b': jnp.ones(2), 'a': {'b': jnp.zeros(2)}}
  state = State(step=jnp.int32(1), params=params, slow={}, opt_state=(), world={}, key=None)
  with Checkpoints(tmp_path, keep=1) as checkpoints, pytest.raises(ValueError, match='same path.*params/a/b'):
    checkpoints.save(state, extra={})


# --- a step that is already there ---------------------------------------------------------------------------


def test_saving_a_step_again_is_nothing_if_it_is_intact(run):
  before = {path: path.read_bytes() for path in data_files(run / '30')}
  save_steps(run, [30])
  assert before == {path: path.read_bytes() for path in data_files(run / '30')}
  assert not (run.parent / 'checkpoints.damaged').exists()


def test_saving_a_step_again_replaces_a_damaged_one(run):
  (run / '30' / 'manifest.json').unlink()
  save_steps(run, [30])
  assert (run.parent / 'checkpoints.damaged' / '30').is_dir()
  state, _, said = restore(run)
  assert bits(state) == bits(make_state(30)) and len(said) == 1


# --- damage -------------------------------------------------------------------------------------------------


def sign(step, manifest):
  """Makes a manifest and its digest agree with each other and with the files."""
  text = json.dumps(manifest | {'files': checkpoint._file_digests(step)}).encode()
  (step / 'manifest.json').write_bytes(text)
  (step / 'manifest.xxh3').write_text(checkpoint._digest(text))


def orbax_gives(step, path, change):
  """Sound files, of which orbax makes an array that is not the one that was saved."""
  with ocp.PyTreeCheckpointer() as checkpointer:
    arrays = checkpointer.restore(step / 'arrays')
    arrays[path] = change(arrays[path])
    checkpointer.save(step / 'arrays', arrays, force=True)
  sign(step, json.loads((step / 'manifest.json').read_text()))


def copy_manifest(old, new):
  for name in ('manifest.json', 'manifest.xxh3'):
    shutil.copy(old / name, new / name)


def edit_manifest(step):
  path = step / 'manifest.json'
  path.write_text(path.read_text().replace('"stage": "sft"', '"stage": "SFT"'))


DIGEST = r': digest [0-9a-f]{4}\.\. is not [0-9a-f]{4}\.\.'
DAMAGES = {
    'no manifest': (lambda step: (step / 'manifest.json').unlink(), 'manifest.json: No such file'),
    'no digest': (lambda step: (step / 'manifest.xxh3').unlink(), 'manifest.xxh3: No such file'),
    'no arrays': (lambda step: shutil.rmtree(step / 'arrays'), 'arrays/.* is missing'),
    'no files': (lambda step: (shutil.rmtree(step), step.mkdir()), 'manifest.json: No such file'),
    'a file': (lambda step: (shutil.rmtree(step), step.touch()), 'Not a directory'),
    'truncated manifest': (lambda step: os.truncate(step / 'manifest.json', 100), 'manifest.json' + DIGEST),
    'edited manifest': (edit_manifest, 'manifest.json' + DIGEST),
    'another manifest': (lambda step: copy_manifest(step.parent / '20', step), 'manifest.json is of step 20'),
    'value': (
        lambda step: orbax_gives(step, 'params/policy/query', lambda a: np.nextafter(a, np.float32(9))),
        'params/policy/query' + DIGEST,
    ),
    'sign of zero': (
        lambda step: orbax_gives(step, 'world/odd', lambda a: np.where(a == 0, np.float32(0), a)),
        'world/odd' + DIGEST,
    ),
    'dtype': (
        lambda step: orbax_gives(step, 'params/policy/query', lambda a: a.view(np.int32)),
        r'params/policy/query: int32\[8, 4, 3\] is not float32\[8, 4, 3\]',
    ),
    'shape': (
        lambda step: orbax_gives(step, 'params/policy/query', lambda a: a.reshape(4, 8, 3)),
        r'params/policy/query: float32\[4, 8, 3\] is not float32\[8, 4, 3\]',
    ),
}


@pytest.mark.parametrize('name', DAMAGES)
def test_damage_is_said_moved_aside_and_the_step_before_is_used(run, name):
  damage, reason = DAMAGES[name]
  damage(run / '30')
  state, extra, said = restore(run)
  assert bits(state) == bits(make_state(20)) and extra['step'] == 20
  assert len(said) == 2 and '\n' not in said[0]
  assert said[0].startswith('checkpoint of step 30 is damaged (')
  assert said[0].endswith('); moved to checkpoints.damaged/30, falling back to step 20')
  assert re.search(reason, said[0]), said[0]
  assert (run.parent / 'checkpoints.damaged' / '30').exists() and not (run / '30').exists()
  assert len(restore(run)[2]) == 1  # reported once


def test_reading_touches_nothing(run):
  """Not what is damaged, nor what a run that is at work has half written."""
  (run / '40.partial' / 'arrays').mkdir(parents=True)
  flip_bit(run / '30' / 'manifest.json', 7)
  before = {path: path.read_bytes() for path in data_files(run)}
  said = []
  state, extra = checkpoint.read(run, like, said.append, step=None)
  assert bits(state) == bits(make_state(20)) and extra['step'] == 20
  assert len(said) == 1 and said[0].startswith('checkpoint of step 30 is damaged (')
  state, _ = checkpoint.read(run, like, said.append, step=10)
  assert bits(state) == bits(make_state(10)) and len(said) == 1
  for step, words in ((30, 'step 30 is damaged'), (15, 'no checkpoint of step 15; it has [10, 20, 30]')):
    with pytest.raises(ValueError, match=re.escape(words)):
      checkpoint.read(run, like, said.append, step=step)
  with pytest.raises(ValueError, match='holds no checkpoint'):
    checkpoint.read(run / 'nowhere', like, said.append, step=None)
  assert before == {path: path.read_bytes() for path in data_files(run)} and (run / '40.partial').is_dir()
  assert not (run.parent / 'checkpoints.damaged').exists()


def test_the_name_of_a_damaged_step_may_be_taken(run):
  for name in ('30', '30.1'):
    (run / '30' / 'manifest.json').unlink()
    assert f'checkpoints.damaged/{name},' in restore(run)[2][0]
    save_steps(run, [30])
  assert sorted(path.name for path in (run.parent / 'checkpoints.damaged').iterdir()) == ['30', '30.1']


def test_a_truncated_file_is_never_believed(three_steps, tmp_path):
  for i, path in enumerate(data_files(three_steps / '30')):
    run = shutil.copytree(three_steps, tmp_path / str(i) / 'checkpoints')
    file = run / path.relative_to(three_steps)
    os.truncate(file, file.stat().st_size - 1)
    check_falls_back(run)


def test_a_flipped_bit_is_never_believed(three_steps, tmp_path):
  """Random bits: one in every file, then some in proportion to size, then some of the small files."""
  rng = random.Random(0)
  files = data_files(three_steps / '30')
  sizes = [path.stat().st_size for path in files]
  trials = [*files, *rng.choices(files, sizes, k=20), *rng.choices(files, k=20)]
  for i, path in enumerate(trials):
    run = shutil.copytree(three_steps, tmp_path / str(i) / 'checkpoints')
    flip_bit(run / path.relative_to(three_steps), rng.randrange(8 * path.stat().st_size))
    check_falls_back(run)
    shutil.rmtree(run.parent)


def check_falls_back(run):
  """Step 30 is said to be damaged, and step 20 comes back as it was saved."""
  state, extra, said = restore(run)
  assert said[0].startswith('checkpoint of step 30 is damaged (') and len(said) == 2
  assert extra['step'] == 20 and bits(state) == bits(make_state(20))


def test_nothing_to_restore(tmp_path):
  assert restore(tmp_path / 'new') == (None, None, [])


def test_all_damaged_is_an_error_and_the_next_start_says_so(run):
  for step in ('10', '20', '30'):
    shutil.rmtree(run / step / 'arrays')
  said = []
  message = r'every checkpoint in .* was damaged \(steps \[30, 20, 10\]\)'
  with Checkpoints(run, keep=3) as checkpoints, pytest.raises(ValueError, match=message):
    checkpoints.restore(like, said.append)
  assert len(said) == 3 and said[2].endswith('moved to checkpoints.damaged/10, no older one is left')
  _, _, said = restore(run)
  assert said == ['checkpoints holds no checkpoint; damaged ones are in checkpoints.damaged']


# --- another run --------------------------------------------------------------------------------------------


def test_other_arrays_are_named_and_are_not_damage(run):
  shapes = {'embedding': (16, 8), 'query': (8, 4, 4), 'new': ()}
  policy = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
  other = ABSTRACT.replace(params={'policy': policy}, slow={}, key=ABSTRACT.world['other_keys'])
  with pytest.raises(ValueError) as error:
    restore(run, like=lambda step, extra: other)
  parts = [
      'checkpoint of step 30 does not fit this run',
      'params/policy/new is missing',
      'slow/target/w is unknown',
      'params/policy/embedding is bfloat16[16, 8], not float32[16, 8]',
      'params/policy/query is float32[8, 4, 3], not float32[8, 4, 4]',
      'key is key<fry>[2], not key<rbg>[2, 4]',
  ]
  assert all(part in str(error.value) for part in parts), error.value
  assert not (run.parent / 'checkpoints.damaged').exists()
  assert bits(restore(run)[0]) == bits(make_state(30))


def test_a_long_list_of_arrays_is_cut(run):
  other = ABSTRACT.replace(params={f'w{i}': jax.ShapeDtypeStruct((), bool) for i in range(20)})
  with pytest.raises(ValueError, match='params/w0 is missing; .* and 12 more; resume with'):
    restore(run, like=lambda step, extra: other)


def test_another_environment_is_said(run, monkeypatch):
  here = checkpoint.environment()
  monkeypatch.setattr(checkpoint, 'environment', lambda: here | {'jaxlib': '9.9.9', 'cores': 64})
  _, _, said = restore(run)
  changes = f'cores {here["cores"]} -> 64, jaxlib {here["jaxlib"]} -> 9.9.9'
  assert said == [f'resumed from step 30 (numerically close, not bitwise: {changes})']


# --- interruptions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize('again', ['wait', 'save', 'close'])
def test_an_error_in_the_background_is_raised_once(tmp_path, again):
  checkpoints = Checkpoints(tmp_path, keep=2)
  checkpoints.save(make_state(1), extra={})
  checkpoints.wait()
  (tmp_path / '2.partial').touch()  # no step can be written there
  checkpoints.save(make_state(2), extra={})
  with pytest.raises(OSError, match='2.partial'):
    checkpoints.save(make_state(3), extra={}) if again == 'save' else getattr(checkpoints, again)()
  (tmp_path / '2.partial').unlink()
  if again == 'close':
    checkpoints = Checkpoints(tmp_path, keep=2)
  with checkpoints:
    checkpoints.save(make_state(4), extra={})
  assert sorted(path.name for path in tmp_path.iterdir()) == ['1', '4']


def test_what_an_interrupted_save_left_is_ignored_and_cleaned_up(run):
  shutil.copytree(run / '30', run / '40.partial')
  state, _, said = restore(run)
  assert bits(state) == bits(make_state(30)) and len(said) == 1
  save_steps(run, [50])
  assert sorted(path.name for path in run.iterdir()) == ['10', '20', '30', '50']


REPOSITORY = pathlib.Path(__file__).parents[2]
SAVE_WITHOUT_END = """
import sys
from rlx.run.checkpoint import Checkpoints
from rlx.testing.damage import data_files, flip_bit
from tests.run.test_checkpoint import like, make_state

with Checkpoints(sys.argv[1], keep=2) as checkpoints:
  restored = checkpoints.restore(like, print)
  step = 0 if restored is None else int(restored[0].step)
  while True:
    step += 1
    checkpoints.save(make_state(step), extra={'step': step})
    print(step, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize('kills', [2, 12])
def test_kill_at_any_moment_leaves_a_good_checkpoint(tmp_path, kills):
  """A run that is killed again and again while it saves goes on each time from a state that it saved."""
  rng = random.Random(0)
  run, last, interrupted = tmp_path / 'checkpoints', 0, 0
  for _ in range(kills):
    command = [sys.executable, '-c', SAVE_WITHOUT_END, run]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    started = [child.stdout.readline() for _ in range(4)]
    time.sleep(rng.uniform(0, 0.3))
    child.kill()
    lines = started + child.stdout.read().split()
    child.wait()
    child.stdout.close()
    printed = max(int(line) for line in lines if line.strip().isdigit())
    interrupted += any(run.glob('*.partial'))
    state, extra, said = restore(run)
    assert bits(state) == bits(make_state(extra['step'])) and len(said) == 1
    assert extra['step'] >= printed - 1 > last  # a step that is printed has its predecessor on disk
    last = extra['step']
    assert not (tmp_path / 'checkpoints.damaged').exists()
  assert interrupted > 0 or kills < 6  # enough of them fall into a save
