"""Directories of Hugging Face's PEFT, both ways and without it: adapters, and the `Lora` that describes them.

PEFT thinks in modules and in names of its own; `hf.tensors` says which of them is which array here, and what
an adapter of it is called follows (`_table`). What plain LoRA of whole stacks of layers is not, is refused.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import json
import os
from pathlib import Path
import re
import shutil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx.errors import some
from rlx.models import hf, safetensors, transformer
from rlx.models.adapters import A, Adapters, Lora, flatten, init, is_matrix, owner, unflatten
from rlx.models.transformer import TransformerConfig

_SETTINGS, _WEIGHTS = 'adapter_config.json', 'adapter_model.safetensors'
_PREFIX = 'base_model.model.'  # what PEFT puts before the names of the base
_READ = ('peft_type', 'r', 'lora_alpha', 'target_modules', 'modules_to_save')
_HARMLESS = (  # settings that change neither what the adapters are nor what they do
    'auto_mapping', 'base_model_name_or_path', 'inference_mode', 'lora_dropout', 'megatron_core',
    'peft_version', 'qalora_group_size', 'revision', 'runtime_config', 'task_type',
)


def save(
    directory: str | os.PathLike,
    adapters: Adapters,
    lora: Lora,
    config: TransformerConfig,
    *,
    family: str,
    base_model: str,
) -> None:
  """Writes adapters as a directory that PEFT puts on the base model; it appears whole or not at all.

  Args:
    directory: to be made; one that an earlier call wrote is replaced.
    adapters: from `init`.
    lora: as given to `init`.
    config: shape of the base.
    family: its `model_type` in transformers, as for `hf.save`.
    base_model: directory or Hub name of the base, by which PEFT finds it.
  Raises:
    ValueError: the adapters are others than `lora` and `config` say, PEFT cannot express them, or the
      directory holds something else.
  """
  if not lora.rank:
    raise ValueError('without adapters (lora.rank=0) there is nothing for PEFT; save `merge` through hf.save')
  leaves, shapes = flatten(adapters), _shapes(config, lora)
  if (found := {path: leaf.shape for path, leaf in leaves.items()}) != shapes:
    differ = sorted(path for path in {**found, **shapes} if found.get(path) != shapes.get(path))
    raise ValueError(f'the adapters are not those of this config and lora; these differ: {some(differ)}')
  table = _table(family, config, lora, shapes)
  fetch = lambda row, index: row.from_leaf(np.asarray(leaves[row.leaf][index]))
  outgoing = [
      safetensors.Written(name, row.shape, np.dtype(np.float32), functools.partial(fetch, row, index))
      for row in table
      for name, index in row.index(config)
  ]
  _write(Path(directory).absolute(), _settings(family, config, lora, shapes, base_model), outgoing)


def load(
    directory: str | os.PathLike, config: TransformerConfig, *, family: str
) -> tuple[Adapters, Lora]:
  """The adapters of a directory that PEFT, or `save`, wrote, and the `Lora` that describes them.

  A dropout in its settings is not taken over: it changes training, not the adapters.

  Args:
    directory: with adapter_config.json and adapter_model.safetensors.
    config: shape of the base.
    family: its `model_type` in transformers.
  Returns:
    Float32 adapters for `attach` and `merge`, and their `Lora`.
  Raises:
    ValueError: files are missing, the settings ask for something that is not plain LoRA of whole stacks of
      layers, or the tensors are not those that the settings and `config` say; all of them are named.
  """
  directory = Path(directory)
  absent = [name for name in (_SETTINGS, _WEIGHTS) if not (directory / name).exists()]
  if absent:
    raise ValueError(f'{directory} lacks {" and ".join(absent)}; is it a directory that PEFT has saved?')
  try:
    lora = _read_settings(json.loads((directory / _SETTINGS).read_text()), family, config)
    shapes = _shapes(config, lora)
    table = _table(family, config, lora, shapes)
  except (ValueError, re.error) as error:
    raise ValueError(f'{directory / _SETTINGS}: {error}') from error
  stored, _ = safetensors.read_header(directory / _WEIGHTS)
  wanted = {name: row.shape for row in table for name, _ in row.index(config)}
  problems = [f'{name} {list(shape)} is missing' for name, shape in wanted.items() if name not in stored]
  problems += [f'{name} {list(stored[name].shape)} is unknown' for name in stored if name not in wanted]
  problems += [
      f'{name} is {list(stored[name].shape)}, not {list(shape)}'
      for name, shape in wanted.items()
      if name in stored and stored[name].shape != shape
  ]
  if problems:
    raise ValueError(f'{directory / _WEIGHTS} does not fit its settings and the model: {some(problems)}')
  leaves = {row.leaf: _load_leaf(row, config, stored, shapes[row.leaf]) for row in table}
  return unflatten({path: jnp.asarray(leaf) for path, leaf in leaves.items()}), lora


def _load_leaf(row: hf.Tensor, config, stored, shape) -> np.ndarray:
  leaf = np.empty(shape, np.float32)
  for name, index in row.index(config):
    leaf[index] = row.to_leaf(stored[name].read(), leaf[index].shape)
  return leaf


def _write(directory: Path, settings: dict, outgoing: Sequence[safetensors.Written]) -> None:
  """Both files into a sibling, which then takes the directory's place."""
  if directory.exists() and {path.name for path in directory.iterdir()} - {_SETTINGS, _WEIGHTS}:
    raise ValueError(f'{directory} is there and holds more than adapters; choose another directory')
  partial = directory.with_name(f'{directory.name}.partial')
  shutil.rmtree(partial, ignore_errors=True)
  partial.mkdir(parents=True)
  (partial / _SETTINGS).write_text(json.dumps(settings, indent=2) + '\n')
  safetensors.write(partial / _WEIGHTS, outgoing, {'format': 'pt'})
  if directory.exists():
    shutil.rmtree(directory)
  partial.rename(directory)


