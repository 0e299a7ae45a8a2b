"""Checkpoints of a run: orbax writes the arrays, our own digests say whether they are still true.

Orbax restores a flipped bit without a word. So beside the arrays of a `State` a step keeps the xxh3 digest of
every array and of every file. `save` writes them; `restore` believes nothing that does not verify, moves
what is damaged aside and falls back to the step before. Nothing is deleted for being damaged.

    checkpoints/120/arrays/        orbax: path in the state, such as `params/policy/query` -> array
    checkpoints/120/manifest.json  shapes, dtypes, digests, environment, `extra`
    checkpoints/120/manifest.xxh3  digest of the manifest
    checkpoints.damaged/100/

A step is written as `120.partial` and renamed once it is whole, so that a kill leaves whole steps only.

Why a thread of our own around orbax's plain checkpointer, and not its `CheckpointManager`: for 1 MB in 60
arrays, the manager's asynchronous save blocks a train step for 13 to 16 ms, ours for 2 (both take about 0.1 s
in all, on 2 busy cores); an error is one exception, not threads that wait for each other; and only whoever
renames the step can put digests of its files inside. Importing orbax costs 0.2 s after JAX.

Of several processes (`rlx/processes.py`) the first reads and writes. Arrays are gathered for it, one by one,
and what it has restored it sends to the others: all call `save`, `restore` and `wait`, in the same order.
"""

from collections.abc import Callable, Mapping
import concurrent.futures
import contextlib
import errno
import hashlib
import itertools
import json
import os
import pathlib
import platform
import shutil
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import orbax.checkpoint as ocp
import xxhash

from rlx import processes, watchdog
from rlx.errors import is_full, some
from rlx.types import State

Arrays = dict[str, np.ndarray]  # by path in the state

_MANIFEST = 'manifest.json'
_MANIFEST_DIGEST = 'manifest.xxh3'


class _Damaged(Exception):
  """A checkpoint is not what was saved; the message says where."""


