"""LoRA and partly trained models: a small tree of adapters beside a base that never changes.

    W' = W + α/r A B

A run of this kind trains `params = {'adapters': tree}` and keeps `slow = {'base': weights}`. Algorithms,
rollouts and scorers know nothing of it: `adapt` shows them `view(models)`, where `models['policy']` is the
base with the adapters attached and `models['reference']` is the base itself. So policy and reference share
their weights; gradients and optimizer moments are as large as the adapters; and the base is never copied.

Adapters are a nested dict laid out as the base is: for its `layers/query` [L, D, K, H] they hold
`layers/query_lora_a` [L, D, r] and `layers/query_lora_b` [L, r, K, H], which `transformer` multiplies with
where they are attached. Parts that are trained whole (`Lora.full`) stand under their own names. All are
float32, whatever the dtype of the base.

`save_peft` and `load_peft` exchange adapters with directories of Hugging Face's PEFT, without it.

Source: Hu et al., 2021, https://arxiv.org/abs/2106.09685, eq. 3.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import json
import math
import os
from pathlib import Path
import re
import shutil
from typing import Any

from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np

from rlx.errors import some
from rlx.models import hf, safetensors, transformer
from rlx.models.transformer import Params, TransformerConfig
from rlx.types import Algorithm, Key, Models, StatefulRollout, World

Adapters = dict

_A, _B = '_lora_a', '_lora_b'
_NUM_IN_OUT = {  # the matrices that `transformer` multiplies with: how many axes go in, and come out
    'query': (1, 2),
    'key': (1, 2),
    'value': (1, 2),
    'attention_out': (2, 1),
    'gate': (1, 1),
    'up': (1, 1),
    'down': (1, 1),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lora:
  """What is trained of a model.

  Attributes:
    rank: r, columns of A; 0 for no adapters, where only `full` is trained.
    alpha: α; the product A B counts α/r times. 0 without adapters.
    targets: regular expression for the whole path of a matrix that gets an adapter, such as
      'layers/(query|value)'; '' without adapters.
    full: the same for what is trained whole beside them, such as 'final_norm/scale' (`modules_to_save` in
      PEFT); '' for nothing.
  """

  rank: int
  alpha: float
  targets: str
  full: str

  def __post_init__(self):
    with_adapters = self.rank > 0 and self.alpha > 0 and self.targets != ''
    if not with_adapters and (self.rank, self.alpha, self.targets) != (0, 0, ''):
      raise ValueError(
          f'lora.rank={self.rank}, alpha={self.alpha}, targets={self.targets!r} do not go together: adapters '
          "need a rank and an alpha above 0 and targets; to train only `full`, set 0, 0 and ''"
      )
    if not self.targets and not self.full:
      raise ValueError("lora.targets='' and full='' train nothing; name a parameter in one of them")
    for field in ('targets', 'full'):
      pattern = getattr(self, field)
      try:
        re.compile(pattern)
      except re.error as error:
        raise ValueError(f'lora.{field}={pattern!r} is no regular expression: {error}') from error

  @property
  def scale(self) -> float:
    """What the product A B is multiplied by."""
    return self.alpha / self.rank


def init(key: jax.Array, base: Params, lora: Lora) -> Adapters:
  """Adapters with which the model is still its base: A is random, B is zero, `full` parts are copies.

  A is uniform in ± 1/sqrt(fan-in), as PEFT's (Kaiming with a = sqrt(5)).

  Args:
    key: consumed.
    base: weights, such as those of `transformer.init`.
    lora: what to train.
  Returns:
    A nested dict of float32 arrays that share no memory with the base.
  Raises:
    ValueError: `targets` or `full` match nothing, match the same parameter, or no adapter fits a target.
  """
  base = _flatten(base)
  targets, full = _matches(base, lora, 'targets'), _matches(base, lora, 'full')
  _check_targets(targets, full)
  adapters = {path: jnp.array(base[path], jnp.float32, copy=True) for path in full}
  for path, a_key in zip(targets, jax.random.split(key, len(targets)), strict=True):
    stack, in_shape, out_shape = _split_shape(path, base[path].shape)
    bound = math.prod(in_shape) ** -0.5
    a_shape = (*stack, *in_shape, lora.rank)
    adapters[path + _A] = jax.random.uniform(a_key, a_shape, jnp.float32, -bound, bound)
    adapters[path + _B] = jnp.zeros((*stack, lora.rank, *out_shape), jnp.float32)
  return _unflatten(adapters)


def attach(base: Params, adapters: Adapters, lora: Lora) -> Params:
  """The adapted model as `transformer.forward` and `decode` take it: x W + (x A) (α/r B).

  Args:
    base: weights; the arrays themselves are in the result, but for those that are trained whole.
    adapters: from `init`.
    lora: as given to `init`.
  Raises:
    ValueError: an adapter belongs to nothing in the base.
  """
  base, adapters = _flatten(base), _flatten(adapters)
  _check_owners(base, adapters)
  scaled = {path: leaf * lora.scale if path.endswith(_B) else leaf for path, leaf in adapters.items()}
  return _unflatten({**base, **scaled})


def merge(base: Params, adapters: Adapters, lora: Lora) -> Params:
  """The adapted model as plain weights, W + α/r A B, for export.

  Args:
    base: weights.
    adapters: from `init`.
    lora: as given to `init`.
  Returns:
    Weights in the structure and dtypes of the base; computed in float32. What was not trained is the base's.
  Raises:
    ValueError: an adapter belongs to nothing in the base.
  """
  merged, adapters = _flatten(base), _flatten(adapters)
  _check_owners(merged, adapters)
  for path in [_owner(path) for path in adapters if not path.endswith(_B)]:
    weights = merged[path]
    if path in adapters:
      trained = adapters[path]
    else:
      product = _product(path, adapters[path + _A], adapters[path + _B], weights.shape)
      trained = weights.astype(jnp.float32) + lora.scale * product
    merged[path] = trained.astype(weights.dtype)
  return _unflatten(merged)


def view(models: Models, lora: Lora) -> Models:
  """The models as an algorithm sees them: `policy` and `reference` in the place of `adapters` and `base`.

  Args:
    models: with `base` and `adapters`. Others stay, so a `reference` of its own takes the base's place.
    lora: as given to `init`.
  Raises:
    ValueError: there is a `policy` besides.
  """
  if 'policy' in models:
    raise ValueError("the models have a 'policy' beside 'adapters'; with LoRA, its weights are slow['base']")
  others = {name: model for name, model in models.items() if name not in ('base', 'adapters')}
  policy = attach(models['base'], models['adapters'], lora)
  return {'policy': policy, 'reference': models['base'], **others}


def adapt(algorithm: Algorithm, lora: Lora) -> Algorithm:
  """The same algorithm for `params = {'adapters': .., ..}` and `slow = {'base': .., ..}`.

  Its functions see `view(models)`. Its `track` sees lagging models without the base, which never moves, and
  the trained ones with the merged weights as `policy`: so a lagging copy of the policy is plain weights, and
  costs their memory.

  Args:
    algorithm: any that asks for `models['policy']`.
    lora: as given to `init`.
  """

  def track(slow: Models, params: Models, update: jax.Array) -> Models:
    others = {name: model for name, model in params.items() if name != 'adapters'}
    policy = merge(slow['base'], params['adapters'], lora)
    lagging = {name: model for name, model in slow.items() if name != 'base'}
    return {'base': slow['base'], **algorithm.track(lagging, {'policy': policy, **others}, update)}

  def draw(models: Models, world: World, key: Key):
    return algorithm.rollout(view(models, lora), world, key)

  def warm_up(models: Models, world: World, key: Key) -> World:
    return algorithm.rollout.warm_up(view(models, lora), world, key)

  rollout = draw
  if isinstance(algorithm.rollout, StatefulRollout):
    rollout = dataclasses.replace(algorithm.rollout, draw=draw, warm_up=warm_up)
  return Algorithm(
      rollout=rollout,
      reward=lambda models, batch, key: algorithm.reward(view(models, lora), batch, key),
      advantage=lambda models, batch, key: algorithm.advantage(view(models, lora), batch, key),
      loss=lambda models, batch, key: algorithm.loss(view(models, lora), batch, key),
      track=track,
  )


# --- directories of PEFT ------------------------------------------------------------------------------------

_SETTINGS, _WEIGHTS = 'adapter_config.json', 'adapter_model.safetensors'
_PREFIX = 'base_model.model.'  # what PEFT puts before the names of the base
_READ = ('peft_type', 'r', 'lora_alpha', 'target_modules', 'modules_to_save')
_HARMLESS = (  # settings that change neither what the adapters are nor what they do
    'auto_mapping', 'base_model_name_or_path', 'inference_mode', 'lora_dropout', 'megatron_core',
    'peft_version', 'qalora_group_size', 'revision', 'runtime_config', 'task_type',
)


def save_peft(
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
  leaves, shapes = _flatten(adapters), _adapter_shapes(config, lora)
  if (found := {path: leaf.shape for path, leaf in leaves.items()}) != shapes:
    differ = sorted(path for path in {**found, **shapes} if found.get(path) != shapes.get(path))
    raise ValueError(f'the adapters are not those of this config and lora; these differ: {some(differ)}')
  table = _peft_table(family, config, lora, shapes)
  fetch = lambda row, index: row.from_leaf(np.asarray(leaves[row.leaf][index]))
  outgoing = [
      safetensors.Written(name, row.shape, np.dtype(np.float32), functools.partial(fetch, row, index))
      for row in table
      for name, index in row.index(config)
  ]
  _write(Path(directory).absolute(), _peft_settings(family, config, lora, shapes, base_model), outgoing)


def load_peft(
    directory: str | os.PathLike, config: TransformerConfig, *, family: str
) -> tuple[Adapters, Lora]:
  """The adapters of a directory that PEFT, or `save_peft`, wrote, and the `Lora` that describes them.

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
    shapes = _adapter_shapes(config, lora)
    table = _peft_table(family, config, lora, shapes)
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
  return _unflatten({path: jnp.asarray(leaf) for path, leaf in leaves.items()}), lora


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


