"""Multi-layer perceptrons as parameter trees, alone and as ensembles."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from rlx.types import Key

Params = Any
Activation = Callable[[jax.Array], jax.Array]

_NORM_EPS = 1e-6


def init(
    key: Key, sizes: Sequence[int], *, scale: float, final_scale: float, layer_norm: bool
) -> Params:
  """Normal weights of variance gain² / inputs, and zero biases.

  Not orthogonal ones, as is the custom with PPO: several QR factorisations in one program were seen to wait
  for each other for ever on a CPU with two cores (jaxlib 0.10.2).

  Args:
    key: for the weights.
    sizes: of the input, the hidden layers and the output.
    scale: gain of the hidden layers.
    final_scale: gain of the last layer.
    layer_norm: whether hidden layers are normalised before their activation.
  Returns:
    `{'layers': [{'kernel', 'bias', ['norm_scale', 'norm_bias']}, ...]}`, float32.
  Raises:
    ValueError: a layer has no units.
  """
  if min(sizes) < 1:
    raise ValueError(f'layers of {(*sizes,)} units, from the input to the output: at least 1 each')
  keys = jax.random.split(key, len(sizes) - 1)
  layers = []
  for i, (num_in, num_out) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
    last = i == len(sizes) - 2
    gain = final_scale if last else scale
    weights = jax.nn.initializers.variance_scaling(gain**2, 'fan_in', 'truncated_normal')
    layer = {'kernel': weights(keys[i], (num_in, num_out)), 'bias': jnp.zeros(num_out)}
    if layer_norm and not last:
      layer |= init_norm(num_out)
    layers.append(layer)
  return {'layers': layers}


def init_norm(num: int) -> Params:
  """What makes a layer of `num` units one that is normalised before its activation."""
  return {'norm_scale': jnp.ones(num), 'norm_bias': jnp.zeros(num)}


def apply(params: Params, x: jax.Array, activation: Activation) -> jax.Array:
  """The output for inputs [..., sizes[0]]: [..., sizes[-1]] float32."""
  *hidden, last = params['layers']
  x = apply_hidden(hidden, x, activation)
  return jnp.dot(x, last['kernel']) + _row(last['bias'], x)


def apply_hidden(layers: Sequence[Params], x: jax.Array, activation: Activation) -> jax.Array:
  """What layers make of inputs, each with its norm, if it has one, and its activation."""
  for layer in layers:
    x = jnp.dot(x, layer['kernel']) + _row(layer['bias'], x)
    x = activation(_normalised(layer, x) if 'norm_scale' in layer else x)
  return x


def init_ensemble(key: Key, num: int, sizes: Sequence[int], **shape) -> Params:
  """`num` members of `init`, each from its own key; every leaf gains a leading [num]."""
  return jax.vmap(lambda k: init(k, sizes, **shape))(jax.random.split(key, num))


def apply_ensemble(params: Params, x: jax.Array, activation: Activation) -> jax.Array:
  """Every member's output for the same inputs [..., sizes[0]]: [N, ..., sizes[-1]]."""
  return jax.vmap(lambda member: apply(member, x, activation))(params)


def activation(name: str) -> Activation:
  """The function that a config means: 'relu', 'tanh', 'elu', 'gelu', 'silu' or 'identity'.

  Raises:
    ValueError: it is none of them.
  """
  known = {
      'relu': jax.nn.relu, 'tanh': jnp.tanh, 'elu': jax.nn.elu, 'gelu': jax.nn.gelu, 'silu': jax.nn.silu,
      'identity': lambda x: x,
  }
  if name not in known:
    raise ValueError(f'activation={name!r} is none of {sorted(known)}')
  return known[name]


def _row(vector: jax.Array, x: jax.Array) -> jax.Array:
  """[D] as [1, ..., D], for x [..., D]: ranks are not promoted silently."""
  return vector.reshape((1,) * (x.ndim - 1) + vector.shape)


def _normalised(layer, x):
  centred = x - x.mean(axis=-1, keepdims=True)
  unit = centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axis=-1, keepdims=True) + _NORM_EPS)
  return unit * _row(layer['norm_scale'], x) + _row(layer['norm_bias'], x)