def _settings(family, config, lora: Lora, shapes: Mapping, base_model: str) -> dict[str, Any]:
  """What adapter_config.json says; all that PEFT knows besides is off by default."""
  in_base = {row.leaf: row for row in hf.tensors(family, config)}
  modules = lambda paths: sorted({_module(in_base[path].name).rpartition('{layer}.')[2] for path in paths})
  targets = [owner(path) for path in shapes if path.endswith(A)]
  return {
      'base_model_name_or_path': base_model,
      'bias': 'none',
      'fan_in_fan_out': not all(in_base[path].transposed for path in targets),  # GPT-2 stores [in, out]
      'inference_mode': True,
      'init_lora_weights': True,
      'lora_alpha': lora.alpha,
      'lora_dropout': 0.0,
      'modules_to_save': modules(path for path in shapes if path == owner(path)) or None,
      'peft_type': 'LORA',
      'r': lora.rank,
      'target_modules': modules(targets),
      'task_type': 'CAUSAL_LM',
  }


def _shapes(config: TransformerConfig, lora: Lora) -> dict[str, tuple[int, ...]]:
  make = lambda key: init(key, transformer.init(key, config), lora)
  return {path: leaf.shape for path, leaf in flatten(jax.eval_shape(make, jax.random.key(0))).items()}


def _table(family: str, config: TransformerConfig, lora: Lora, shapes: Mapping) -> list[hf.Tensor]:
  """Every tensor of a PEFT directory, as `hf.tensors` describes those of a model.

  A is [r, in] there and B [out, r], the transposes of ours with the axes of each side joined.
  """
  in_base = {row.leaf: row for row in hf.tensors(family, config)}
  _check_expressible(family, config, in_base, shapes)
  table = []
  for path in shapes:
    row = in_base[owner(path)]
    if path == row.leaf:
      table.append(dataclasses.replace(row, name=_PREFIX + row.name))
      continue
    num_out, num_in = row.shape if row.transposed else row.shape[::-1]
    part, shape = ('A', (lora.rank, num_in)) if path.endswith(A) else ('B', (num_out, lora.rank))
    name = f'{_PREFIX}{_module(row.name)}.lora_{part}.weight'
    table.append(hf.Tensor(name=name, leaf=path, shape=shape, transposed=True))
  return table


