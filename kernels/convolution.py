"""Convolutions of pictures without padding, whose gradients are fast in the loops of a CPU's program, too.

In a loop, as a train step is one, XLA takes many times as long on a CPU for the gradient of a kernel as for
the rest (jaxlib 0.10.2; `benchmarks/convolution.py`). `patches` lays what the kernel sees side by side, by
slices, and multiplies once. That needs kernel² / stride² times the picture's memory, in the backward pass
alone; devices with convolutions of their own keep those.
"""

import functools

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
    implementation: 'xla', 'patches' (XLA's with another gradient, which has no forward mode), or 'auto': the
      second on CPUs, the first elsewhere.
  Returns:
    [N, (H - K) // s + 1, (W - K) // s + 1, D].
  Raises:
    ValueError: there is no such implementation.
  """
  order = ('patches', 'xla') if switch.device().platform == 'cpu' else ('xla', 'patches')
  name = switch.choose('convolution', implementation, dict.fromkeys(order, lambda: ''))
  return {'xla': _convolved, 'patches': _with_patches}[name](x, kernel, stride)


def _convolved(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
  return jax.lax.conv_general_dilated(
      x, kernel, (stride, stride), 'VALID', dimension_numbers=('NHWC', 'HWIO', 'NHWC')
  )


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _with_patches(x, kernel, stride):
  return _convolved(x, kernel, stride)


def _forward(x, kernel, stride):
  return _convolved(x, kernel, stride), (x, kernel)


def _backward(stride, kept, slope):
  x, kernel = kept
  of_pictures = jax.linear_transpose(lambda x: _convolved(x, kernel, stride), x)
  of_kernel = jnp.einsum('nijk,nijd->kd', _patches(x, kernel.shape[0], stride), slope)
  return *of_pictures(slope), of_kernel.reshape(kernel.shape)


_with_patches.defvjp(_forward, _backward)


def _patches(x: jax.Array, size: int, stride: int) -> jax.Array:
  """[N, I, J, K² C], what a kernel sees at each place, in the order of its own numbers."""
  within = lambda first, length: slice(first, length - size + first + 1, stride)
  seen = [x[:, within(i, x.shape[1]), within(j, x.shape[2])] for i in range(size) for j in range(size)]
  return jnp.concatenate(seen, axis=-1)