def _peft_settings(family, config, lora: Lora, shapes: Mapping, base_model: str) -> dict[str, Any]:
  """What adapter_config.json says; all that PEFT knows besides is off by default."""
  in_base = {row.leaf: row for row in hf.tensors(family, config)}
  modules = lambda paths: sorted({_module(in_base[path].name).rpartition('{layer}.')[2] for path in paths})
  targets = [_owner(path) for path in shapes if path.endswith(_A)]
  return {
      'base_model_name_or_path': base_model,
      'bias': 'none',
      'fan_in_fan_out': not all(in_base[path].transposed for path in targets),  # GPT-2 stores [in, out]
      'inference_mode': True,
      'init_lora_weights': True,
      'lora_alpha': lora.alpha,
      'lora_dropout': 0.0,
      'modules_to_save': modules(path for path in shapes if path == _owner(path)) or None,
      'peft_type': 'LORA',
      'r': lora.rank,
      'target_modules': modules(targets),
      'task_type': 'CAUSAL_LM',
  }


def _adapter_shapes(config: TransformerConfig, lora: Lora) -> dict[str, tuple[int, ...]]:
  make = lambda key: init(key, transformer.init(key, config), lora)
  return {path: leaf.shape for path, leaf in _flatten(jax.eval_shape(make, jax.random.key(0))).items()}