def _check_expressible(family, config, in_base: Mapping[str, hf.Tensor], shapes: Mapping) -> None:
  """PEFT thinks in modules: it adapts the weight of one, or trains it whole, weight and bias."""
  targets = {owner(path) for path in shapes if path.endswith(A)}
  trained, problems = {owner(path) for path in shapes}, []
  for path in sorted(trained):
    row = in_base[path]
    module = _module(row.name)
    others = {other.leaf for other in in_base.values() if _module(other.name) == module} - {path}
    if row.columns:
      problems.append(f'{path} is only a part of {module}')
    elif '{expert}' in row.name:
      problems.append(f'{path} is no module of its own')
    elif path == 'embedding' and config.tied:
      problems.append('embedding is also the output matrix, which PEFT would leave as it was')
    elif path not in targets and others - trained:
      problems.append(f'{path} is trained without {", ".join(sorted(others - trained))} of the same module')
  if problems:
    raise ValueError(f'PEFT cannot express this for {family}: {some(problems)}')


def _read_settings(settings: Mapping[str, Any], family: str, config: TransformerConfig) -> Lora:
  """The `Lora` of an adapter_config.json.

  PEFT has two rules for names: a target is a regular expression, or a list of ends that begin behind a dot;
  what is trained whole is a list of any ends.
  """
  rows = hf.tensors(family, config)
  _check_settings(settings, transposed=all(row.transposed for row in rows if is_matrix(row.leaf)))
  targets, is_target = settings['target_modules'], lambda end, module: f'.{module}'.endswith(f'.{end}')
  if isinstance(targets, str):
    targets, is_target = [targets], re.fullmatch
  matrices = [row for row in rows if is_matrix(row.leaf)]
  adapted = _leaves_of('target_modules', targets, is_target, matrices, config)
  saved = settings['modules_to_save'] or []
  full = _leaves_of('modules_to_save', saved, lambda end, module: module.endswith(end), rows, config)
  return Lora(
      rank=settings['r'], alpha=settings['lora_alpha'], targets='|'.join(adapted), full='|'.join(full)
  )


def _check_settings(settings: Mapping[str, Any], *, transposed: bool) -> None:
  """Raises `ValueError` unless they describe plain LoRA; what is not known here must be off."""
  if settings.get('peft_type') != 'LORA':
    raise ValueError(f'peft_type={settings.get("peft_type")!r} is not supported; only LORA is')
  if lacking := [name for name in _READ if name not in settings]:
    raise ValueError(f'it lacks {", ".join(lacking)}; save it again with a newer PEFT')
  expected = {
      'bias': ('none',),
      'fan_in_fan_out': (False,) if transposed else (False, True),
      'init_lora_weights': (True, False, 'gaussian', 'eva', 'orthogonal'),  # others change the base as well
  }
  off = lambda name, value: value in expected[name] if name in expected else not value
  unsupported = [
      f'{name}={value!r}'
      for name, value in settings.items()
      if name not in (*_READ, *_HARMLESS) and not off(name, value)
  ]
  if unsupported:
    raise ValueError(f'{", ".join(unsupported)} is not supported; only plain LoRA of one rank and alpha is')


def _leaves_of(field: str, patterns: Sequence[str], matches: Callable, rows, config) -> list[str]:
  """The paths of the parameters whose modules match a pattern, in all layers."""
  leaves, used = set(), set()
  for row in rows:
    modules = [_module(name) for name, _ in row.index(config)]
    hits = [{pattern for pattern in patterns if matches(pattern, module)} for module in modules]
    if not any(hits):
      continue
    if not all(hits):
      raise ValueError(f'{field}={patterns} takes {_module(row.name)} of some layers; only all are supported')
    leaves.add(row.leaf)
    used.update(*hits)
  if strangers := sorted(set(patterns) - used):
    raise ValueError(f'{field} has {", ".join(strangers)}, which is no part of this model that it can be for')
  return sorted(leaves)


def _module(tensor_name: str) -> str:
  return tensor_name.rpartition('.')[0]
