"""The parts of a block of `transformer.py`: parameters, norms, projections, feed-forward part, attention.

Plain functions of the weights of one layer and of the shape. Nothing here knows where the past is kept:
`block` is handed a function that attends.
"""

from collections.abc import Callable
import functools
import math

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from rlx import sharding
from rlx.models import experts, rope
from rlx.models.shape import TransformerConfig

_ACTIVATIONS: dict[str, Callable] = {
    'silu': jax.nn.silu,
    'gelu': functools.partial(jax.nn.gelu, approximate=False),
    'gelu_tanh': functools.partial(jax.nn.gelu, approximate=True),
}
_MASKED = -1e30  # finite, so that a row with nothing to attend to is not NaN


# --- parameters ---------------------------------------------------------------------------------------------


def scaled_normal(key, shape, dtype, scale):
  """Normal numbers of standard deviation `scale`."""
  return (scale * jax.random.normal(key, shape)).astype(dtype)


def init_norm(config: TransformerConfig, size: int) -> dict:
  """A norm over `size` entries that does nothing but normalise."""
  scale = jnp.zeros(size) if config.norm_offset else jnp.ones(size)
  norm = {'scale': scale.astype(config.param_dtype)}
  if config.norm == 'layernorm':
    norm['bias'] = jnp.zeros(size, config.param_dtype)
  return norm


def init_layer(key: jax.Array, config: TransformerConfig) -> dict:
  """Random parameters of one block."""
  width, heads, kv_heads, size = config.width, config.num_heads, config.num_kv_heads, config.head_size
  keys = iter(jax.random.split(key, 8))
  normal = functools.partial(scaled_normal, dtype=config.param_dtype, scale=width**-0.5)
  residual = (2 * config.num_layers) ** -0.5
  zeros = functools.partial(jnp.zeros, dtype=config.param_dtype)
  layer = {
      'attention_norm': init_norm(config, width),
      'query': normal(next(keys), (width, heads, size)),
      'key': normal(next(keys), (width, kv_heads, size)),
      'value': normal(next(keys), (width, kv_heads, size)),
      'attention_out': normal(next(keys), (heads, size, width), scale=residual * (heads * size) ** -0.5),
      'mlp_norm': init_norm(config, width),
      **_init_mlp(keys, config, normal, residual),
  }
  if config.qkv_bias:
    layer['query_bias'] = zeros((heads, size))
    layer['key_bias'] = zeros((kv_heads, size))
    layer['value_bias'] = zeros((kv_heads, size))
  if config.out_bias:
    layer['attention_out_bias'] = zeros(width)
  if config.qk_norm:
    layer['query_norm'] = init_norm(config, size)
    layer['key_norm'] = init_norm(config, size)
  if config.post_norms:
    layer['post_attention_norm'] = init_norm(config, width)
    layer['post_mlp_norm'] = init_norm(config, width)
  return layer


def _init_mlp(keys, config, normal, residual):
  """A feed-forward part, or a router and the feed-forward parts [E, ...] that it chooses from."""
  width, size = config.width, config.mlp_size
  prefix, stack = ('expert_', (config.num_experts,)) if config.num_experts else ('', ())
  mlp = {
      f'{prefix}up': normal(next(keys), (*stack, width, size)),
      f'{prefix}down': normal(next(keys), (*stack, size, width), scale=residual * size**-0.5),
  }
  if config.gated:
    mlp[f'{prefix}gate'] = normal(next(keys), (*stack, width, size))
  if config.num_experts:
    mlp['router'] = normal(next(keys), (width, config.num_experts))
  if config.mlp_bias:
    zeros = functools.partial(jnp.zeros, dtype=config.param_dtype)
    mlp |= {f'{name}_bias': zeros(size) for name in mlp if name != 'down'} | {'down_bias': zeros(width)}
  return mlp


# --- a block ------------------------------------------------------------------------------------------------