class Checkpoints:
  """Saved states of one run: orbax for the arrays, our own digests for the truth."""

  def __init__(self, directory: str | os.PathLike, *, keep: int):
    """Opens or makes a directory; what an interrupted save left in it is removed.

    Args:
      directory: holds a folder for each step; damaged ones go to its sibling `<directory>.damaged`.
      keep: number of checkpoints kept, at least 1; a save beyond it drops the oldest.
    """
    if keep < 1:
      raise ValueError(f'keep={keep} checkpoints; keep at least 1')
    self._directory = pathlib.Path(directory).absolute()
    self._damaged = self._directory.with_name(self._directory.name + '.damaged')
    self._keep = keep
    processes.first_says(self._make_directory)
    self._orbax = _make_orbax()
    self._worker = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix='checkpoint')
    self._pending = None

  def __enter__(self) -> 'Checkpoints':
    return self

  def __exit__(self, *exception) -> None:
    self.close()

  def save(self, state: State, *, extra: dict) -> None:
    """Copies a state to the host, then writes it in the background; the state may be donated at once.

    Waits for the save before it. Does nothing where the step is there and intact; a damaged one is moved
    aside and written anew.

    Args:
      state: of arrays; the members of a population are at the same step.
      extra: small and of JSON's types; `restore` returns it.
    Raises:
      ValueError: two arrays have the same path, or the members of a population are at different steps.
      Exception: whatever went wrong in the save before (an `OSError` of ENOSPC where the disk was full); this
        state is then not saved.
    """
    self.wait()
    step = _step_of(state)
    extra = json.loads(json.dumps(extra))  # a private copy, as `restore` will return it
    if not processes.first_says(self._is_intact, step):
      manifest = {'step': step, 'extra': extra, 'environment': environment(), 'arrays': _describe(state)}
      arrays = _copy_to_host(state)
      if processes.is_first():
        self._pending = self._worker.submit(self._write, manifest, arrays)

  def restore(
      self, like: Callable[[int, dict], State], say: Callable[[str], None]
  ) -> tuple[State, dict] | None:
    """The newest state that verifies, and its `extra`; None where the directory holds no checkpoint.

    Args:
      like: (step, extra) -> abstract state (shapes, dtypes, shardings) that the arrays land in.
      say: told in one line of each damaged checkpoint, and how faithful the resumed run will be.
    Raises:
      ValueError: every checkpoint is damaged, or an undamaged one holds other arrays than `like`.
    """
    self.wait()
    newest = processes.first_says(self._newest, say)
    if newest is None:
      return None
    manifest, arrays = newest
    state = _landed(manifest, arrays, like)
    say(f'resumed from step {manifest["step"]} ({_fidelity(manifest["environment"])})')
    return state, manifest['extra']

  def _newest(self, say: Callable[[str], None]) -> tuple[dict, Arrays] | None:
    """Manifest and arrays of the newest step that verifies; as `restore`."""
    steps = self._steps()
    for step, older in itertools.zip_longest(steps, steps[1:]):
      try:
        return self._read(step)
      except _Damaged as damage:
        then = 'no older one is left' if older is None else f'falling back to step {older}'
        say(f'checkpoint of step {step} is damaged ({damage}); moved to {self._move_aside(step)}, {then}')
    if steps:
      raise ValueError(
          f'every checkpoint in {self._directory} was damaged (steps {steps}); they are in {self._damaged}: '
          'put a good copy back, or start again to train from the beginning'
      )
    if self._damaged.is_dir():
      say(f'{self._directory.name} holds no checkpoint; damaged ones are in {self._damaged.name}')
    return None

  def wait(self) -> None:
    """Returns when the last save is on disk; raises what went wrong in it."""
    processes.first_says(self._wait_here)

  def close(self) -> None:
    """Waits, and lets go of the threads."""
    try:
      self._wait_here()
    finally:
      self._worker.shutdown()
      self._orbax.close()

  def _make_directory(self) -> None:
    self._directory.mkdir(parents=True, exist_ok=True)
    for partial in self._directory.glob('*.partial'):
      shutil.rmtree(partial)

  def _wait_here(self) -> None:
    pending, self._pending = self._pending, None
    if pending is not None:
      pending.result()

  def _steps(self) -> list[int]:
    """The whole steps, newest first."""
    return _whole_steps(self._directory)

  @watchdog.section('checkpoint')
  def _write(self, manifest: dict, arrays: Arrays) -> None:
    """Runs in the background: a step under another name, its own name, and then the oldest go."""
    step = manifest['step']
    partial = self._directory / f'{step}.partial'
    try:
      self._check_room(arrays)
      self._write_whole(partial, manifest, arrays)
    except Exception as error:
      shutil.rmtree(partial, ignore_errors=True)
      if is_full(error):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(partial)) from error
      raise
    partial.rename(self._directory / str(step))
    others = [other for other in self._steps() if other != step]
    for old in others[self._keep - 1 :]:
      shutil.rmtree((self._directory / str(old)).rename(self._directory / f'{old}.partial'))

  def _check_room(self, arrays: Arrays) -> None:
    """Raises `OSError` where the disk has no room for what the step before took, or for the first arrays.

    Orbax would say the same in pages, from threads that outlive the call.
    """
    needed = sum(array.nbytes for array in arrays.values())
    for step in self._steps()[:1]:
      files = (path for path in (self._directory / str(step)).rglob('*') if path.is_file())
      needed = sum(path.stat().st_size for path in files)
    if shutil.disk_usage(self._directory).free < needed:
      raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._directory))

  def _write_whole(self, partial: pathlib.Path, manifest: dict, arrays: Arrays) -> None:
    """The arrays, and the manifest with what they and their files are told by."""
    stored = {path: array for path, array in arrays.items() if array.size}  # orbax refuses empty ones
    self._orbax.save(partial / 'arrays', args=ocp.args.PyTreeSave(stored), force=True)
    for path, entry in manifest['arrays'].items():
      entry['digest'] = _digest(arrays[path])
    manifest['files'] = _file_digests(partial)
    text = json.dumps(manifest, indent=1).encode()
    (partial / _MANIFEST).write_bytes(text)
    (partial / _MANIFEST_DIGEST).write_text(_digest(text))

  def _is_intact(self, step: int) -> bool:
    """Whether a step is there and verifies; one that does not is moved aside."""
    if step not in self._steps():
      return False
    try:
      self._read(step)
    except _Damaged:
      self._move_aside(step)
      return False
    return True

  def _read(self, step: int) -> tuple[dict, Arrays]:
    """As `_read_step`."""
    return _read_step(self._orbax, self._directory / str(step))

  def _move_aside(self, step: int) -> str:
    """Moves a damaged step to a free name among its like; returns where, for a person to read."""
    self._damaged.mkdir(parents=True, exist_ok=True)
    names = itertools.chain([str(step)], (f'{step}.{count}' for count in itertools.count(1)))
    place = next(self._damaged / name for name in names if not (self._damaged / name).exists())
    shutil.move(self._directory / str(step), place)
    return f'{self._damaged.name}/{place.name}'


