"""DSAC-T: SAC whose critics are Gaussian distributions of the return, N(Q_i, σ_i²).

    i* = argmin_i Q̄_i(s', a'),   a' ~ π(· | s')                        (twin distributions: of the lower mean)
    y_q = r + γ (1 - terminated) (Q̄_{i*}(s', a') - α log π(a' | s'))                        (expected value)
    y_z = r + γ (1 - terminated) (Z - α log π(a' | s')),   Z ~ N(Q̄_{i*}, σ̄_{i*}²)
    ∇L_i = -ω_i mean [(y_q - Q_i) / (σ_i² + ε) ∇Q_i + ((C(y_z) - Q_i)² - σ_i²) / (σ_i³ + ε) ∇σ_i]
    C(y) = clip(y, Q_i ± b_i),   b_i = 3 mean σ_i,   ω_i = mean σ_i² + ε           (scaled by the variance)

L_π and L_α are SAC's. With ω the gradient of the mean no longer depends on how spread rewards are, and with
b neither do the bounds: what is left depends little on the scale of rewards. b and ω are means over the rows
of an update (the paper follows them with a moving average), so an update is the better the more rows it has,
and does depend on how it is split into micro-batches. a' is of the policy as it is, as in SAC (the authors'
is of a lagging one). `likelihood` in the place of `gaussian_loss`, with one critic, is DSAC as it was before.

Source: Duan et al., 2023, https://arxiv.org/abs/2310.05858, section IV; the moving averages left out and the
bounds of σ (`gaussian_critics`) are our choice.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.algorithms.control.sac import soft_climb
from rlx.envs.control.environment import Environment
from rlx.losses.actor_critic import bootstrapped
from rlx.losses.value import lowest
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout

BOUND = 3.0  # standard deviations
EPS = 0.1


def dsac_t(
    rollout: Rollout, env: Environment, policy: Policy, critic: Network, temperature: Network, *,
    critic_loss: Callable[..., jax.Array], discount: float, target_rate: float, target_entropy: float,
) -> Algorithm:
  """Distributional SAC with three refinements; trains the models of SAC.

  Args:
    rollout: yields transitions.
    env: says how many numbers an action has.
    policy: a distribution with gradients through its samples.
    critic: `gaussian_critics`.
    temperature: a positive number, α.
    critic_loss: `gaussian_loss`, or another of its four arguments.
    discount: γ per step.
    target_rate: share of the critic that `slow['target']` takes on after each update.
    target_entropy: of the policy, in nats for each number of the action.
  """
  wanted_entropy = target_entropy * env.actions.size
  held = jax.lax.stop_gradient

  def targets(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, jax.Array]:
    action_key, return_key = jax.random.split(key)
    actions, logprobs = policy.sample(models['policy'], batch['next_observations'], action_key)
    mean, std = lower(*critic.apply(models['target'], batch['next_observations'], actions))
    returns = mean + std * jax.random.normal(return_key, mean.shape)
    paid = temperature.apply(models['temperature']) * logprobs
    after = lambda x: bootstrapped(batch, x - paid, discount=discount)
    return after(mean), after(returns)

  def loss(models: Models, batch: Batch, key: Key):
    target_key, action_key = jax.random.split(key)
    mean, std = critic.apply(models['critic'], batch['observations'], batch['actions'])
    expected, drawn = targets(models, batch, target_key)
    loss_of_critics = critic_loss(mean, std, expected[None], drawn[None]).mean(axis=1).sum()

    worth = lambda actions: lowest(
        critic.apply(held(models['critic']), batch['observations'], actions)[0], axis=0
    )
    policy_loss, temperature_loss, metrics = soft_climb(
        policy, temperature, worth, models, batch, action_key, target_entropy=wanted_entropy
    )
    metrics |= {'loss/critic': loss_of_critics, 'critic/mean': mean.mean(), 'critic/std': std.mean()}
    return loss_of_critics + policy_loss + temperature_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=tracking.polyak({'target': 'critic'}, rate=target_rate))


def lower(mean: jax.Array, std: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Mean and standard deviation [B] of that of the distributions [N, B] whose mean is the lowest."""
  which = jnp.argmin(mean, axis=0)[None]
  at = lambda x: jnp.take_along_axis(x, which, axis=0)[0]
  return at(mean), at(std)


def gaussian_loss(mean: jax.Array, std: jax.Array, expected: jax.Array, drawn: jax.Array) -> jax.Array:
  """Something [N, B] whose gradient is ∇L_i above; its value means nothing.

  Args:
    mean: [N, B] Q_i.
    std: [N, B] σ_i.
    expected: [1, B] y_q.
    drawn: [1, B] y_z.
  """
  held = jax.lax.stop_gradient
  q, sigma = held(mean), held(std)
  bound = BOUND * sigma.mean(axis=1, keepdims=True)
  scale = jnp.square(sigma).mean(axis=1, keepdims=True)
  surprise = jnp.clip(drawn - q, -bound, bound)
  pull = (expected - q) / (sigma**2 + EPS)
  spread = (jnp.square(surprise) - sigma**2) / (sigma**3 + EPS)
  return -(scale + EPS) * (pull * mean + spread * std)


def likelihood(
    mean: jax.Array, std: jax.Array, expected: jax.Array, drawn: jax.Array, *, bound: float
) -> jax.Array:
  """The loss of DSAC, before two of the refinements: the target is drawn, and nothing is scaled.

      ∇L_i = -mean [(y_z - Q_i) / σ_i² ∇Q_i + ((C(y_z) - Q_i)² - σ_i²) / σ_i³ ∇σ_i],   C(y) = clip(y, Q_i ± b)

  Args:
    mean: as those of `gaussian_loss`.
    std: the same.
    expected: the same; it is not looked at.
    drawn: the same.
    bound: b, in the units of returns (the authors': 10).
  Returns:
    [N, B].
  Source: Duan et al., 2020, https://arxiv.org/abs/2001.02811, section IV.
  """
  del expected
  held = jax.lax.stop_gradient
  surprise = jnp.clip(drawn - held(mean), -bound, bound)
  of_mean = jnp.square(drawn - mean) / (2 * jnp.square(held(std)))
  return of_mean + jnp.square(surprise) / (2 * jnp.square(std)) + jnp.log(std)
