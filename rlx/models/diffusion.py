"""Diffusion: data are drowned in noise step by step, and a network that knows the way back makes new data.

    x_t = a_t x_0 + σ_t ε,   ε ~ N(0, I),   a_t² + σ_t² = 1,   t = 0, ..., T - 1
    L = mean |ε - ε̂(x_t, t)|²

A schedule says how fast a_t falls from almost 1 to almost 0. `sample` walks back from noise alone. All that
is asked of a network is a function `(x [B, ...], steps [B]) -> [B, ...]`, its guess of the noise; what it is
conditioned on is bound into it (`Denoiser.given`). Nothing here knows what x is.

Source: Ho et al., 2020, https://arxiv.org/abs/2006.11239.
"""

from collections.abc import Callable
import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.models.networks import Network
from rlx.types import Key

Denoise = Callable[[jax.Array, jax.Array], jax.Array]  # (noisy [B, ...], steps [B] int32) -> noise [B, ...]

_MAX_RATE = 0.999  # of the variance that one step may turn into noise


class Schedule(NamedTuple):
  """How much of the data and of the noise is in x_t.

  Attributes:
    signal: [T] float32 a_t, falling.
    noise: [T] float32 σ_t, rising.
  """

  signal: jax.Array
  noise: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Denoiser(Network):
  """The noise in data: `apply(params, noisy [B, ...], steps [B], condition [B, ...]) -> [B, ...]`.

  Attributes:
    schedule: of the noise.
    limit: no number of the data is larger.
  """

  schedule: Schedule
  limit: float

  def given(self, params: Any, condition: jax.Array) -> Denoise:
    """The network with its parameters, for rows of a condition [B, ...]."""
    return lambda noisy, steps: self.apply(params, noisy, steps, condition)


def cosine(num_steps: int) -> Schedule:
  """A schedule of even steps of an angle, a_t² = f(t + 1) / f(0) with f(t) = cos²(π/2 (t / T + s) / (1 + s)).

  Args:
    num_steps: T.
  Raises:
    ValueError: `num_steps` is not positive.
  Source: Nichol & Dhariwal, 2021, https://arxiv.org/abs/2102.09672, eq. 17; s = 0.008 and the bound on a step
    are theirs.
  """
  if num_steps < 1:
    raise ValueError(f'num_steps={num_steps} of noise: at least 1')
  remaining = np.cos(np.pi / 2 * (np.arange(num_steps + 1) / num_steps + 0.008) / 1.008) ** 2
  kept = np.maximum(remaining[1:] / remaining[:-1], 1 - _MAX_RATE)
  share = np.cumprod(kept)
  as_float = lambda x: jnp.asarray(x, jnp.float32)
  return Schedule(signal=as_float(np.sqrt(share)), noise=as_float(np.sqrt(1 - share)))


def noised(schedule: Schedule, x: jax.Array, noise: jax.Array, steps: jax.Array) -> jax.Array:
  """x_t [B, ...] of data and noise of the same shape, at steps [B]."""
  at = lambda level: _column(level[steps], x)
  return at(schedule.signal) * x + at(schedule.noise) * noise


def errors(denoise: Denoise, schedule: Schedule, x: jax.Array, key: Key) -> jax.Array:
  """How wrong the noise is guessed, at one random step for each row.

  Args:
    denoise: the network.
    schedule: of T steps.
    x: [B, ...] data.
    key: of steps and noise.
  Returns:
    [B] float32, squared errors averaged over the numbers of a row.
  """
  step_key, noise_key = jax.random.split(key)
  steps = jax.random.randint(step_key, x.shape[:1], 0, schedule.signal.shape[0])
  noise = jax.random.normal(noise_key, x.shape)
  guess = denoise(noised(schedule, x, noise, steps), steps)
  return jnp.square(guess.astype(jnp.float32) - noise).mean(axis=tuple(range(1, x.ndim)))


def sample(
    denoise: Denoise, schedule: Schedule, shape: tuple[int, ...], key: Key, *, limit: float
) -> jax.Array:
  """New data, by walking all T steps back from noise.

      x̂_0 = clip((x_t - σ_t ε̂) / a_t, ±limit),   x_{t-1} ~ q(x_{t-1} | x_t, x̂_0)

  Args:
    denoise: the network.
    schedule: that it was trained with.
    shape: [B, ...] of what is made.
    key: of all noise.
    limit: no number of the data is larger; infinity for no bound. It keeps the first steps, where a_t is all
      but 0, from blowing up what the network gets wrong.
  Returns:
    float32 of that shape.
  """
  num_steps = schedule.signal.shape[0]
  begin_key, walk_key = jax.random.split(key)

  def back(x, inputs):
    step, key = inputs
    steps = jnp.full(shape[:1], step)
    signal, noise = schedule.signal[step], schedule.noise[step]
    earlier = jnp.maximum(step - 1, 0)
    signal_before = jnp.where(step > 0, schedule.signal[earlier], 1.0)
    variance_before = jnp.where(step > 0, schedule.noise[earlier] ** 2, 0.0)
    kept = (signal / signal_before) ** 2
    data = jnp.clip((x - noise * denoise(x, steps)) / signal, -limit, limit)
    mean = (signal_before * (1 - kept) * data + jnp.sqrt(kept) * variance_before * x) / noise**2
    std = jnp.sqrt(variance_before * (1 - kept)) / noise
    return mean + std * jax.random.normal(key, shape), None

  x = jax.random.normal(begin_key, shape)
  x, _ = jax.lax.scan(back, x, (jnp.arange(num_steps)[::-1], jax.random.split(walk_key, num_steps)))
  return x


def step_features(steps: jax.Array, *, size: int) -> jax.Array:
  """Numbers by which a network tells steps apart: sines and cosines of wavelengths from 2 π to 1000 · 2 π.

  Args:
    steps: [...] int32.
    size: how many numbers, even.
  Returns:
    [..., size] float32.
  """
  rates = jnp.asarray(1000.0 ** -np.linspace(0, 1, size // 2), jnp.float32)
  angles = steps[..., None] * rates.reshape((1,) * steps.ndim + rates.shape)
  return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def _column(levels: jax.Array, x: jax.Array) -> jax.Array:
  """[B] as [B, 1, ...], for x [B, ...]."""
  return levels.reshape(levels.shape + (1,) * (x.ndim - 1))