def _peft_table(family: str, config: TransformerConfig, lora: Lora, shapes: Mapping) -> list[hf.Tensor]:
  """Every tensor of a PEFT directory, as `hf.tensors` describes those of a model.

  A is [r, in] there and B [out, r], the transposes of ours with the axes of each side joined.
  """
  in_base = {row.leaf: row for row in hf.tensors(family, config)}
  _check_expressible(family, config, in_base, shapes)
  table = []
  for path in shapes:
    row = in_base[_owner(path)]
    if path == row.leaf:
      table.append(dataclasses.replace(row, name=_PREFIX + row.name))
      continue
    num_out, num_in = row.shape if row.transposed else row.shape[::-1]
    part, shape = ('A', (lora.rank, num_in)) if path.endswith(_A) else ('B', (num_out, lora.rank))
    name = f'{_PREFIX}{_module(row.name)}.lora_{part}.weight'
    table.append(hf.Tensor(name=name, leaf=path, shape=shape, transposed=True))
  return table


def _check_expressible(family, config, in_base: Mapping[str, hf.Tensor], shapes: Mapping) -> None:
  """PEFT thinks in modules: it adapts the weight of one, or trains it whole, weight and bias."""
  targets = {_owner(path) for path in shapes if path.endswith(_A)}
  trained, problems = {_owner(path) for path in shapes}, []
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
  _check_settings(settings, transposed=all(row.transposed for row in rows if _is_matrix(row.leaf)))
  targets, is_target = settings['target_modules'], lambda end, module: f'.{module}'.endswith(f'.{end}')
  if isinstance(targets, str):
    targets, is_target = [targets], re.fullmatch
  matrices = [row for row in rows if _is_matrix(row.leaf)]
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


