"""Networks of pictures: convolutions in front of any policy, value or critic.

Source: sizes of the 2015 DQN, (32, 64, 64) channels, kernels (8, 4, 3), strides (4, 2, 1), then 512 units:
Mnih et al., 2015, https://doi.org/10.1038/nature14236; those of MinAtar, one layer of 16 channels, kernel 3,
then 128 units: Young and Tian, 2019, https://arxiv.org/abs/1903.03176.
"""

from collections.abc import Callable
import dataclasses
import math

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment
from rlx.kernels.convolution import convolution
from rlx.models import mlp
from rlx.models.networks import Network, Policy, behind
from rlx.types import Key


def convolutional(
    env: Environment, *, network: Callable[[Environment], Network | Policy], channels: tuple[int, ...],
    kernels: tuple[int, ...], strides: tuple[int, ...], activation: str, scale: float,
    channels_first: bool = False,
) -> Network | Policy:
  """A network behind convolutions without padding, whose outputs it sees as a vector.

  Args:
    env: with observations [H, W, C].
    network: `env -> network`, such as `categorical` and `state_value` with their numbers; its `hidden` layers
      are those behind the convolutions.
    channels: of each layer.
    kernels: height and width of each.
    strides: of each.
    activation: behind each.
    scale: pictures are multiplied by it (1 / 255 for bytes).
    channels_first: observations are [C, H, W], as gymnasium stacks frames.
  Raises:
    ValueError: there are not as many numbers of each, observations are no pictures, or they are too small.
  """
  shape = env.observation_shape
  if len(shape) != 3 or not len(channels) == len(kernels) == len(strides):
    raise ValueError(
        f'channels={channels}, kernels={kernels}, strides={strides} of observations {shape}: as many of '
        'each, and pictures [H, W, C]'
    )
  height, width, depth = (*shape[1:], shape[0]) if channels_first else shape
  for kernel, stride in zip(kernels, strides, strict=True):
    height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    if min(height, width) < 1:
      raise ValueError(f'kernels={kernels}, strides={strides}: nothing is left of pictures {shape}')
  features = height * width * channels[-1]
  inner = network(dataclasses.replace(env, observation_shape=(features,)))
  between, depths = mlp.activation(activation), (depth, *channels[:-1])
  weights = jax.nn.initializers.variance_scaling(2.0, 'fan_in', 'truncated_normal')

  def init(key: Key):
    network_key, *keys = jax.random.split(key, len(channels) + 1)
    sizes = zip(keys, kernels, depths, channels, strict=True)
    layers = [
        {'kernel': weights(k, (size, size, num_in, num_out)), 'bias': jnp.zeros(num_out)}
        for k, size, num_in, num_out in sizes
    ]
    return {'convolutions': layers, 'network': inner.init(network_key)}

  def see(params, observations: jax.Array):
    before = observations.shape[:-3]
    x = scale * observations.reshape(math.prod(before), *shape)
    x = jnp.moveaxis(x, 1, -1) if channels_first else x
    for layer, stride in zip(params['convolutions'], strides, strict=True):
      x = convolution(x, layer['kernel'], stride=stride, implementation='auto')
      x = between(x + layer['bias'].reshape(1, 1, 1, -1))
    return params['network'], x.reshape(*before, features)

  return dataclasses.replace(behind(inner, see), init=init)