def read(
    directory: str | os.PathLike, like: Callable[[int, dict], State], say: Callable[[str], None], *,
    step: int | None,
) -> tuple[State, dict]:
  """A saved state of a run that may be at work: nothing in the directory is moved, removed or written.

  Args:
    directory: as of `Checkpoints`.
    like: as for `Checkpoints.restore`.
    say: told in one line of each damaged checkpoint that is passed over.
    step: whose state; None for the newest that verifies.
  Returns:
    The state, and the `extra` that it was saved with.
  Raises:
    ValueError: there is no such checkpoint, it is damaged, or it holds other arrays than `like`.
  """
  folder = pathlib.Path(directory).absolute()
  steps = _whole_steps(folder) if folder.is_dir() else []
  if not steps:
    raise ValueError(f'{directory} holds no checkpoint')
  if step is not None and step not in steps:
    raise ValueError(f'{directory} holds no checkpoint of step {step}; it has {sorted(steps)}')
  with contextlib.closing(_make_orbax()) as orbax:
    for one in steps if step is None else [step]:
      try:
        manifest, arrays = _read_step(orbax, folder / str(one))
      except _Damaged as damage:
        say(f'checkpoint of step {one} is damaged ({damage}); it is passed over')
        continue
      return _landed(manifest, arrays, like), manifest['extra']
  raise ValueError(f'{directory}: {"every checkpoint" if step is None else f"step {step}"} is damaged')


def _make_orbax() -> ocp.Checkpointer:
  """It writes NumPy arrays, and waits for no other process."""
  alone = ocp.options.MultiprocessingOptions(
      primary_host=jax.process_index(), active_processes={jax.process_index()},
      barrier_sync_key_prefix=f'process_{jax.process_index()}',
  )
  handler = ocp.PyTreeCheckpointHandler(multiprocessing_options=alone)
  return ocp.Checkpointer(handler, multiprocessing_options=alone)


def _whole_steps(directory: pathlib.Path) -> list[int]:
  """The steps that were saved whole, newest first."""
  names = (path.name for path in directory.iterdir())
  return sorted((int(name) for name in names if name.isdecimal()), reverse=True)


def _landed(manifest: dict, arrays: Arrays, like: Callable[[int, dict], State]) -> State:
  """The state of verified arrays, where `like` wants it."""
  target = like(manifest['step'], manifest['extra'])
  _check_fit(manifest['step'], manifest['arrays'], _describe(target))
  return _place(arrays, target)


def _read_step(orbax: ocp.Checkpointer, folder: pathlib.Path) -> tuple[dict, Arrays]:
  """The manifest and the arrays of a step, all verified; raises `_Damaged`.

  Files come first: orbax prints pages about damaged ones, from threads that outlive the call. What it
  raises on sound files is no damage, and is not caught; but a run that is at work may have dropped them.
  """
  manifest = _read_manifest(folder, int(folder.name))
  entries = manifest['arrays']
  as_numpy = ocp.RestoreArgs(restore_type=np.ndarray)
  stored = {path: as_numpy for path, entry in entries.items() if 0 not in entry['shape']}
  try:
    arrays = orbax.restore(folder / 'arrays', args=ocp.args.PyTreeRestore(restore_args=stored))
  except Exception as error:
    if folder.exists():
      raise
    raise _Damaged('it was dropped while it was read') from error
  for path, entry in entries.items():
    dtype = jnp.dtype('uint32' if entry['dtype'].startswith('key<') else entry['dtype'])
    array = arrays[path] if path in stored else np.empty(entry['shape'], dtype)
    if (array.dtype, list(array.shape)) != (dtype, entry['shape']):
      raise _Damaged(f'{path}: {array.dtype}{list(array.shape)} is not {dtype}{entry["shape"]}')
    _check_digest(path, _digest(array), entry['digest'])
    arrays[path] = array
  return manifest, arrays


def _read_manifest(folder: pathlib.Path, step: int) -> dict:
  """The manifest of a step, true to its digest and to the files that it is of; raises `_Damaged`."""
  try:
    text = (folder / _MANIFEST).read_bytes()
    _check_digest(_MANIFEST, _digest(text), (folder / _MANIFEST_DIGEST).read_text(errors='replace'))
    manifest, files = json.loads(text), _file_digests(folder)
  except OSError as error:
    raise _Damaged(f'{pathlib.Path(error.filename or folder).name}: {error.strerror}') from error
  if manifest['step'] != step:
    raise _Damaged(f'{_MANIFEST} is of step {manifest["step"]}')
  for name, digest in manifest['files'].items():
    if name not in files:
      raise _Damaged(f'{name} is missing')
    _check_digest(name, files[name], digest)
  return manifest