def block(weights, config: TransformerConfig, x, positions, turns, attend: Callable):
  """One block; `attend(query, key, value) -> (context, extra)` knows where the past is kept.

  `extra` (new keys and values, or the updated cache) is handed back beside the stream.
  """
  y = norm(weights['attention_norm'], config, x)
  query, key, value = _linear(y, weights, ('query', 'key', 'value'), config)
  if config.qk_norm:
    query = _rms(query, weights['query_norm']['scale'], config)
    key = _rms(key, weights['key_norm']['scale'], config)
  if config.positions == 'rope':
    query, key = rope.rotate(query, positions, *turns), rope.rotate(key, positions, *turns)
  context, extra = attend(query, key, value)
  (y,) = _linear(context, weights, ('attention_out',), config, num_in=2)
  if config.post_norms:
    y = norm(weights['post_attention_norm'], config, y)
  x += y
  y = (_experts if config.num_experts else _mlp)(weights, config, norm(weights['mlp_norm'], config, x))
  if config.post_norms:
    y = norm(weights['post_mlp_norm'], config, y)
  return x + y, extra


def _mlp(weights, config, x):
  """The feed-forward part of every token, [B, T, D]."""
  return _feed_forward(config, x, lambda names, y: _linear(y, weights, names, config))


def _feed_forward(config, x, project):
  """`project(names, x)` gives the product of x with each of the matrices."""
  activation = _ACTIVATIONS[config.activation]
  if config.gated:
    hidden, gate = project(('up', 'gate'), x)
    hidden *= activation(gate)
  else:
    hidden = activation(*project(('up',), x))
  (y,) = project(('down',), hidden)
  return y


def _experts(weights, config, x):
  """The feed-forward part of every token, [B, T, D], as a mixture of those that its router takes."""
  rows = x.reshape(-1, config.width)
  times = functools.partial(jnp.matmul, preferred_element_type=jnp.float32)
  logits = _product(times, rows, weights['router'], config)

  names = ('up', 'gate', 'down') if config.gated else ('up', 'down')
  matrices = [_whole(weights[f'expert_{name}'], config) for name in names]

  def feed_forward(rows, sizes, matrices):
    of = dict(zip(names, matrices, strict=True))
    project = lambda names, y: [experts.grouped_matmul(y, of[name], sizes) for name in names]
    return _feed_forward(config, rows, project)

  return experts.mixture(
      rows, logits, feed_forward, matrices, hidden_axes=[1 if name == 'down' else 2 for name in names],
      experts_per_token=config.experts_per_token, normalise=config.normalise_experts,
  ).reshape(x.shape)


def _linear(x, weights, names, config, *, num_in=1):
  """x [B, T, *in] times each of some matrices [*in, *out], plus a bias [*out] where there is one.

  As one product of two-dimensional arrays: the gradient of the same `einsum` over [B, T] was compiled, on a
  CPU, into transposing copies that made the whole step two to three times slower.

  Where `weights` also holds a low-rank update of the matrix, `<name>_lora_a` [*in, r] and `<name>_lora_b`
  [r, *out], it is added without being multiplied out.
  """
  rows = x.reshape(-1, math.prod(x.shape[2:]))
  product = functools.partial(_flat_product, num_in=num_in)
  joined = '+'.join(names)
  if len(names) > 1 and joined in weights:
    products = weights[joined].product(rows)
  elif len(names) > 1 and sharding.tensor_shards() > 1:
    products = _product(_columns, rows, [weights[name] for name in names], config)
  else:
    products = [_product(product, rows, weights[name], config) for name in names]

  def finished(name, y):
    if f'{name}_lora_a' in weights:
      low = _product(product, rows, weights[f'{name}_lora_a'], config)
      y += _product(_flat_product, low, weights[f'{name}_lora_b'], config)
    y = y.reshape(*x.shape[:2], *y.shape[1:])
    bias = weights.get(f'{name}_bias')
    return y if bias is None else y + jnp.broadcast_to(bias.astype(config.dtype), y.shape)

  return [finished(name, y) for name, y in zip(names, products, strict=True)]


