"""Convolutions of pictures without padding, also where XLA's own are slow: in the loops of a CPU's program.

In a loop, as a train step is one, the gradient of a layer takes XLA several times as long as outside of one
(jaxlib 0.10.2). `patches` lays what a kernel sees side by side, by slices, and multiplies once; an update
then takes a tenth of the time and less (`benchmarks/convolution.py`). It needs kernel² / stride² times the
picture's memory, so that devices with convolutions of their own keep those.
"""

import jax
import jax.numpy as jnp

from rlx.kernels import switch


def convolution(x: jax.Array, kernel: jax.Array, *, stride: int, implementation: str) -> jax.Array:
  """Cross-correlation of pictures with a square kernel, without padding.

      y[n, i, j, d] = Σ over a, b, c of x[n, s i + a, s j + b, c] kernel[a, b, c, d]

  Args:
    x: [N, H, W, C].
    kernel: [K, K, C, D], K at most H and W.
    stride: s.
    implementation: 'patches', 'xla', or 'auto': the first on CPUs, the second elsewhere.
  Returns:
    [N, (H - K) // s + 1, (W - K) // s + 1, D].
  Raises:
    ValueError: there is no such implementation.
  """
  platform = switch.device().platform
  elsewhere = '' if platform == 'cpu' else f'this is {platform}, which has convolutions'
  # By name either runs anywhere; what it is not made for is no reason that it cannot.
  reasons = {'patches': lambda: elsewhere if implementation == 'auto' else '', 'xla': lambda: ''}
  if switch.choose('convolution', implementation, reasons) == 'patches':
    return _patches(x, kernel, stride)
  return jax.lax.conv_general_dilated(
      x, kernel, (stride, stride), 'VALID', dimension_numbers=('NHWC', 'HWIO', 'NHWC')
  )


def _patches(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
  size = kernel.shape[0]
  within = lambda first, length: slice(first, length - size + first + 1, stride)
  seen = [
      x[:, within(i, x.shape[1]), within(j, x.shape[2])] for i in range(size) for j in range(size)
  ]
  return jnp.concatenate(seen, axis=-1) @ kernel.reshape(-1, kernel.shape[-1])