def _file_digests(folder: pathlib.Path) -> dict[str, str]:
  """Digest of every file that orbax wrote, by its path in the folder of the step."""
  digests = {}
  for path in sorted(path for path in (folder / 'arrays').rglob('*') if path.is_file()):
    with path.open('rb') as file:
      digests[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, xxhash.xxh3_64).hexdigest()
  return digests


def _check_digest(name: str, found: str, expected: str) -> None:
  if found != expected:
    raise _Damaged(f'{name}: digest {found[:4]}.. is not {expected[:4]}..')


def _digest(data: bytes | np.ndarray) -> str:
  if isinstance(data, np.ndarray):
    data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)  # a bfloat16 array is no buffer
  return xxhash.xxh3_64_hexdigest(data)


def _is_key(leaf) -> bool:
  return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _named_leaves(tree: Any) -> dict[str, Any]:
  """Leaves by path, in the order of the tree."""
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  names = [jax.tree_util.keystr(path, simple=True, separator='/') for path, _ in leaves]
  if len(set(names)) < len(names):
    twice = {name for name in names if names.count(name) > 1}
    raise ValueError(f'two arrays of the state have the same path, rename one: {some(sorted(twice))}')
  return dict(zip(names, (leaf for _, leaf in leaves), strict=True))


def _describe(tree: Any) -> dict[str, dict]:
  """Path -> shape of the stored data and dtype in the state: a key is `key<fry>`, stored as uint32."""

  def entry(leaf) -> dict:
    data = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    return {'shape': list(data.shape), 'dtype': str(leaf.dtype)}

  return {path: entry(leaf) for path, leaf in _named_leaves(tree).items()}


def _step_of(state: State) -> int:
  steps = np.unique(np.asarray(state.step))
  if len(steps) != 1:
    raise ValueError(f'the members of a population are at different steps: {steps.tolist()}')
  return int(steps[0])


def _copy_to_host(state: State) -> Arrays:
  """Copies that share no memory with the state (on a CPU, `np.asarray` would); of keys, their data."""
  leaves = _named_leaves(state).items()
  data = {path: jax.random.key_data(leaf) if _is_key(leaf) else leaf for path, leaf in leaves}
  for array in data.values():
    if isinstance(array, jax.Array) and not processes.several():
      array.copy_to_host_async()  # all transfers begin before the first is waited for
  return {path: np.array(processes.to_host(array)) for path, array in data.items()}


def _place(arrays: Arrays, target: State) -> State:
  """The state that the arrays make, in the shardings of `target`."""

  def place(path: str, leaf) -> jax.Array:
    array = arrays[path]
    if _is_key(leaf):
      array = jax.random.wrap_key_data(array, impl=jax.random.key_impl(jnp.empty((), leaf.dtype)))
    return processes.put(array, leaf.sharding)

  leaves = [place(path, leaf) for path, leaf in _named_leaves(target).items()]
  return jax.tree.unflatten(jax.tree.structure(target), leaves)


def _check_fit(step: int, found: Mapping[str, dict], wanted: Mapping[str, dict]) -> None:
  """Raises `ValueError` where a sound checkpoint holds other arrays than the run wants."""
  text = lambda entry: f'{entry["dtype"]}{entry["shape"]}'
  wrong = [f'{path} is missing' for path in wanted if path not in found]
  wrong += [f'{path} is unknown' for path in found if path not in wanted]
  both = [path for path in wanted if path in found and text(wanted[path]) != text(found[path])]
  wrong += [f'{path} is {text(found[path])}, not {text(wanted[path])}' for path in both]
  if wrong:
    raise ValueError(
        f'the checkpoint of step {step} does not fit this run: {some(wrong)}; resume with the config that '
        'saved it, or use another directory'
    )


def environment() -> dict[str, Any]:
  """What the bits of a float may depend on."""
  cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
  sizes = jax.sharding.get_abstract_mesh().shape
  return {
      'device': jax.devices()[0].device_kind,
      'devices': jax.device_count(),
      'mesh': ' x '.join(f'{name}={size}' for name, size in sizes.items()),
      'processes': jax.process_count(),
      'cores': cores,
      **{module.__name__: module.__version__ for module in (jax, jaxlib, np)},
      'python': platform.python_version(),
      'XLA_FLAGS': os.environ.get('XLA_FLAGS', ''),
  }


def _fidelity(recorded: Mapping[str, Any]) -> str:
  """Whether a run that goes on here repeats the bits of the one that was recorded."""
  now = environment()
  known = [name for name in now if name in recorded]  # earlier versions wrote fewer
  changes = [f'{name} {recorded[name]} -> {now[name]}' for name in known if recorded[name] != now[name]]
  if changes:
    return f'numerically close, not bitwise: {", ".join(changes)}'
  return 'bitwise: same devices, cores and versions'
