"""Diffusion: the schedule and the target by hand, and samples of distributions whose denoiser is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.models import diffusion

KEY = jax.random.key(0)
NO_LIMIT = float('inf')


def test_the_cosine_schedule_by_hand():
  schedule = diffusion.cosine(2)
  f = lambda t: np.cos(np.pi / 2 * (t / 2 + 0.008) / 1.008) ** 2
  half = f(1) / f(0)
  np.testing.assert_allclose(np.square(schedule.signal), [half, half * 1e-3], rtol=1e-4)  # 0 would be the end
  many = diffusion.cosine(100)
  np.testing.assert_allclose(many.signal**2 + many.noise**2, 1, rtol=1e-5)
  assert (np.diff(many.signal) < 0).all() and many.signal[0] > 0.999 and many.signal[-1] < 0.01
  with pytest.raises(ValueError, match='num_steps=0'):
    diffusion.cosine(0)


def test_data_are_drowned_row_by_row():
  schedule = diffusion.Schedule(jnp.array([0.8, 0.6]), jnp.array([0.6, 0.8]))
  x, noise = jnp.ones((2, 3)), jnp.full((2, 3), 2.0)
  np.testing.assert_allclose(
      diffusion.noised(schedule, x, noise, jnp.array([1, 0])), [[0.6 + 1.6] * 3, [0.8 + 1.2] * 3], rtol=1e-6
  )


def test_the_target_is_the_noise_that_was_added():
  """Who knows the data knows the noise; who always says c is wrong by 1 + c² in the mean."""
  schedule = diffusion.cosine(10)
  x = jax.random.normal(jax.random.key(1), (2000, 3, 2))

  def knowing(noisy, steps):
    at = lambda level: level[steps][:, None, None]
    return (noisy - at(schedule.signal) * x) / at(schedule.noise)

  errors = diffusion.errors(knowing, schedule, x, KEY)
  assert errors.shape == (2000,)
  np.testing.assert_allclose(errors, 0, atol=1e-6)
  errors = diffusion.errors(lambda noisy, steps: jnp.full(noisy.shape, 0.5), schedule, x, KEY)
  np.testing.assert_allclose(errors.mean(), 1.25, rtol=0.03)


def test_every_step_is_trained():
  """A denoiser that fails at one step alone is found out at that step's share of the rows."""
  schedule, x = diffusion.cosine(4), jnp.zeros((4000, 1))

  def wrong_at(step):
    right = lambda noisy, steps: noisy / schedule.noise[steps][:, None]
    return lambda noisy, steps: right(noisy, steps) + (steps == step)[:, None]

  for step in range(4):
    errors = diffusion.errors(wrong_at(step), schedule, x, KEY)
    np.testing.assert_allclose(errors.mean(), 0.25, atol=0.03)


def exact(schedule, means, std):
  """The denoiser of a mixture of Gaussians of one width, in equal parts."""
  means = jnp.array(means)

  def denoise(noisy, steps):
    a, sigma = schedule.signal[steps][:, None], schedule.noise[steps][:, None]
    spread = (a * std) ** 2 + sigma**2
    centred = noisy - a * means[None]
    shares = jax.nn.softmax(-(centred**2) / (2 * spread), axis=-1)
    return jnp.sum(shares * sigma * centred / spread, axis=-1, keepdims=True)

  return denoise


def test_samples_are_of_the_distribution_that_the_denoiser_knows():
  schedule, shape = diffusion.cosine(100), (4000, 1)
  walk = lambda means, std: np.asarray(
      diffusion.sample(exact(schedule, means, std), schedule, shape, KEY, limit=NO_LIMIT)
  )
  one = walk([2.0], 0.5)
  np.testing.assert_allclose([one.mean(), one.std()], [2, 0.5], atol=0.04)
  two = walk([-1.5, 1.5], 0.2)
  left, right = two[two < 0], two[two >= 0]
  np.testing.assert_allclose(len(left) / 4000, 0.5, atol=0.04)
  np.testing.assert_allclose([left.mean(), right.mean()], [-1.5, 1.5], atol=0.03)
  np.testing.assert_allclose([left.std(), right.std()], 0.2, atol=0.03)


def test_the_last_step_adds_no_noise_and_the_limit_holds():
  """Of a single point the way back ends in it, in however few steps."""
  for num_steps in (1, 3):
    schedule = diffusion.cosine(num_steps)
    at_three = exact(schedule, [3.0], 0.0)
    sample = lambda limit: diffusion.sample(at_three, schedule, (5, 1), KEY, limit=limit)
    np.testing.assert_allclose(sample(NO_LIMIT), 3, rtol=1e-4)
    np.testing.assert_allclose(sample(2.0), 2, rtol=1e-6)


def test_step_features_tell_steps_apart():
  features = np.asarray(diffusion.step_features(jnp.arange(50), size=8))
  assert features.shape == (50, 8)
  gaps = np.abs(features[:, None] - features[None]).max(axis=-1)
  assert gaps[~np.eye(50, dtype=bool)].min() > 0.02
