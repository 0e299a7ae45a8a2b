"""A decoder for the language-model families, as plain functions over a tree of arrays.

Why plain functions and not flax.linen or nnx: a parameter tree that *is* a nested dict makes each of these
a single line, with no module object to split from its state. A population is `jax.vmap(init)(keys)`; a
sharded initialisation is `jax.jit(init, out_shardings=...)`; layers are stacked by `vmap` and run by `scan`;
an adapter is another dict beside this one; importing weights is renaming keys. flax serves where it is the
better tool: `flax.struct` for records and `flax.traverse_util` for trees.

Rows are contiguous: token t of a row is at column t and at position t, padding is at the end. Causality
alone then keeps padding out of every real token, and position ids cannot depend on it.

`forward` reads whole rows. `decode` reads one token a row, with the keys and values of the past in two
parts: those of the prompt (computed once for all samples of a group, never written again) and those of the
tokens decoded so far, which are carried through the loop and updated in place.
"""

import dataclasses
import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.kernels.decode_attention import Prefix, decode_attention
from rlx.kernels.decode_attention_reference import CACHE_BLOCK
from rlx.kernels.packed_attention import packed_attention
from rlx.models import blocks
from rlx.models.blocks import softcap
from rlx.models.shape import TransformerConfig

Params = dict

# Name of a parameter, or of an adapter of it -> meaning of its trailing axes; see `sharding.py`.
AXES = {
    'embedding': ('vocab', 'embed'),
    'position_embedding': (None, 'embed'),
    'unembedding': ('vocab', 'embed'),
    'query': ('embed', 'heads', None),
    'key': ('embed', 'heads', None),
    'value': ('embed', 'heads', None),
    'attention_out': ('heads', None, 'embed'),
    'gate': ('embed', 'mlp'),
    'up': ('embed', 'mlp'),
    'down': ('mlp', 'embed'),
    'router': ('embed', None),
    'expert_gate': (None, 'embed', 'mlp'),
    'expert_up': (None, 'embed', 'mlp'),
    'expert_down': (None, 'mlp', 'embed'),
    'query_bias': ('heads', None),
    'key_bias': ('heads', None),
    'value_bias': ('heads', None),
    'gate_bias': ('mlp',),
    'up_bias': ('mlp',),
    **dict.fromkeys(('query_lora_a', 'key_lora_a', 'value_lora_a'), ('embed', None)),
    **dict.fromkeys(('query_lora_b', 'key_lora_b', 'value_lora_b'), (None, 'heads', None)),
    'attention_out_lora_a': ('heads', None, None),
    'attention_out_lora_b': (None, 'embed'),
    **dict.fromkeys(('gate_lora_a', 'up_lora_a'), ('embed', None)),
    **dict.fromkeys(('gate_lora_b', 'up_lora_b'), (None, 'mlp')),
    'down_lora_a': ('mlp', None),
    'down_lora_b': (None, 'embed'),
}


class KV(NamedTuple):
  """Keys and values of all layers, each [L, rows, columns, kv heads, head size]."""

  keys: jax.Array
  values: jax.Array

  @property
  def columns(self) -> int:
    """How many tokens it has room for."""
    return self.keys.shape[2]

  def of_layer(self, array: jax.Array) -> jax.Array:
    """[rows, columns, kv heads, head size] of keys or values of one layer, as they are kept here."""
    return array

  def with_column(self, layer: int | jax.Array, column: jax.Array, key: jax.Array, value: jax.Array) -> 'KV':
    """With the key and value [rows, 1, kv heads, head size] of a token at the same column of every row."""
    write = lambda old, new: jax.lax.dynamic_update_slice(
        old, new[None].astype(old.dtype), (layer, 0, column, 0, 0)
    )
    return KV(write(self.keys, key), write(self.values, value))

  def with_tokens(
      self, layer: int | jax.Array, rows: jax.Array, columns: jax.Array, key: jax.Array, value: jax.Array
  ) -> 'KV':
    """With keys and values [S, N, kv heads, head size] of tokens at columns [S, N]; not behind the last."""
    write = lambda old, new: old.at[layer, rows, columns].set(new.astype(old.dtype), mode='drop')
    return KV(write(self.keys, key), write(self.values, value))


