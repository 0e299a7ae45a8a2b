"""Checkpoints of a run: orbax writes the arrays, our own digests say whether they are still true.

Orbax restores a flipped bit without a word. So beside the arrays of a `State` each step holds a manifest:
shape, dtype and xxh3 digest of every array, the environment, and a digest of the manifest itself. `save`
writes one; `restore` believes nothing that does not verify, moves what is damaged aside and falls back to
the step before. Nothing is deleted for being damaged.

Orbax's manager makes steps atomic and keeps the last few. It runs synchronously, in a thread of our own: for
1 MB in 60 arrays its asynchronous mode blocks a train step for 13 ms and takes 130 ms in all, ours 2 and
90 (2 cores), and an error is one exception instead of threads that wait for each other. Importing orbax
costs 0.2 s. One process copies whole arrays; a run over several hosts needs another way to copy them.
"""

from collections.abc import Callable, Iterable, Mapping
import concurrent.futures
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

from rlx.types import State

Arrays = dict[str, np.ndarray]  # path in the state, such as `params/policy/layers/query` -> array


class _Damaged(Exception):
  """A checkpoint is not what was saved; the message says where."""


class Checkpoints:
  """Saved states of one run: orbax for the arrays, our own digests for the truth."""

  def __init__(self, directory: str | os.PathLike, *, keep: int):
    """Opens or makes a directory; what an interrupted save left in it is cleaned up.

    Args:
      directory: holds a folder for each step; damaged ones go to its sibling `<directory>.damaged`.
      keep: number of checkpoints kept, at least 1; a save beyond it drops the oldest.
    """
    if keep < 1:
      raise ValueError(f'keep={keep} checkpoints; keep at least 1')
    self._directory = pathlib.Path(directory).absolute()
    self._damaged = self._directory.with_name(self._directory.name + '.damaged')
    options = ocp.CheckpointManagerOptions(
        max_to_keep=keep,
        cleanup_tmp_directories=True,
        enable_async_checkpointing=False,
        lightweight_initialize=True,  # else it parses a file of every step, which may be damaged
    )
    self._manager = ocp.CheckpointManager(self._directory, options=options)
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
      Exception: whatever went wrong in the save before; this state is then not saved.
    """
    self.wait()
    step = _step_of(state)
    extra = json.loads(json.dumps(extra))  # a private copy, as `restore` will return it
    if not self._is_intact(step):
      body = {'step': step, 'extra': extra, 'environment': _environment(), 'arrays': _describe(state)}
      self._pending = self._worker.submit(self._write, body, _copy_to_host(state))

  def restore(self, like: Callable[[int], State], say: Callable[[str], None]) -> tuple[State, dict] | None:
    """The newest state that verifies, and its `extra`; None where the directory holds no checkpoint.

    Args:
      like: step -> abstract state (shapes, dtypes, shardings) that the arrays land in.
      say: told in one line of each damaged checkpoint, and how faithful the resumed run will be.
    Raises:
      ValueError: every checkpoint is damaged, or an undamaged one holds other arrays than `like`.
    """
    self.wait()
    steps = sorted(self._manager.all_steps(), reverse=True)
    for step, older in itertools.zip_longest(steps, steps[1:]):
      try:
        body, arrays = self._read(step)
      except _Damaged as damage:
        then = 'no older one is left' if older is None else f'falling back to step {older}'
        say(f'checkpoint of step {step} is damaged ({damage}); moved to {self._move_aside(step)}, {then}')
        continue
      target = like(step)
      _check_fit(step, body['arrays'], _describe(target))
      state = _place(arrays, target)
      say(f'resumed from step {step} ({_fidelity(body["environment"])})')
      return state, body['extra']
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
    pending, self._pending = self._pending, None
    if pending is not None:
      pending.result()

  def close(self) -> None:
    """Waits, and lets go of the threads."""
    try:
      self.wait()
    finally:
      self._worker.shutdown()
      self._manager.close()

  def _write(self, body: dict, arrays: Arrays) -> None:
    """Runs in the background: digests, then orbax."""
    for path, entry in body['arrays'].items():
      entry['digest'] = _digest(arrays[path])
    stored = {path: array for path, array in arrays.items() if array.size}  # orbax refuses empty ones
    items = ocp.args.Composite(
        state=ocp.args.PyTreeSave(stored),
        manifest=ocp.args.JsonSave({'body': body, 'digest': _digest_json(body)}),
    )
    self._manager.save(body['step'], args=items, force=True)  # force: also a step before the latest

  def _is_intact(self, step: int) -> bool:
    """Whether a step is there and verifies; one that does not is moved aside."""
    if step not in self._manager.all_steps():
      return False
    try:
      self._read(step)
    except _Damaged:
      self._move_aside(step)
      return False
    return True

  def _read(self, step: int) -> tuple[dict, Arrays]:
    """The body of the manifest and the arrays of a step, all verified; raises `_Damaged`."""
    try:
      manifest = ocp.args.Composite(manifest=ocp.args.JsonRestore())
      body = _checked_body(self._manager.restore(step, args=manifest)['manifest'], step)
      entries = {path: entry for path, entry in body['arrays'].items() if 0 not in entry['shape']}
      as_numpy = {path: ocp.RestoreArgs(restore_type=np.ndarray) for path in entries}
      state = ocp.args.Composite(state=ocp.args.PyTreeRestore(restore_args=as_numpy))
      arrays = dict(self._manager.restore(step, args=state)['state'])
      for path, entry in body['arrays'].items():
        if path not in entries:
          arrays[path] = np.empty(entry['shape'], _stored_dtype(entry))
        _check_array(path, entry, arrays[path])
      return body, arrays
    except _Damaged:
      raise
    except Exception as error:  # damaged files make orbax raise nearly anything
      raise _Damaged(f'{type(error).__name__}: {" ".join(str(error).split())[:160]}') from error

  def _move_aside(self, step: int) -> str:
    """Moves a damaged step to a free name among its like; returns where, for a person to read."""
    self._damaged.mkdir(parents=True, exist_ok=True)
    names = itertools.chain([str(step)], (f'{step}.{count}' for count in itertools.count(1)))
    place = next(self._damaged / name for name in names if not (self._damaged / name).exists())
    shutil.move(self._directory / str(step), place)
    self._manager.reload()
    return f'{self._damaged.name}/{place.name}'


def _is_key(leaf) -> bool:
  return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _named_leaves(tree: Any) -> dict[str, Any]:
  """Leaves by path, in the order of the tree."""
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  names = [jax.tree_util.keystr(path, simple=True, separator='/') for path, _ in leaves]
  if len(set(names)) < len(names):
    twice = {name for name in names if names.count(name) > 1}
    raise ValueError(f'two arrays of the state have the same path, rename one: {_some(sorted(twice))}')
  return dict(zip(names, (leaf for _, leaf in leaves), strict=True))


def _describe(tree: Any) -> dict[str, dict]:
  """Path -> shape of the stored data and dtype in the state: a key is `key<fry>`, stored as uint32."""

  def entry(leaf) -> dict:
    data = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    return {'shape': list(data.shape), 'dtype': str(leaf.dtype)}

  return {path: entry(leaf) for path, leaf in _named_leaves(tree).items()}


def _stored_dtype(entry: dict) -> np.dtype:
  return jnp.dtype('uint32' if entry['dtype'].startswith('key<') else entry['dtype'])


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
    if isinstance(array, jax.Array):
      array.copy_to_host_async()  # all transfers begin before the first is waited for
  return {path: np.array(array, order='C') for path, array in data.items()}


def _place(arrays: Arrays, target: State) -> State:
  """The state that the arrays make, in the shardings of `target`."""

  def place(path: str, leaf) -> jax.Array:
    array = arrays[path]
    if _is_key(leaf):
      array = jax.random.wrap_key_data(array, impl=jax.random.key_impl(jnp.empty((), leaf.dtype)))
    return jax.device_put(array, leaf.sharding)

  leaves = [place(path, leaf) for path, leaf in _named_leaves(target).items()]
  return jax.tree.unflatten(jax.tree.structure(target), leaves)


def _digest(array: np.ndarray) -> str:
  return xxhash.xxh3_64_hexdigest(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _digest_json(tree: Any) -> str:
  return xxhash.xxh3_64_hexdigest(json.dumps(tree, sort_keys=True).encode())


def _checked_body(manifest: dict | None, step: int) -> dict:
  if manifest is None:
    raise _Damaged('it has no manifest')
  body, digest = manifest['body'], manifest['digest']
  if _digest_json(body) != digest:
    raise _Damaged(f'manifest: digest {_digest_json(body)[:4]}.. is not {digest[:4]}..')
  if body['step'] != step:
    raise _Damaged(f'its manifest is of step {body["step"]}')
  return body


def _check_array(path: str, entry: dict, array: np.ndarray) -> None:
  shape, dtype = tuple(entry['shape']), _stored_dtype(entry)
  if (array.shape, array.dtype) != (shape, dtype):
    raise _Damaged(f'{path}: {array.dtype}{list(array.shape)} is not {dtype}{list(shape)}')
  if _digest(array) != entry['digest']:
    raise _Damaged(f'{path}: digest {_digest(array)[:4]}.. is not {entry["digest"][:4]}..')


def _check_fit(step: int, found: Mapping[str, dict], wanted: Mapping[str, dict]) -> None:
  """Raises `ValueError` where a sound checkpoint holds other arrays than the run wants."""
  text = lambda entry: f'{entry["dtype"]}{entry["shape"]}'
  wrong = [f'{path} is missing' for path in wanted if path not in found]
  wrong += [f'{path} is unknown' for path in found if path not in wanted]
  both = [path for path in wanted if path in found and text(wanted[path]) != text(found[path])]
  wrong += [f'{path} is {text(found[path])}, not {text(wanted[path])}' for path in both]
  if wrong:
    raise ValueError(
        f'the checkpoint of step {step} does not fit this run: {_some(wrong)}; resume with the config that '
        'saved it, or use another directory'
    )


def _some(items: Iterable[str]) -> str:
  """The first few of a list, and how many more there are."""
  items = list(items)
  return '; '.join(items[:6]) + (f' and {len(items) - 6} more' if len(items) > 6 else '')


def _environment() -> dict[str, Any]:
  """What the bits of a float may depend on."""
  cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
  return {
      'device': jax.devices()[0].device_kind,
      'devices': jax.device_count(),
      'cores': cores,
      **{module.__name__: module.__version__ for module in (jax, jaxlib, np)},
      'python': platform.python_version(),
      'XLA_FLAGS': os.environ.get('XLA_FLAGS', ''),
  }


def _fidelity(recorded: Mapping[str, Any]) -> str:
  """Whether a run that goes on here repeats the bits of the one that was recorded."""
  now = _environment()
  changes = [f'{name} {recorded.get(name)} -> {now[name]}' for name in now if recorded.get(name) != now[name]]
  if changes:
    return f'numerically close, not bitwise: {", ".join(changes)}'
  return 'bitwise: same devices, cores and versions'