@flax.struct.dataclass
class SideBySide:
  """Matrices that take the same rows, as one.

  Attributes:
    matrix: [in, sum of outs].
    shapes: of what each gives for a row.
  """

  matrix: jax.Array
  shapes: tuple[tuple[int, ...], ...] = flax.struct.field(pytree_node=False)

  def product(self, rows: jax.Array) -> list[jax.Array]:
    """[N, *out] of each, for rows [N, in]."""
    ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
    parts = jnp.split(rows @ self.matrix, ends, axis=1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, self.shapes, strict=True)]


def side_by_side(weights: dict) -> dict:
  """A layer's weights with those that take the same rows put together, once; XLA would do so for every token.

  On a mesh that splits their columns they are left alone.
  """
  for names in (('query', 'key', 'value'), ('up', 'gate')):
    if sharding.tensor_shards() == 1 and all(name in weights for name in names):
      matrices = [weights[name] for name in names]
      flat = jnp.concatenate([matrix.reshape(matrix.shape[0], -1) for matrix in matrices], axis=1)
      weights = {name: x for name, x in weights.items() if name not in names}
      weights['+'.join(names)] = SideBySide(flat, tuple(matrix.shape[1:] for matrix in matrices))
  return weights


def _flat_product(rows, matrix, *, num_in=1):
  """[N, *out] of rows [N, in] and a matrix [*in, *out], as a product of two-dimensional arrays."""
  fan_in = math.prod(matrix.shape[:num_in])
  return (rows @ matrix.reshape(fan_in, -1)).reshape(-1, *matrix.shape[num_in:])


@jax.custom_vjp
def _columns(rows, matrices):
  """`_flat_product` of rows with several matrices [in, *out], whose outputs are split over `tensor`.

  What each says of the gradient of the rows is summed before it is summed over the devices; the compiler
  would sum over the devices once for each matrix.
  """
  return [_flat_product(rows, matrix) for matrix in matrices]


def _columns_backward(saved, cotangents):
  rows, matrices = saved
  flat = lambda x: x.reshape(x.shape[0], -1)
  grads = [(rows.T @ flat(g)).reshape(m.shape) for m, g in zip(matrices, cotangents, strict=True)]
  back = lambda pairs: sum(flat(g) @ flat(m).T for m, g in pairs)
  pairs = list(zip(matrices, cotangents, strict=True))
  split = [pair for pair in pairs if pair[0].shape[1] % sharding.tensor_shards() == 0]
  whole = [pair for pair in pairs if pair[0].shape[1] % sharding.tensor_shards()]
  own = sharding.sum_of_parts(lambda _, pairs: back(pairs), (), split, axes=[(1, 1)] * len(split))
  return own + back(whole), grads


_columns.defvjp(lambda rows, matrices: (_columns(rows, matrices), (rows, matrices)), _columns_backward)


def _product(product: Callable, rows, matrix, config):
  """`product(rows, matrix)` in the dtype of computation; it may be several matrices."""
  return product(rows, _whole(matrix, config))


def _whole(matrix, config):
  """Matrices in the dtype of computation. A shard of one is made whole, and once more for a gradient: it is
  not kept in between (`transformer.forward`)."""
  return jax.tree.map(lambda x: x.astype(config.dtype), sharding.whole(matrix, config.dtype))


def norm(weights, config: TransformerConfig, x):
  """The norm of the stream [..., D], computed in float32."""
  if config.norm == 'rmsnorm':
    return _rms(x, weights['scale'], config)
  y = jax.nn.standardize(x.astype(jnp.float32), epsilon=config.norm_eps)
  scale, bias = (jnp.broadcast_to(weights[n].astype(jnp.float32), y.shape) for n in ('scale', 'bias'))
  return (y * scale + bias).astype(config.dtype)


def _rms(x, scale, config):
  x = x.astype(jnp.float32)
  x *= jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + config.norm_eps)
  scale = jnp.broadcast_to(scale.astype(jnp.float32), x.shape)
  return (x * (1 + scale if config.norm_offset else scale)).astype(config.dtype)