class KVByHead(NamedTuple):
  """Keys and values of one layer or several, each [L, rows, kv heads, columns, head size].

  The batched products of a GPU's library read them where they are; of `KV` they want a copy for every token.
  The methods are those of `KV`.
  """

  keys: jax.Array
  values: jax.Array

  @property
  def columns(self) -> int:
    return jax.tree.leaves(self)[0].shape[3]

  def of_layer(self, array: jax.Array) -> jax.Array:
    return jnp.swapaxes(array, 1, 2)

  def with_column(self, layer, column, key, value) -> 'KVByHead':
    write = lambda old, new: jax.lax.dynamic_update_slice(
        old, jnp.swapaxes(new, 1, 2)[None].astype(old.dtype), (layer, 0, 0, column, 0)
    )
    return KVByHead(write(self.keys, key), write(self.values, value))

  def with_tokens(self, layer, rows, columns, key, value) -> 'KVByHead':
    write = lambda old, new: old.at[layer, rows, :, columns].set(new.astype(old.dtype), mode='drop')
    return KVByHead(write(self.keys, key), write(self.values, value))


class Places(NamedTuple):
  """Where the tokens of packed rows belong; several sequences stand in a row, and may share a beginning.

  A token sees columns up to its own, from `starts` up to `shared_ends` and from `own_starts` on. All are
  [B, T] int32; without `shared_ends` no sequence shares anything, and it sees those from `own_starts` on.
  """

  positions: jax.Array  # within its sequence
  starts: jax.Array  # first column of the sequence's beginning
  shared_ends: jax.Array | None  # column behind that beginning
  own_starts: jax.Array  # first column of what is the sequence's own


@functools.partial(jax.jit, static_argnames=('config',))
def init(key: jax.Array, config: TransformerConfig) -> Params:
  """Random parameters: normal with variance 1/fan-in, what feeds the residual stream over 2 L besides.

  A fixed deviation of 0.02 is right at width 2,000 and makes a model of width 64 learn several times slower.

  Args:
    key: consumed.
    config: the shape.
  Returns:
    A nested dict; under 'layers' every array has a leading axis [L].
  """
  embedding_key, position_key, layers_key, unembedding_key = jax.random.split(key, 4)
  normal = functools.partial(blocks.scaled_normal, dtype=config.param_dtype, scale=config.width**-0.5)
  params = {
      'embedding': normal(embedding_key, (config.vocab_size, config.width)),
      'layers': jax.vmap(functools.partial(blocks.init_layer, config=config))(
          jax.random.split(layers_key, config.num_layers)
      ),
      'final_norm': blocks.init_norm(config, config.width),
  }
  if config.positions == 'learned':
    params['position_embedding'] = normal(position_key, (config.context_length, config.width))
  if not config.tied:
    params['unembedding'] = normal(unembedding_key, (config.vocab_size, config.width))
  return params


def forward(
    params: Params, config: TransformerConfig, tokens: jax.Array, places: Places | None = None
) -> tuple[jax.Array, KV]:
  """The final hidden states of whole rows, and the keys and values that they computed.

  Args:
    params: from `init`.
    config: the shape.
    tokens: [B, T] int32, contiguous rows; what stands in the padding does not matter. Or [B, T, D], what is
      read in place of the embeddings of tokens (`embed`).
    places: where the tokens belong if a row is several sequences; one sequence from column 0 if not given.
  Returns:
    [B, T, D] hidden states after the last norm, and `KV` with [L, B, T, ...] (unused, it costs nothing).
  Raises:
    ValueError: T is longer than the context.
  """
  chex.assert_rank(tokens, {2, 3})
  num_rows, length = tokens.shape[:2]
  if places is None:
    _check_length(config, length)
    zeros = jnp.zeros((num_rows, length), jnp.int32)
    positions = jnp.broadcast_to(jnp.arange(length), (num_rows, length))
    places = Places(positions, starts=zeros, shared_ends=None, own_starts=zeros)

  in_parts = config.remat and sharding.tensor_shards() > 1  # what is kept of the stream before each block

  def layer(x, inputs):
    weights, reach, turns = inputs
    x = sharding.whole_columns(x, length) if in_parts else x
    if config.remat:  # once for the block that is computed anew and for its gradient
      weights = sharding.whole(weights, config.dtype)

    def attend(query, key, value):
      context = packed_attention(
          query, key, value, **places._asdict(), **blocks.attention_options(config, reach),
          implementation=config.attention,
      )
      return context, KV(key, value)

    x, kv = blocks.block(weights, config, x, places.positions, turns, attend)
    return (sharding.own_columns(x) if in_parts else x), kv

  layer = jax.checkpoint(layer, policy=None if config.remat else _is_dear, prevent_cse=config.remat)
  x = _embed(params, config, tokens, places.positions)
  x = sharding.own_columns(x) if in_parts else x
  x, kv = jax.lax.scan(layer, x, (params['layers'], *blocks.layer_pattern(config)))
  x = sharding.whole_columns(x, length) if in_parts else x
  return _last_norm(params, config, x), kv


