"""How long an update of a network of pictures takes in a loop, by implementation of its convolutions.

Run as `python -m rlx.kernels.benchmarks.convolution`. All implementations take turns on the same arrays.
The table gives medians of the CPU time of an update, of those in the loop of one program, and the time of
XLA's over that of each.
"""

import argparse
import functools
import time

import jax
import jax.numpy as jnp

from rlx.kernels.benchmarks import turns
from rlx.kernels.convolution import convolution

# Pictures, rows of an update, and (kernel, channels, stride) of each layer.
NETWORKS = {
    'MinAtar, 10 x 10 x 4': ((10, 10, 4), 1024, ((3, 16, 1),)),
    'Atari, 84 x 84 x 4': ((84, 84, 4), 32, ((8, 32, 4), (4, 64, 2), (3, 64, 1))),
}
UPDATES = 8  # of a program


def kernels_of(shape, layers):
  """The kernels of all layers."""
  depth, kernels = shape[-1], []
  for size, channels, _ in layers:
    key = jax.random.fold_in(jax.random.key(0), len(kernels))
    kernels.append(0.1 * jax.random.normal(key, (size, size, depth, channels)))
    depth = channels
  return kernels


def updates(kernels, pictures, *, layers, implementation):
  """Gradient steps, one for each of the pictures' batches."""

  def loss(kernels, x):
    for kernel, (_, _, stride) in zip(kernels, layers, strict=True):
      x = jax.nn.relu(convolution(x, kernel, stride=stride, implementation=implementation))
    return jnp.mean(jnp.square(x))

  def update(kernels, x):
    return jax.tree.map(lambda w, slope: w - 0.1 * slope, kernels, jax.grad(loss)(kernels, x)), None

  return jax.lax.scan(update, kernels, pictures)[0]


def main():
  parser = argparse.ArgumentParser(description='Times updates of networks of pictures.')
  parser.add_argument('--rounds', type=int, default=5)
  args = parser.parse_args()
  print(f'{jax.devices()[0].device_kind}, CPU time')
  print(f'{"network":22} implementation       ms  xla/this')
  for name, (shape, rows, layers) in NETWORKS.items():
    pictures = (jax.random.uniform(jax.random.key(1), (UPDATES, rows, *shape)) < 0.2).astype(jnp.float32)
    programs = {
        way: jax.jit(functools.partial(updates, layers=layers, implementation=way))
        for way in ('xla', 'patches')
    }
    inputs = kernels_of(shape, layers), pictures
    medians = turns.seconds(programs, inputs, args.rounds, clock=time.process_time)
    for way, median in medians.items():
      print(f'{name:22} {way:14} {1e3 * median / UPDATES:8.1f} {medians["xla"] / median:9.2f}', flush=True)


if __name__ == '__main__':
  main()