# --- attention ----------------------------------------------------------------------------------------------


def visible(query_positions, key_positions, window):
  """[B, Tq, Tk] bool: causal, and at most `window` tokens back."""
  distance = query_positions[:, :, None] - key_positions[:, None, :]
  return (distance >= 0) & (distance < window)


def attention_options(config: TransformerConfig, reach) -> dict:
  """What the kernels ask for beside arrays. Without sliding windows their size is known while tracing, which
  some kernels need."""
  return {
      'scale': config.query_scale or config.head_size**-0.5,
      'softcap': config.attention_softcap,
      'window': reach if config.window else config.context_length,
  }


def attention(config: TransformerConfig, query, parts):
  """Softmax attention of queries [B, Tq, K, H] over the concatenation of several stretches of past.

  A stretch is (keys, values, mask [B, Tq, Tk]); its keys [P, Tk, Kv, H] may have fewer rows than the
  queries, each then serving the B / P consecutive rows of one group.
  """
  num_rows, length, num_heads, size = query.shape
  kv_heads = config.num_kv_heads
  query *= jnp.asarray(config.query_scale or size**-0.5, query.dtype)
  scores = []
  for key, _, mask in parts:
    grouped = query.reshape(key.shape[0], -1, length, kv_heads, num_heads // kv_heads, size)
    score = jnp.einsum('pgtkjh,pskh->pgkjts', grouped, key, preferred_element_type=jnp.float32)
    score = score.reshape(num_rows, kv_heads, num_heads // kv_heads, length, -1)
    score = softcap(score, config.attention_softcap)
    scores.append(jnp.where(mask[:, None, None], score, _MASKED))
  weights = jax.nn.softmax(jnp.concatenate(scores, axis=-1), axis=-1).astype(config.dtype)
  context, start = 0, 0
  for key, value, _ in parts:
    part = weights[..., start : start + key.shape[1]]
    start += key.shape[1]
    part = part.reshape(value.shape[0], -1, *part.shape[1:])
    attended = jnp.einsum('pgkjts,pskh->pgtkjh', part, value)
    context += attended.reshape(num_rows, length, num_heads, size)
  return context


def softcap(x: jax.Array, cap: float) -> jax.Array:
  """cap * tanh(x / cap), or `x` where `cap` is 0. Source: Gemma 2, section 2."""
  return cap * jnp.tanh(x / cap) if cap else x


# --- how far layers see, and how they turn ------------------------------------------------------------------


def layer_pattern(config: TransformerConfig) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
  """Per layer: how far it sees in tokens [L], and its rotary frequencies [L, H/2] and their scale [L]."""
  slides = np.isin(np.arange(config.num_layers), config.sliding_layers)
  reach = np.where(slides, config.window, config.context_length)
  unscaled = slides & (config.local_rope_theta > 0)
  frequencies = np.where(unscaled[:, None], *_frequencies(config))
  scale = np.where(unscaled, 1.0, _rope_scale(config))
  return jnp.asarray(reach), (jnp.asarray(frequencies, jnp.float32), jnp.asarray(scale, jnp.float32))


def _frequencies(config) -> tuple[np.ndarray, np.ndarray]:
  """Rotary frequencies of layers with a base of their own, and of all others."""
  local = rope.frequencies(config.head_size, config.local_rope_theta or config.rope_theta)
  scaled = rope.frequencies(
      config.head_size,
      config.rope_theta,
      scaling=config.rope_scaling,
      factor=config.rope_factor,
      original_context=config.rope_original_context,
      slow_turns=config.rope_slow_turns,
      fast_turns=config.rope_fast_turns,
      truncate=config.rope_truncate,
  )
  return local, scaled


def _rope_scale(config) -> float:
  if config.rope_scaling != 'yarn':
    return 1.0
  return config.rope_attention_factor or rope.yarn_attention_factor(config.rope_factor)