_CHEAP = frozenset((
    'add', 'sub', 'mul', 'div', 'neg', 'abs', 'max', 'min', 'exp', 'log', 'tanh', 'logistic', 'erf',
    'rsqrt', 'sqrt', 'square', 'integer_pow', 'pow', 'sin', 'cos', 'select_n', 'eq', 'ne', 'lt', 'le', 'gt',
    'ge', 'and', 'or', 'not', 'convert_element_type', 'stop_gradient', 'broadcast_in_dim', 'reshape',
    'transpose', 'squeeze', 'slice', 'concatenate', 'pad', 'iota',
))


def _is_dear(primitive, *args, **how) -> bool:
  """Whether a gradient keeps what was computed; else it is computed anew from what was kept.

  What is done to each number alone costs less than writing it down for each layer and reading it back: a
  forward and backward pass of four layers of width 128 took 0.52 CPU-seconds with all of it kept, and 0.43
  so. Products, sums and loops are kept; weights that were made whole are not, or a device would hold those of
  all layers.
  """
  del args
  return primitive.name not in _CHEAP and not sharding.makes_whole(how)


def empty_cache(config: TransformerConfig, num_rows: int, length: int) -> KV:
  """Room for `length` decoded tokens of `num_rows` rows."""
  shape = (config.num_layers, num_rows, length, config.num_kv_heads, config.head_size)
  return KV(jnp.zeros(shape, config.dtype), jnp.zeros(shape, config.dtype))


