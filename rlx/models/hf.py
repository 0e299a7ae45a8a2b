"""Hugging Face directories, both ways and without torch: `load` and `save`, `shape_of` and `config_json`.

`tensors` is the one table of names and layouts that both directions use; `hf_config` is the same for
config.json. What is read goes to the devices one tensor at a time, straight into the stacked and sharded
arrays of `transformer`; what is written is fetched one tensor at a time. Neither holds a model on the host.
One process reads and writes whole tensors: parameters spread over several hosts need another `_outgoing`.

Names may have another beginning than in the table: GPT-2's own directory stores the bare decoder (`h.0...`
for `transformer.h.0...`), Gemma 3's a language model in a multimodal one. The embedding's name tells.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import functools
import itertools
import json
import os
from pathlib import Path
import shutil
from typing import Any

from flax import traverse_util
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding
import numpy as np

from rlx import sharding
from rlx.errors import some
from rlx.models import hf_config, safetensors, transformer
from rlx.models.hf_config import config_json
from rlx.models.language import LanguageModel
from rlx.models.model import Model
from rlx.models.safetensors import Stored, Written
from rlx.models.transformer import Params, TransformerConfig
from rlx.types import Models

__all__ = ['config_json', 'export', 'family_of', 'hf', 'load', 'save', 'saver', 'shape_of', 'tensors']

_WEIGHTS, _INDEX = 'model.safetensors', 'model.safetensors.index.json'
HEAD = 'score.weight'  # of `AutoModelForSequenceClassification`
_METADATA = {'format': 'pt', 'producer': 'rlx'}  # transformers 4 wants the one; the other says what is ours
_BESIDE_WEIGHTS = (  # what `export` copies
    'tokenizer*', 'special_tokens_map.json', 'added_tokens.json', 'vocab.*', 'merges.txt', 'spiece.model',
    'chat_template*', 'additional_chat_templates', 'generation_config.json',
)
_HARMLESS = ('.rotary_emb.inv_freq', '.attn.bias', '.attn.masked_bias')  # how names of buffers end
_VISION = ('vision_tower.', 'multi_modal_projector.')  # the rest of a multimodal model


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tensor:
  """How a leaf of our parameters is stored.

  Attributes:
    name: in the file, with `{layer}` and `{expert}` for the leading axes [L] and [L, E] of the leaf.
    leaf: path of ours, such as 'layers/query'.
    shape: in the file.
    transposed: the file has [out, in], the leaf [*in, *out].
    columns: which of the last axis of the tensor in the file are the leaf; None for all.
  """

  name: str
  leaf: str
  shape: tuple[int, ...]
  transposed: bool = False
  columns: tuple[int, int] | None = None

  def index(self, config: TransformerConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The name of each tensor in the file, and its index in the leading axes of the leaf."""
    sizes = {'layer': config.num_layers, 'expert': config.num_experts}
    axes = [axis for axis in sizes if f'{{{axis}}}' in self.name]
    for index in itertools.product(*(range(sizes[axis]) for axis in axes)):
      yield self.name.format(**dict(zip(axes, index, strict=True))), index

  def to_leaf(self, stored: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A tensor of the file in the layout of ours, a view where possible."""
    if self.columns:
      stored = stored[..., slice(*self.columns)]
    return (stored.T if self.transposed else stored).reshape(shape)

  def from_leaf(self, leaf: np.ndarray) -> np.ndarray:
    """The inverse of `to_leaf`; of a tensor with other leaves in it, the columns of this one."""
    if self.transposed:
      return leaf.reshape(self.shape[::-1]).T
    width = self.columns[1] - self.columns[0] if self.columns else self.shape[-1]
    return leaf.reshape(*self.shape[:-1], width)


# --- the table --------------------------------------------------------------------------------------------


def tensors(family: str, config: TransformerConfig) -> tuple[Tensor, ...]:
  """Every tensor of a family's directory, in the order in which it is written.

  Args:
    family: a `model_type` of transformers.
    config: the shape.
  Raises:
    ValueError: the family is not supported.
  """
  hf_config.check_family(family)
  return _gpt2_tensors(config) if family == 'gpt2' else _llama_tensors(family, config)


def _llama_tensors(family, config):
  """Llama and all that took its names: `q_proj.weight` is [heads * size, width]."""
  width, size = config.width, config.head_size
  row = lambda name, leaf, *shape: Tensor(name=name, leaf=leaf, shape=shape, transposed=len(shape) == 2)
  table = _ends('model.embed_tokens.weight', 'model.norm', config)
  norms = {'input_layernorm': 'attention_norm', 'post_attention_layernorm': 'mlp_norm'}
  if config.post_norms:
    norms |= {
        'post_attention_layernorm': 'post_attention_norm',
        'pre_feedforward_layernorm': 'mlp_norm',
        'post_feedforward_layernorm': 'post_mlp_norm',
    }
  heads, kv_heads = config.num_heads * size, config.num_kv_heads * size
  matrices = {  # name: (leaf, out, in, whether it has a bias)
      'self_attn.q_proj': ('query', heads, width, config.qkv_bias),
      'self_attn.k_proj': ('key', kv_heads, width, config.qkv_bias),
      'self_attn.v_proj': ('value', kv_heads, width, config.qkv_bias),
      'self_attn.o_proj': ('attention_out', width, heads, config.out_bias),
  }
  mlp = {'gate': (config.mlp_size, width), 'up': (config.mlp_size, width), 'down': (width, config.mlp_size)}
  if config.num_experts:
    matrices['mlp.gate'] = ('router', config.num_experts, width, False)
    names = {f'mlp.experts.{{expert}}.{name}_proj': f'expert_{name}' for name in mlp}
  else:
    names = {f'mlp.{name}_proj': name for name in mlp}
  for (name, leaf), shape in zip(names.items(), mlp.values(), strict=True):
    matrices[name] = (leaf, *shape, config.mlp_bias)
  layer = 'model.layers.{layer}.'
  table += [row(f'{layer}{name}.weight', f'layers/{leaf}/scale', width) for name, leaf in norms.items()]
  for name, (leaf, num_out, num_in, has_bias) in matrices.items():
    table.append(row(f'{layer}{name}.weight', f'layers/{leaf}', num_out, num_in))
    if has_bias:
      table.append(row(f'{layer}{name}.bias', f'layers/{leaf}_bias', num_out))
  if config.qk_norm:
    table.append(row(f'{layer}self_attn.q_norm.weight', 'layers/query_norm/scale', size))
    table.append(row(f'{layer}self_attn.k_norm.weight', 'layers/key_norm/scale', size))
  return tuple(table)


def _gpt2_tensors(config):
  """GPT-2: matrices are [in, out], and those of queries, keys and values are one."""
  width, layer = config.width, 'transformer.h.{layer}.'
  row = lambda name, leaf, *shape: Tensor(name=name, leaf=leaf, shape=shape)
  table = _ends('transformer.wte.weight', 'transformer.ln_f', config)
  table.append(row('transformer.wpe.weight', 'position_embedding', config.context_length, width))
  for name, leaf in (('ln_1', 'attention_norm'), ('ln_2', 'mlp_norm')):
    table.append(row(f'{layer}{name}.weight', f'layers/{leaf}/scale', width))
    table.append(row(f'{layer}{name}.bias', f'layers/{leaf}/bias', width))
  for i, leaf in enumerate(('query', 'key', 'value')):
    fused = functools.partial(Tensor, columns=(i * width, (i + 1) * width))
    table.append(fused(name=f'{layer}attn.c_attn.weight', leaf=f'layers/{leaf}', shape=(width, 3 * width)))
    table.append(fused(name=f'{layer}attn.c_attn.bias', leaf=f'layers/{leaf}_bias', shape=(3 * width,)))
  matrices = {
      'attn.c_proj': ('attention_out', width, width),
      'mlp.c_fc': ('up', width, config.mlp_size),
      'mlp.c_proj': ('down', config.mlp_size, width),
  }
  for name, (leaf, num_in, num_out) in matrices.items():
    table.append(row(f'{layer}{name}.weight', f'layers/{leaf}', num_in, num_out))
    table.append(row(f'{layer}{name}.bias', f'layers/{leaf}_bias', num_out))
  return tuple(table)


def _ends(embedding, norm, config):
  """What stands before and behind the layers."""
  table = [Tensor(name=embedding, leaf='embedding', shape=(config.vocab_size, config.width))]
  if not config.tied:
    table.append(dataclasses.replace(table[0], name='lm_head.weight', leaf='unembedding'))
  parts = {'weight': 'scale', 'bias': 'bias'} if config.norm == 'layernorm' else {'weight': 'scale'}
  for name, leaf in parts.items():
    table.append(Tensor(name=f'{norm}.{name}', leaf=f'final_norm/{leaf}', shape=(config.width,)))
  return table


# --- reading ----------------------------------------------------------------------------------------------


def hf(
    *, directory: str, context_length: int, dtype: str, param_dtype: str, remat: bool, attention: str,
    decode_attention: str,
) -> Model:
  """A language model that begins from a directory; arguments as for `shape_of`.

  Where only shapes are asked, a random model of the same structure stands for it, and files of weights need
  not be there.

  Raises:
    ValueError: as `shape_of`; or files of weights are there, and damaged, or others than those of the shape.
  """
  shape = shape_of(
      directory=directory, context_length=context_length, dtype=dtype, param_dtype=param_dtype, remat=remat,
      attention=attention, decode_attention=decode_attention,
  )

  if any((Path(directory) / name).exists() for name in (_WEIGHTS, _INDEX)):
    _stored(Path(directory), family_of(directory), shape)

  def load_sharded(mesh):
    shapes = jax.eval_shape(functools.partial(transformer.init, config=shape), jax.random.key(0))
    return load(directory, shape, sharding.shardings(shapes, mesh, transformer.AXES))

  return Model(
      functions=LanguageModel(shape, directory), init=lambda key, models: transformer.init(key, shape),
      load=load_sharded, source=directory, save=saver(directory, shape), axes=transformer.AXES,
  )


def saver(directory: str, shape: TransformerConfig) -> Callable[..., tuple[Path, ...]]:
  """What writes a decoder as a directory like the one that it came from.

  Args:
    directory: with its configuration and tokenizer.
    shape: of the decoder.
  """

  def save_model(folder: Path, own: Params, models: Models) -> tuple[Path, ...]:
    del models
    export(directory, folder / 'model', own, shape)
    return (folder / 'model',)

  return save_model


def shape_of(
    *, directory: str, context_length: int, dtype: str, param_dtype: str, remat: bool, attention: str,
    decode_attention: str,
) -> TransformerConfig:
  """The shape that a directory's config.json describes.

  Args:
    directory: of a model, as `save_pretrained` of transformers writes it or the Hub has it.
    context_length: the longest row, in tokens; 0 for the directory's own.
    dtype: of activations and matrix products.
    param_dtype: that the parameters get, whatever the file has.
    remat: recompute each block in the backward pass.
    attention: how it is computed within rows: 'auto' or the name of a kernel (`TransformerConfig`).
    decode_attention: how it is computed for the newest tokens: likewise.
  Raises:
    ValueError: there is no such directory, or it describes something that the decoder is not.
  """
  family, settings = hf_config.read(Path(directory))
  kernels = {'attention': attention, 'decode_attention': decode_attention}
  numerics = {'dtype': dtype, 'param_dtype': param_dtype, 'remat': remat, **kernels}
  try:
    return hf_config.parse(family, settings, context_length=context_length, **numerics)
  except ValueError as error:
    raise ValueError(f'{directory}: {error}') from error


def family_of(directory: str | os.PathLike) -> str:
  """The family of a directory, one of `hf_config.FAMILIES`.

  Raises:
    ValueError: there is no such directory, or its architecture is not supported.
  """
  return hf_config.read(Path(directory))[0]


def load(
    directory: str | os.PathLike, config: TransformerConfig, shardings: Any = None, *,
    beside: Sequence[str] = (),
) -> Params:
  """The parameters of a directory, in the structure of `transformer.init`.

  Tensors are read, converted and put on the devices one at a time (the experts of a layer at once), so the
  host holds two or three of them beside what it is a device for itself.

  Args:
    directory: as for `shape_of`.
    config: from `shape_of`; the parameters get its `param_dtype`.
    shardings: tree of shardings as the parameters have, such as `sharding.shardings` of their shapes; the
      first device if not given.
    beside: tensors that the files may have besides, such as the head of a classifier.
  Raises:
    ValueError: files are missing or damaged, or their tensors are not those of `config`; names all of them.
  """
  directory = Path(directory)
  table, stored = _stored(directory, family_of(directory), config, beside)
  shapes = _flatten(jax.eval_shape(functools.partial(transformer.init, config=config), jax.random.key(0)))
  if shardings is None:
    places = dict.fromkeys(shapes, SingleDeviceSharding(jax.devices()[0]))
  else:
    places = _flatten(shardings)
  leaves = {row.leaf: _load_leaf(row, config, stored, shapes[row.leaf], places[row.leaf]) for row in table}
  return traverse_util.unflatten_dict({path: leaves[path] for path in shapes}, sep='/')


def _stored(
    directory: Path, family: str, config: TransformerConfig, beside: Sequence[str] = ()
) -> tuple[tuple[Tensor, ...], dict[str, Stored]]:
  """The table of a shape, and what the files have of it, unread; raises as `load`."""
  table = tensors(family, config)
  stored = _find(directory, table)
  _check_tensors(directory, family, config, table, stored, beside)
  return table, stored


def _load_leaf(row, config, stored, like, place):
  """One array of ours on the devices; stacked layers are written into it one by one."""
  if '{layer}' not in row.name:
    array = row.to_leaf(stored[row.name].read(), like.shape)
    return jax.device_put(array.astype(like.dtype, copy=False), place)
  stack, write = jnp.zeros(like.shape, like.dtype, device=place), _make_write(place)
  by_layer = itertools.groupby(row.index(config), key=lambda item: item[1][0])
  for layer, items in by_layer:
    slice_ = jax.device_put(_read_layer(row, items, stored, like), _of_slice(place))
    stack = jax.block_until_ready(write(stack, slice_, layer))  # so that slices do not queue up
  return stack


def _read_layer(row, items, stored, like) -> np.ndarray:
  """A slice of a stack: one tensor of the file, or those of all experts."""
  slice_ = np.empty(like.shape[1:], like.dtype)
  for name, (_, *expert) in items:
    part = slice_[tuple(expert)]
    part[...] = row.to_leaf(stored[name].read(), part.shape)
  return slice_


@functools.lru_cache(maxsize=16)
def _make_write(place):
  """(stack, slice, index) -> the same stack, in its own memory, with the slice in it."""
  write = lambda stack, slice_, i: jax.lax.dynamic_update_index_in_dim(stack, slice_, i, axis=0)
  return jax.jit(write, donate_argnums=0, out_shardings=place)


def _of_slice(place):
  """Where a layer of a stack goes that is itself split so."""
  if isinstance(place, NamedSharding):
    return NamedSharding(place.mesh, PartitionSpec(*place.spec[1:]))
  return place


def _find(directory: Path, table: Sequence[Tensor]) -> dict[str, Stored]:
  """The tensors of a directory's files, by their names in the table."""
  if (directory / _WEIGHTS).exists():
    files = [_WEIGHTS]
  elif (directory / _INDEX).exists():
    files = _files_of(directory / _INDEX)
  else:
    found = ', '.join(sorted(path.name for path in directory.iterdir())[:10])
    raise ValueError(f'{directory} has neither {_WEIGHTS} nor {_INDEX}; it has {found}')
  if absent := [name for name in files if not (directory / name).exists()]:
    raise ValueError(f'{directory} lacks {len(absent)} of {len(files)} files of its index: {some(absent)}')
  stored = {}
  for name in files:
    stored |= safetensors.read_header(directory / name)[0]
  embedding = table[0].name
  prefix, _, last = embedding.partition('.')
  ours = next((name.removesuffix(last) for name in stored if name.endswith(last)), f'{prefix}.')

  def rename(name):
    if name.endswith('lm_head.weight'):
      return 'lm_head.weight'
    return f'{prefix}.{name.removeprefix(ours)}' if name.startswith(ours) else name

  return {rename(name): tensor for name, tensor in stored.items()}


def _files_of(index: Path) -> list[str]:
  try:
    return sorted(set(json.loads(index.read_text())['weight_map'].values()))
  except (ValueError, KeyError, TypeError, AttributeError):
    raise ValueError(f'{index} is not an index of files; fetch it again') from None


def _check_tensors(directory, family, config, table, stored, beside=()):
  wanted = {name: row.shape for row in table for name, _ in row.index(config)}
  harmless = (*_HARMLESS, *beside, *(('lm_head.weight',) if config.tied else ()))
  shape_of = lambda name: list(stored[name].shape)
  problems = [f'{name} {list(shape)} is missing' for name, shape in wanted.items() if name not in stored]
  problems += [
      f'{name} {shape_of(name)} is unknown'
      for name in stored
      if name not in wanted and not name.endswith(harmless) and not any(part in name for part in _VISION)
  ]
  problems += [
      f'{name} is {shape_of(name)}, not {list(shape)}'
      for name, shape in wanted.items()
      if name in stored and stored[name].shape != shape
  ]
  problems += [
      f'{name} holds {stored[name].dtype}, not floating-point numbers'
      for name in wanted
      if name in stored and stored[name].dtype not in safetensors.FLOATS
  ]
  if problems:
    raise ValueError(f'the tensors of {directory} are not those of this {family} config: {some(problems)}')
  embedding, head = stored[table[0].name], stored.get('lm_head.weight')
  if config.tied and head is not None and not head.equals(embedding):
    raise ValueError(
        f'{directory}: lm_head.weight is not the embedding, though config.json says tie_word_embeddings; set '
        'that to false'
    )


# --- writing ----------------------------------------------------------------------------------------------


def save(
    directory: str | os.PathLike,
    params: Params,
    config: TransformerConfig,
    *,
    family: str,
    settings: Mapping[str, Any],
    max_shard_bytes: float = 5e9,
) -> None:
  """Writes a directory that transformers loads: config.json and weights, in the dtype of the parameters.

  The directory appears whole or not at all. One that an earlier call wrote is replaced.

  Args:
    directory: to be made.
    params: as from `transformer.init`; merge adapters first.
    config: their shape.
    family: a `model_type` of transformers that can express `config`.
    settings: entries of config.json beside the shape, such as `bos_token_id` and `eos_token_id`.
    max_shard_bytes: of one file of weights.
  Raises:
    ValueError: the family cannot express the config, the parameters are others, or the directory holds
      something else.
  """
  settings = _with_dtype(config_json(family, config, settings), params)
  _write(Path(directory), params, config, family, settings, {}, max_shard_bytes)


def export(
    source: str | os.PathLike, directory: str | os.PathLike, params: Params, config: TransformerConfig, *,
    score: jax.Array | None = None,
) -> None:
  """Writes trained parameters as the model that they came from: its config.json, tokenizer and chat template.

  Args:
    source: directory that `params` were loaded from.
    directory: to be made.
    params: as from `load`; merge adapters first.
    config: as from `shape_of`.
    score: [D] of a reward model; what is written is then one for sequence classification with one label, and
      has no output matrix.
  Raises:
    ValueError: `config` is not the shape of `source`, or as for `save`.
  """
  source = Path(source)
  family, settings = hf_config.read(source)
  if settings.get('model_type') != json.loads((source / 'config.json').read_text())['model_type']:
    raise ValueError(f'{source} is multimodal, and only its text was loaded; save it as family {family!r}')
  hf_config.check_same(config, family, settings, f'the config of {source}')
  beside = {path.name: path for pattern in _BESIDE_WEIGHTS for path in sorted(source.glob(pattern))}
  settings, more = _with_dtype(settings, params), ()
  if score is not None:
    settings = _of_classifier(family, settings)
    config = dataclasses.replace(config, tied=True)
    params = {name: x for name, x in params.items() if name != 'unembedding'}
    fetch = lambda: np.asarray(score)[None]
    more = (Written(HEAD, (1, config.width), np.dtype(score.dtype), fetch),)
  _write(Path(directory), params, config, family, settings, beside, 5e9, more)


def _of_classifier(family: str, settings: Mapping[str, Any]) -> dict[str, Any]:
  """The config.json of a model for sequence classification with one label."""
  name = {'gemma3_text': 'Gemma3Text', 'gpt2': 'GPT2'}.get(family)
  name = name or hf_config.FAMILIES[family][0].removesuffix('ForCausalLM')
  ends = settings['eos_token_id']
  pad = settings['pad_token_id'] if settings.get('pad_token_id') is not None else ends
  return {
      **settings, 'architectures': [f'{name}ForSequenceClassification'],
      'id2label': {'0': 'LABEL_0'}, 'label2id': {'LABEL_0': 0},
      'pad_token_id': pad[0] if isinstance(pad, list) else pad,
  }


def _write(directory, params, config, family, settings, beside, max_shard_bytes, more=()):
  """Everything into a sibling, which then takes the directory's place."""
  check_place(directory)
  outgoing = [*_outgoing(params, config, tensors(family, config)), *more]
  directory = directory.absolute()
  partial = directory.with_name(f'{directory.name}.partial')
  shutil.rmtree(partial, ignore_errors=True)
  partial.mkdir(parents=True)
  (partial / 'config.json').write_text(json.dumps(settings, indent=2, sort_keys=True) + '\n')
  for name, path in beside.items():
    (shutil.copytree if path.is_dir() else shutil.copyfile)(path, partial / name)
  _write_weights(partial, outgoing, max_shard_bytes)
  if directory.exists():
    old = directory.with_name(f'{directory.name}.old')
    shutil.rmtree(old, ignore_errors=True)
    directory.rename(old)
    partial.rename(directory)
    shutil.rmtree(old)
  else:
    partial.rename(directory)


def _write_weights(directory, outgoing, max_shard_bytes):
  shards, size = [[]], 0
  for tensor in outgoing:
    size += tensor.num_bytes
    if shards[-1] and size > max_shard_bytes:
      shards.append([])
      size = tensor.num_bytes
    shards[-1].append(tensor)
  if len(shards) == 1:
    return safetensors.write(directory / _WEIGHTS, shards[0], _METADATA)
  names = [f'model-{i + 1:05}-of-{len(shards):05}.safetensors' for i in range(len(shards))]
  for name, shard in zip(names, shards, strict=True):
    safetensors.write(directory / name, shard, _METADATA)
  weight_map = {tensor.name: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
  index = {'metadata': {'total_size': sum(t.num_bytes for t in outgoing)}, 'weight_map': weight_map}
  (directory / _INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + '\n')


def _outgoing(params, config, table) -> list[Written]:
  """The tensors of all files, layer by layer; each is fetched from the devices when it is written."""
  leaves = _flatten(params)
  _check_params(leaves, config)
  parts = {}  # of the tensors: (index, name) -> rows, more than one where a tensor holds several leaves
  for row in table:
    for name, index in row.index(config):
      parts.setdefault((index, name), []).append(row)

  def fetch(rows, index):
    pick = lambda leaf: np.asarray(leaf[index] if index else leaf)
    columns = [row.from_leaf(pick(leaves[row.leaf])) for row in rows]
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=-1)

  def outgoing(index, name):
    rows = parts[index, name]
    dtype = np.dtype(leaves[rows[0].leaf].dtype)
    return Written(name, rows[0].shape, dtype, functools.partial(fetch, rows, index))

  return [outgoing(*key) for key in sorted(parts, key=lambda key: key[0][:1])]  # what has no layer is first


def _check_params(leaves, config):
  shapes = _flatten(jax.eval_shape(functools.partial(transformer.init, config=config), jax.random.key(0)))
  found, wanted = ({path: x.shape for path, x in tree.items()} for tree in (leaves, shapes))
  problems = [f'{path} {list(shape)} is missing' for path, shape in wanted.items() if path not in found]
  problems += [f'{path} {list(shape)} is unknown' for path, shape in found.items() if path not in wanted]
  problems += [
      f'{path} is {list(found[path])}, not {list(shape)}'
      for path, shape in wanted.items()
      if path in found and found[path] != shape
  ]
  if problems:
    raise ValueError(f'the parameters are not those of the config (merge adapters first): {some(problems)}')


def check_place(directory: Path) -> None:
  """Raises `ValueError` where something is in the place of a directory that `save` did not write."""
  if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
    return
  weights = sorted(directory.glob('*.safetensors'))
  try:
    ours = bool(weights) and safetensors.read_header(weights[0])[1].get('producer') == 'rlx'
  except ValueError:  # no such file, for all its name
    ours = False
  if not ours:
    raise ValueError(f'{directory} is there and was not written by rlx; choose another directory')
  written = ('config.json', '*.safetensors', _INDEX, *_BESIDE_WEIGHTS)
  others = sorted(x.name for x in directory.iterdir() if not any(map(x.match, written)))
  if others:
    raise ValueError(f'{directory} holds {", ".join(others)}, no part of a model; choose another directory')


def _with_dtype(settings: Mapping[str, Any], params: Params) -> dict[str, Any]:
  """The settings with the dtype of the parameters, under the names of transformers 4 and 5."""
  names = {'dtype', 'torch_dtype'} & settings.keys() or {'dtype'}
  return {**settings, **dict.fromkeys(names, str(np.dtype(params['embedding'].dtype)))}


def _flatten(tree) -> dict[str, Any]:
  return traverse_util.flatten_dict(tree, sep='/')
