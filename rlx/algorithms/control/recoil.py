"""ReCOIL: imitates a few good rows with the help of many others, without rewards and without a discriminator.

With E the rows of the expert (`preferred`), R a pseudo-reward and q = R / (1 - γ):

    L_Q = mean [ c · 1(E) Σ_i (Q_i(s, a) - q)² + Σ_i (-R + γ (1 - terminated) V(s') - Q_i(s, a))² ]
    L_V = mean |τ - 1(u < 0)| u²,   L_π = -mean min(exp(β u), w) log π(a | s),   u = min_i Q̄_i(s, a) - V(s)

It is the dual of matching mixtures, half expert and half data, under χ²: values are pushed up where the
expert was, and everywhere obey Bellman's equation, so that ways back to the expert's states are worth more
than ways off. Nothing asks that the data cover the expert. Values and policy are IQL's.

Source: Sikchi et al., 2023, https://arxiv.org/abs/2302.08560, section 4 and eq. 9. That the first term is a
least-squares pull to a bound of the values, and -R, are from the authors' code; c weighs the expert's share
of the rows (they draw half of each batch from the expert). What a terminal state is worth, 0, is our reading.
"""

import dataclasses

import jax.numpy as jnp

from rlx.algorithms.control.iql import iql
from rlx.losses.actor_critic import mean_where
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def recoil(
    rollout: Rollout, policy: Policy, value: Network, critic: Network, *, discount: float,
    target_rate: float, expectile: float, sharpness: float, weight_max: float, pseudo_reward: float,
    expert_weight: float,
) -> Algorithm:
  """Relaxed-coverage imitation; trains `policy`, `value` and `critic`, and `slow['target']` follows.

  Args:
    rollout: yields transitions with `preferred` [B], True for the expert's; rewards are not looked at.
    policy: a distribution of actions.
    value: V(s).
    critic: an ensemble of Q(s, a).
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    expectile: τ.
    sharpness: β, one over the units of the pseudo-returns.
    weight_max: w.
    pseudo_reward: R, above 0; the values lie within ±R / (1 - γ).
    expert_weight: c; one over the share of the expert's rows makes both terms alike.
  """
  highest = pseudo_reward / (1 - discount)
  parent = iql(
      rollout, policy, value, critic, discount=discount, target_rate=target_rate, expectile=expectile,
      sharpness=sharpness, weight_max=weight_max,
  )

  def loss(models: Models, batch: Batch, key: Key):
    pretended = {**batch, 'rewards': jnp.full(batch['preferred'].shape, -pseudo_reward)}
    total, metrics = parent.loss(models, pretended, key)
    values = critic.apply(models['critic'], batch['observations'], batch['actions'])
    pull = jnp.where(batch['preferred'], jnp.square(values - highest).sum(axis=0), 0).mean()
    gap = mean_where(values[0], batch['preferred']) - mean_where(values[0], ~batch['preferred'])
    return total + expert_weight * pull, {**metrics, 'loss/expert': pull, 'critic/expert_gap': gap}

  return dataclasses.replace(parent, loss=loss)