def decode(
    params: Params,
    config: TransformerConfig,
    tokens: jax.Array,
    column: jax.Array,
    prompt_lengths: jax.Array,
    prompt_kv: KV,
    cache: KV,
) -> tuple[jax.Array, KV]:
  """One decoding step: the hidden states that predict what follows `tokens`.

  Rows are `num_prompts` groups of equal size, in order; a group shares the keys and values of its prompt.
  Entries behind a prompt's length are masked by that length, so what they hold does not matter.

  Args:
    params: from `init`.
    config: the shape.
    tokens: [B] int32, the newest token of each row; or [B, D], read in place of its embedding.
    column: [] int32, how many tokens each row had decoded before it; where the cache is written.
    prompt_lengths: [P] int32, in tokens.
    prompt_kv: `KV` with [L, P, prompt columns, ...], from `forward`.
    cache: `KV` with [L, B, decoded columns, ...], from `empty_cache`; carried and updated in place.
  Returns:
    [B, D] hidden states and the updated cache.
  """
  num_prompts, num_rows = prompt_lengths.shape[0], tokens.shape[0]
  group_size = num_rows // num_prompts
  lengths = jnp.repeat(prompt_lengths, group_size)
  positions = (lengths + column)[:, None]  # [B, 1]
  prompt_columns, cache_columns = (jnp.arange(kv.columns)[None] for kv in (prompt_kv, cache))

  def layer(x, cache, index, inputs):
    weights, reach, turns, *prompt = inputs
    prompt_keys, prompt_values = (prompt_kv.of_layer(x) for x in prompt)
    seen = blocks.visible(positions, jnp.broadcast_to(prompt_columns, (num_rows, prompt_columns.size)), reach)
    seen &= (prompt_columns < lengths[:, None])[:, None]
    decoded = blocks.visible(positions, lengths[:, None] + cache_columns, reach)

    def attend(query, key, value):
      updated = cache.with_column(index, column, key, value)
      keys, values = (cache.of_layer(x[index]) for x in updated)
      if config.decode_attention in ('auto', 'reference'):  # keys are read once a group, not once a row
        past = (prompt_keys, prompt_values, seen)
        recent = (keys, values, decoded)
        return blocks.attention(config, query, [past, recent]), updated
      prefix = Prefix(prompt_keys, prompt_values, prompt_lengths, jnp.arange(num_rows) // group_size)
      context = decode_attention(
          query, keys, values, positions, prefix=prefix, **blocks.attention_options(config, reach),
          implementation=config.decode_attention,
      )
      return context, updated

    return blocks.block(weights, config, x, positions, turns, attend)

  x = _embed(params, config, tokens[:, None], positions)
  x, cache = _through_layers(layer, params, config, x, cache, prompt_kv)
  return _last_norm(params, config, x)[:, 0], cache


def decode_rows(
    params: Params,
    config: TransformerConfig,
    tokens: jax.Array,
    positions: jax.Array,
    cache: KV,
) -> tuple[jax.Array, KV]:
  """One decoding step of rows that are at different places: the hidden states that predict what follows.

  Token t of a row has its keys and values at column t of the cache, prompt and decoded alike. What stands
  behind a token is masked by its position; some kernels ask that it be finite.

  Args:
    params: from `init`.
    config: the shape.
    tokens: [S, N] int32, the newest tokens of each row; N is 1 but where several are tried at once. Or
      [S, N, D], read in place of their embeddings.
    positions: [S] int32, where the first of them stands; their keys and values are written from there on,
      as far as the cache goes.
    cache: `KV` with [L, S, columns, ...]; carried and updated in place.
  Returns:
    [S, N, D] hidden states and the updated cache.
  """
  num_rows, num_tokens = tokens.shape[:2]
  positions = positions[:, None] + jnp.arange(num_tokens)[None]
  rows = jnp.arange(num_rows)[:, None]

  def layer(x, cache, index, inputs):
    weights, reach, turns = inputs

    def attend(query, key, value):
      updated = cache.with_tokens(index, rows, positions, key, value)
      keys, values = (cache.of_layer(x[index]) for x in updated)
      context = decode_attention(
          query, keys, values, positions,
          **blocks.attention_options(config, reach), implementation=config.decode_attention,
      )
      return context, updated

    return blocks.block(weights, config, x, positions, turns, attend)

  x = _embed(params, config, tokens, positions)
  x, cache = _through_layers(layer, params, config, x, cache)
  return _last_norm(params, config, x), cache


def for_decoding(params: Params, config: TransformerConfig, *, unstacked: bool) -> Params:
  """The weights as a decoding loop reads them again and again: in the dtype of computation.

  Args:
    params: from `init`.
    config: the shape.
    unstacked: layers as a tuple, for compilers that copy a layer out of a stack before they use it. `decode`
      and `decode_rows` take them so, and then keys and values too (`unstack`).
  """
  cast = lambda path, x: x.astype(config.dtype) if path[-1].key in AXES else x
  params = jax.tree_util.tree_map_with_path(cast, params)
  if not unstacked:
    return params
  layer = lambda i: jax.tree.map(lambda x: x[i], params['layers'])
  return {**params, 'layers': tuple(blocks.side_by_side(layer(i)) for i in range(config.num_layers))}


def unstack(kv: KV) -> KVByHead:
  """Keys and values of each layer by themselves: tuples of [1, rows, kv heads, columns, head size].

  With a few columns more, that nobody sees, up to a number that products and kernels can cut into blocks.
  """
  more = ((0, 0), (0, 0), (0, 0), (0, -kv.columns % CACHE_BLOCK), (0, 0))
  by_head = (jnp.pad(jnp.swapaxes(x, 2, 3), more) for x in kv)
  return KVByHead(*(tuple(x[i : i + 1] for i in range(x.shape[0])) for x in by_head))


def _through_layers(layer, params, config, x, cache, prompt_kv=()):
  """`layer(x, cache [L, ...], index, inputs)` of one layer after the other, stacked or not."""
  pattern = blocks.layer_pattern(config)
  if not isinstance(params['layers'], tuple):
    inputs = (params['layers'], *pattern, *prompt_kv)
    step = lambda carry, xs: (layer(*carry, *xs), None)
    return jax.lax.scan(step, (x, cache), (jnp.arange(config.num_layers), inputs))[0]
  caches = []
  for i, weights in enumerate(params['layers']):
    of_layer = jax.tree.map(lambda y: y[i], pattern)
    inputs = (weights, *of_layer, *(y[i][0] for y in prompt_kv))
    x, own = layer(x, type(cache)(cache.keys[i], cache.values[i]), 0, inputs)
    caches.append(own)
  return x, type(cache)(*(tuple(y) for y in zip(*caches, strict=True)))


def split(
    params: Params, config: TransformerConfig, num_lower: int
) -> tuple[tuple[Params, TransformerConfig], tuple[Params, TransformerConfig]]:
  """A decoder as two, for those who read or change the residual stream between two blocks.

  The lower one has no last norm: its hidden states are the stream behind block `num_lower`, and the upper one
  reads them in place of embeddings. One after the other they are the whole, in `forward`, `decode` and
  `decode_rows` alike; each keeps its own keys and values.

  Args:
    params: from `init`.
    config: the shape.
    num_lower: blocks of the lower part.
  Returns:
    Parameters and shape of the lower part, and those of the upper.
  Raises:
    ValueError: a part has no blocks.
  """
  if not 0 < num_lower < config.num_layers:
    raise ValueError(f'num_lower={num_lower} of {config.num_layers} blocks leaves a part without one')

  def part(first, last):
    sliding = tuple(i - first for i in config.sliding_layers if first <= i < last)
    shape = dataclasses.replace(
        config, num_layers=last - first, sliding_layers=sliding, window=config.window if sliding else 0
    )
    return {**params, 'layers': jax.tree.map(lambda x: x[first:last], params['layers'])}, shape

  (lower, lower_shape), (upper, upper_shape) = part(0, num_lower), part(num_lower, config.num_layers)
  del lower['final_norm']
  if config.positions == 'learned':  # they are in the stream already
    upper['position_embedding'] = jnp.zeros_like(params['position_embedding'])
  return (lower, lower_shape), (upper, upper_shape)


def embed(params: Params, config: TransformerConfig, tokens: jax.Array) -> jax.Array:
  """[..., D] embeddings of tokens [...], as the first block reads them; without learned positions."""
  x = _look_up(params['embedding'], tokens).astype(config.dtype)
  return x * jnp.asarray(config.width**0.5, config.dtype) if config.scale_embedding else x


def unembedding(params: Params) -> jax.Array:
  """[V, D] output matrix: the embedding, where tied."""
  return params['unembedding'] if 'unembedding' in params else params['embedding']


def logits(params: Params, config: TransformerConfig, hidden: jax.Array) -> jax.Array:
  """[..., V] float32 logits of hidden states [..., D]."""
  weights = unembedding(params).astype(config.dtype)
  return softcap(
      jnp.einsum('...d,vd->...v', hidden, weights, preferred_element_type=jnp.float32),
      config.logit_softcap,
  )


def num_parameters(params: Params) -> int:
  """How many numbers a tree of arrays or shapes holds."""
  return sum(leaf.size for leaf in jax.tree.leaves(params))


def _embed(params, config, tokens, positions):
  """What enters the first block, [B, T, D], for tokens [B, T] or what stands for their embeddings."""
  x = embed(params, config, tokens) if tokens.ndim == 2 else tokens.astype(config.dtype)
  if config.positions == 'learned':
    x += params['position_embedding'][positions].astype(config.dtype)
  return x


def _look_up(table, tokens):
  """Rows of a table. The gradient of indexing is a scatter, which a CPU does entry by entry; for a small
  vocabulary the product with one-hot rows says the same and was several times faster there."""
  if table.shape[0] > 512:
    return table[tokens]
  one_hot = jax.nn.one_hot(tokens, table.shape[0], dtype=table.dtype)
  return jnp.einsum('...v,vd->...d', one_hot, table, precision=jax.lax.Precision.HIGHEST)


def _last_norm(params, config, x):
  """The norm behind the last block; the lower part of a decoder (`split`) has none."""
  return blocks.norm(params['final_norm'], config, x) if 'final_norm' in params else x


def _check_length(config, length):
  if length > config.context_length:
    raise ValueError(
        f'rows of {length} tokens do not fit the context of {config.context_length}; '
        'shorten the prompts or max_tokens, or raise context_length'
    )
