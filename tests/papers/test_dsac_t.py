"""S155, DSAC-T: its gradients by hand, and what scale does to them."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import o2o_toy as toy
import pytest

from rlx.advantages import temporal
from rlx.algorithms.control import dsac_t
from rlx.algorithms.control.sac import sac
from rlx.envs.control import probes
from rlx.envs.control.pointmass import pointmass
from rlx.envs.control.wrappers import scaled_reward
from rlx.models import networks
from rlx.models.critics import gaussian_critics
from rlx.rollout.control.replay import replay
from rlx.rollout.control.unroll import unroll

EPS, BOUND = dsac_t.EPS, dsac_t.BOUND
MEAN = jnp.array([[1.0, 2.0], [0.0, 5.0]])
STD = jnp.array([[0.5, 1.5], [1.0, 3.0]])


def gradients(mean, std, expected, drawn):
  loss = lambda mean, std: dsac_t.gaussian_loss(mean, std, expected[None], drawn[None]).sum()
  return jax.grad(loss, (0, 1))(mean, std)


def test_the_gradients_of_the_paper_by_hand():
  expected, drawn = jnp.array([2.0, 1.0]), jnp.array([100.0, -1.0])
  of_mean, of_std = gradients(MEAN, STD, expected, drawn)
  for i in range(2):
    omega, bound = np.mean(np.square(STD[i])), BOUND * np.mean(STD[i])
    for j in range(2):
      q, sigma = float(MEAN[i, j]), float(STD[i, j])
      pull = (float(expected[j]) - q) / (sigma**2 + EPS)
      cut = np.clip(float(drawn[j]) - q, -bound, bound)
      spread = (cut**2 - sigma**2) / (sigma**3 + EPS)
      np.testing.assert_allclose(of_mean[i, j], -(omega + EPS) * pull, rtol=1e-5)
      np.testing.assert_allclose(of_std[i, j], -(omega + EPS) * spread, rtol=1e-5)


def test_no_gradient_where_the_distribution_is_right():
  of_mean, of_std = gradients(MEAN[:1], STD[:1], MEAN[0], MEAN[0] + STD[0])
  np.testing.assert_allclose(of_mean, 0, atol=1e-6)
  np.testing.assert_allclose(of_std, 0, atol=1e-6)


def test_gradients_are_in_the_units_of_returns_whatever_these_are():
  """With returns and σ c times as large, the gradient of the mean is c times as large and not c² or 1/c²:
  Adam then takes the same steps. (ε is what is left; it does not count for large c.)"""
  expected, drawn = jnp.array([2.0, 1.0]), jnp.array([3.0, -1.0])
  small = gradients(*(100 * x for x in (MEAN, STD, expected, drawn)))
  large = gradients(*(10_000 * x for x in (MEAN, STD, expected, drawn)))
  for a, b in zip(small, large, strict=True):
    np.testing.assert_allclose(b, 100 * a, rtol=1e-3)


def test_before_the_refinements_it_is_the_likelihood_of_a_drawn_return():
  """Where nothing is cut, -log N(y_z | Q, σ²) less a constant, whatever was expected."""
  drawn, loss = jnp.array([[0.5, 1.0]]), functools.partial(dsac_t.likelihood, bound=100.0)
  density = lambda mean, std: -jax.scipy.stats.norm.logpdf(drawn, mean, std).sum()
  ours = jax.grad(lambda mean, std: loss(mean, std, 7 * drawn, drawn).sum(), (0, 1))(MEAN, STD)
  for a, b in zip(ours, jax.grad(density, (0, 1))(MEAN, STD), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-5)


def test_bounds_of_the_likelihood_hold_the_spread_alone():
  of_mean, of_std = jax.grad(
      lambda mean, std: dsac_t.likelihood(mean, std, mean, jnp.array([[100.0, 4.0]]), bound=2.0).sum(), (0, 1)
  )(MEAN, STD)
  np.testing.assert_allclose(of_mean[0], [(1 - 100) / 0.25, (2 - 4) / 2.25], rtol=1e-5)
  np.testing.assert_allclose(of_std[0], [-(4 - 0.25) / 0.125, -(4 - 2.25) / 3.375], rtol=1e-5)


def test_the_target_is_of_the_distribution_with_the_lower_mean():
  mean, std = dsac_t.lower(MEAN, STD)
  np.testing.assert_array_equal(mean, [0.0, 2.0])
  np.testing.assert_array_equal(std, [1.0, 1.5])


def test_a_critic_is_positive_in_its_spread():
  env = probes.better(discrete=False)
  critic = gaussian_critics(env, num=3, hidden=(4,), activation='tanh')
  mean, std = critic.apply(critic.init(jax.random.key(0)), jnp.ones((5, 1)), jnp.ones((5, 1)))
  assert mean.shape == std.shape == (3, 5) and (std > 0).all()


# --- learning -----------------------------------------------------------------------------------------------


class Learnt(NamedTuple):
  """What became of the seeds, [toy.SEEDS] each.

  Attributes:
    returns: of the policy's mode, in unscaled rewards.
    bias: what the critic thinks of its own states and actions, less what came of them, in unscaled rewards.
    size: mean |what came of them|.
  """

  returns: np.ndarray
  bias: np.ndarray
  size: np.ndarray


def parts(name, env):
  """`(factory, critic, mean of each member's judgement)` of an algorithm."""
  if name == 'sac':
    critic = networks.critics(env, num=2, layer_norm=False, **toy.SHAPE)
    return sac, critic, critic.apply
  critic = gaussian_critics(env, num=2, **toy.SHAPE)
  factory = functools.partial(dsac_t.dsac_t, critic_loss=dsac_t.gaussian_loss)
  return factory, critic, lambda *inputs: critic.apply(*inputs)[0]


@functools.cache
def learnt(name, scale):
  """After 5,000 steps of a point mass, with rewards times `scale`."""
  env = scaled_reward(toy.ENV, scale=scale)
  policy, temperature = networks.squashed_gaussian(env, **toy.SHAPE), networks.positive(initial=0.1)
  factory, critic, judge = parts(name, env)
  rollout = replay(
      env, policy, num_envs=1, num_steps=1, capacity=4000, warmup_steps=400, batch_size=128
  )
  algorithm = factory(rollout, env, policy, critic, temperature, **toy.SAC)
  networks_by_name = {'policy': policy, 'critic': critic, 'temperature': temperature}
  models, returns, _ = toy.stage(
      algorithm, toy.fresh(networks_by_name, jax.random.key(0)), policy=policy, chunks=4, steps=1250
  )
  bias, size = jax.jit(jax.vmap(functools.partial(q_bias, policy, judge, scale)))(models)
  return Learnt(returns[:, -1], np.asarray(bias) / scale, np.asarray(size) / scale)


def q_bias(policy, judge, scale, models):
  """mean of min_i Q_i(s, a) - (r + Σ_k γ^k (r_k - α log π(a_k | s_k))), and mean |the sum|.

  Of the first 40 steps, behind each of which come at least 100 more (γ^100 = 0.006).
  """
  endless = scaled_reward(pointmass(friction=0.5, **{**toy.PLACE, 'max_steps': 1000}), scale=scale)
  play = unroll(endless, policy, num_envs=32, num_steps=140)
  batch, _ = play(models, play.begin(jax.random.key(1)), jax.random.key(2))
  alpha, discount = jnp.exp(models['temperature']['log']), toy.SAC['discount']
  paid = alpha * batch['sampler_logprobs']
  soft = batch['rewards'] - discount * jnp.pad(paid[:, 1:], ((0, 0), (0, 1)))
  came = temporal.returns(soft, jnp.full(soft.shape, discount))[:, :40]
  judged = judge(models['critic'], batch['observations'][:, :40], batch['actions'][:, :40]).min(axis=0)
  return jnp.mean(judged - came), jnp.mean(jnp.abs(came))


@pytest.mark.slow
def test_values_are_no_further_from_what_comes_than_those_of_sac():
  """Values of a point mass are 5 to 6 below 0. After 5,000 steps five seeds of DSAC-T judge their own actions
  1.50 (median; worst 2.25) too low, of SAC 1.43 (2.13): that the bias is smaller does not show.

  After 2,000 steps, when policies are still getting better, it does not show either: 3.16 too high (5.55) and
  0.07 (4.48); nor there with noise of 2 on rewards of about 1: 5.39 (9.05) and 3.63 (15.40). With rewards
  times 100, 0.99 too high and 1.48 after 5,000 steps.
  """
  biases = {name: learnt(name, 1.0).bias for name in ('dsac_t', 'sac')}
  of_dsac_t, of_sac = (np.median(np.abs(bias)) for bias in biases.values())
  assert of_dsac_t < of_sac + 0.5
  assert np.abs(biases['dsac_t']).max() < 3


@pytest.mark.slow
def test_rewards_times_100_cost_it_about_what_they_cost_sac():
  """Random actions earn -51 and a good controller -18. With rewards times 100, DSAC-T goes from a median of
  -18.56 (worst -19.50) to -24.47 (-25.40), SAC from -17.70 (-18.70) to -23.27 (-24.10): that the scale
  changes DSAC-T less does not show. After 2,000 steps -23.5 and -26.3, -21.9 and -25.6.

  With Adam the steps of SAC do not grow with rewards either. What both lack is the time until their outputs,
  which begin near 1, are as large as the returns; refinements of the gradient do not shorten it.
  """
  medians = {
      (name, scale): np.median(learnt(name, scale).returns)
      for name in ('dsac_t', 'sac') for scale in (1.0, 100.0)
  }
  lost = {name: medians[name, 1.0] - medians[name, 100.0] for name in ('dsac_t', 'sac')}
  assert abs(lost['dsac_t'] - lost['sac']) < 3
  assert medians['dsac_t', 1.0] > -21
  assert medians['dsac_t', 100.0] > -30