# --- paths and shapes ---------------------------------------------------------------------------------------


def _flatten(tree) -> dict[str, jax.Array]:
  return traverse_util.flatten_dict(tree, sep='/')


def _unflatten(leaves) -> dict:
  return traverse_util.unflatten_dict(leaves, sep='/')


def _matches(base: dict, lora: Lora, field: str) -> list[str]:
  """The paths that one of the expressions matches."""
  pattern = getattr(lora, field)
  matched = [path for path in sorted(base) if re.fullmatch(pattern, path)]
  if pattern and not matched:
    raise ValueError(f'lora.{field}={pattern!r} matches no parameter; there are {", ".join(sorted(base))}')
  return matched


def _is_matrix(path: str) -> bool:
  """Whether an adapter fits."""
  return path.rpartition('/')[2] in _NUM_IN_OUT


def _check_targets(targets: list[str], full: list[str]) -> None:
  others = [path for path in targets if not _is_matrix(path)]
  if others:
    raise ValueError(
        f'lora.targets matches {", ".join(others)}; adapters fit {", ".join(_NUM_IN_OUT)}: narrow it, and '
        'train other parts through lora.full'
    )
  both = [path for path in targets if path in full]
  if both:
    raise ValueError(f'lora.targets and lora.full both match {", ".join(both)}; narrow one of them')


def _owner(path: str) -> str:
  """The parameter that an adapter's array belongs to."""
  return path.removesuffix(_A).removesuffix(_B)


def _check_owners(base: dict, adapters: dict) -> None:
  strays = [path for path in adapters if _owner(path) not in base]
  if strays:
    raise ValueError(
        f'the adapters {", ".join(strays)} belong to nothing in the base; use those of the same model'
    )


def _split_shape(path: str, shape: tuple[int, ...]) -> tuple[tuple, tuple, tuple]:
  """Shape of a matrix as stacked layers, axes that go in, and axes that come out."""
  num_in, num_out = _NUM_IN_OUT[path.rpartition('/')[2]]
  first_in, first_out = len(shape) - num_in - num_out, len(shape) - num_out
  return shape[:first_in], shape[first_in:first_out], shape[first_out:]


def _product(path: str, a: jax.Array, b: jax.Array, shape: tuple[int, ...]) -> jax.Array:
  """A B in the shape of the matrix that it is added to."""
  stack, _, _ = _split_shape(path, shape)
  a, b = a.reshape(*stack, -1, a.shape[-1]), b.reshape(*stack, a.shape[-1], -1)
  return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST).reshape(shape)
