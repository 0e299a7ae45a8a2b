"""A reference that is no network: what a directory's model says of the rows of a data set, found once.

A reference that stays as it is says the same of a row in every epoch. `stored` scores all rows before the
first step and keeps the log-probs in a file, which the next run of the same model on the same rows reads. A
train step is then spared a forward pass, and no second copy of the weights is held. The table is the model's
parameters, [M, A] numbers for M answers of up to A tokens; on a mesh each device has a part of the answers.

It knows these rows and no others. What scores rows of its own making (KTO's KL, samples of the policy) needs
a live reference, and is refused.
"""

import logging
import os
from pathlib import Path
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import xxhash

from rlx import processes, sharding
from rlx.data.dataset import Dataset
from rlx.data.stream import Streamed
from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.errors import at_least
from rlx.models import hf, safetensors
from rlx.models.language import LanguageModel
from rlx.models.model import Model
from rlx.models.score_table import AXES, StoredScores

_logger = logging.getLogger(__name__)


def stored(task: Dataset, policy: LanguageModel, *, file: str, batch_size: int) -> Model:
  """A reference that is looked up: the log-probs that a directory's model gives the answers of a data set.

  The first run scores all training and held-out rows and writes the file; later ones, and one that goes on,
  read it. The file holds a digest of the directory's weights and settings, of the dtypes and of all tokens:
  where it is another, the rows are scored anew, and a line says so.

  Args:
    task: whose rows demonstrate something; all of them are in memory.
    policy: what scores, by default the model `policy` as it is in its directory; of a LoRA its base, by
      `names: {'policy': 'base'}`.
    file: a path ending in `.npz`, beside the data for instance.
    batch_size: rows that are scored at a time.
  Raises:
    ValueError: the model has no directory, the task is no such data set, or the run has several processes.
  """
  at_least(1, batch_size=batch_size)
  if not policy.directory:
    raise ValueError('log-probs are stored of a model that begins from a directory; take a live reference')
  if not isinstance(task, Dataset) or isinstance(task, Streamed) or not task.num_answers:
    raise ValueError("the task is no 'dataset' of answers that are all in memory; take a live reference")
  if not file.endswith('.npz'):
    raise ValueError(f'file={file!r}: its name ends in .npz')
  if processes.several():
    raise ValueError('log-probs are stored by a run of one process; take a live reference')
  windows = _windows(task)
  missing = -len(windows['begins']) % _DIVISIBLE
  padded = lambda x: np.pad(x, ((0, missing),) + ((0, 0),) * (x.ndim - 1))
  shapes = {name: padded(windows[name]) for name in ('tokens', 'begins')}

  def load(mesh: jax.sharding.Mesh) -> dict:
    digest = _digest(policy, task)
    logprobs = _read(Path(file), digest)
    if logprobs is None:
      logprobs = _scored(task, policy, windows, mesh, batch_size)
      _write(Path(file), digest, logprobs)
    table = {**shapes, 'logprobs': padded(logprobs)}
    return jax.device_put(table, sharding.shardings(table, mesh, AXES))

  begin = lambda key, models: {**shapes, 'logprobs': jnp.zeros(shapes['tokens'].shape, jnp.float32)}
  held_out = 0 if task.held_out_data is None else _num_answers(task.held_out_data)
  functions = StoredScores(task.sources.num_rows, (task.num_answers, held_out))
  return Model(functions=functions, init=begin, load=load, source=policy.directory, axes=AXES)


_DIVISIBLE = 64  # answers, with empty ones at the end: over so many devices a table can be spread


def _parts(task: Dataset) -> list:
  """The arrays of training rows and of held-out ones that demonstrate something."""
  return [data for data in (task.data, task.held_out_data) if data is not None and 'tokens' in data]


def _num_answers(data) -> int:
  return len(data['tokens']) // len(data['prompts']) if 'tokens' in data else 0


def _windows(task: Dataset) -> dict[str, np.ndarray]:
  """Of every answer, where it begins [M] and its `tokens`, `action_mask` [M, A]."""
  found = {'begins': [], 'tokens': [], 'action_mask': []}
  for data in _parts(task):
    begins = data['action_mask'].argmax(axis=1).astype(np.int32)
    columns = begins[:, None] + np.arange(task.answer_columns)[None]
    there = columns < data['tokens'].shape[1]
    columns = np.where(there, columns, 0)
    found['begins'].append(begins)
    found['tokens'].append(np.where(there, np.take_along_axis(data['tokens'], columns, axis=1), task.pad_id))
    found['action_mask'].append(there & np.take_along_axis(data['action_mask'], columns, axis=1))
  return {name: np.concatenate(x) for name, x in found.items()}


def _scored(task: Dataset, policy: LanguageModel, windows, mesh, batch_size: int) -> np.ndarray:
  """[M, A] log-probs of the answers under the model as it is in its directory."""
  shapes = jax.eval_shape(policy.init, jax.random.key(0))
  decoding = Decoding(
      max_tokens=task.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
      eos_ids=task.eos_ids, pad_id=task.pad_id,
  )

  @jax.jit
  def score(params, rows):
    return engine.score(params, policy, rows, decoding=decoding, chunk_size=_CHUNK_TOKENS)[0]

  tokens, mask = (np.concatenate([data[name] for data in _parts(task)]) for name in ('tokens', 'action_mask'))
  rows = {'tokens': tokens, 'action_mask': mask, 'prompt_lengths': windows['begins']}
  found = np.zeros(windows['tokens'].shape, np.float32)
  with jax.set_mesh(mesh):
    params = hf.load(policy.directory, policy.shape, sharding.shardings(shapes, mesh, policy.axes))
    for first in range(0, len(tokens), batch_size):
      index = np.minimum(np.arange(first, first + batch_size), len(tokens) - 1)
      logprobs = np.asarray(score(params, {name: x[index] for name, x in rows.items()}))
      columns = windows['begins'][index, None] + np.arange(found.shape[1])
      found[index] = np.take_along_axis(logprobs, np.minimum(columns, tokens.shape[1] - 1), axis=1)
  return np.where(windows['action_mask'], found, 0)


_CHUNK_TOKENS = 2048  # with logits at a time


def _digest(policy: LanguageModel, task: Dataset) -> str:
  """Of everything that the log-probs depend on but the machine."""
  digest = xxhash.xxh3_128(f'{safetensors.digest_of(policy.directory)} {policy.shape}'.encode())
  for data in _parts(task):
    for name in ('tokens', 'action_mask', 'lengths'):
      digest.update(f'{data[name].shape}'.encode())
      digest.update(np.ascontiguousarray(data[name]))
  return digest.hexdigest()


def _read(file: Path, digest: str) -> np.ndarray | None:
  """The log-probs of a file, or None where it is not there or holds those of something else."""
  if not file.exists():
    return None
  try:
    with np.load(file) as kept:
      there, logprobs = str(kept['digest']), kept['logprobs']
  except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
    raise ValueError(f'{file} holds no stored log-probs ({error}); delete it, or name another') from error
  if there == digest:
    return logprobs
  _logger.warning('%s: of another model or other rows (digest %s, now %s); scored anew', file, there, digest)
  return None


def _write(file: Path, digest: str, logprobs: np.ndarray) -> None:
  """All of the file or nothing."""
  file.parent.mkdir(parents=True, exist_ok=True)
  beside = file.with_name(f'{file.name}.{os.getpid()}.tmp')
  with beside.open('wb') as opened:
    np.savez(opened, digest=np.array(digest), logprobs=logprobs)
  beside.replace(file)
