"""FamO2O: IQL for a whole family of policies at once, and a second policy that picks one for each state.

How far a policy may go from the data is a number β, which IQL fixes for all states. Here the policy is told
β, and learns all of them:

    L_π = -mean min(exp(β (Q - V)), w) log π(a | s, β),   β uniform in [β₋, β₊] for each row
    L_b = mean (α log b(β | s) - min_i Q_i(s, ã)),   ã ~ π(· | s, β), β ~ b(· | s)
    L_α = log α · mean (-log b(β | s) - H̄)

V and Q are those of IQL. Nothing changes from offline to online. β is told as a number in [-1, 1], with which
the density b is written too; the paper tells it by sines and cosines.

Source: Wang et al., 2023, https://arxiv.org/abs/2310.17966, and the authors' code for IQL. That the
members go on with uniform β online is our reading.
"""

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.losses import value as value_losses
from rlx.losses.actor_critic import regression_on_values
from rlx.models.family import told
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def famo2o(
    rollout: Rollout, members: Policy, balance: Policy, value: Network, critic: Network,
    temperature: Network, *, discount: float, target_rate: float, expectile: float, lowest: float,
    highest: float, weight_max: float, target_entropy: float,
) -> Algorithm:
  """Trains its networks, and `slow['target']` follows `critic`; what acts is the `family` of the first two.

  Args:
    rollout: yields transitions, offline or online.
    members: π, for observations with a balance behind them.
    balance: b.
    value: V(s).
    critic: an ensemble of Q(s, a).
    temperature: a positive number, α, of the balance alone.
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    expectile: τ of V.
    lowest: β₋, one over the units of returns.
    highest: β₊.
    weight_max: w, the largest weight of an action.
    target_entropy: H̄ of b, in nats, of a number in [-1, 1]; uniform is log 2.
  """
  held = jax.lax.stop_gradient

  def loss(models: Models, batch: Batch, key: Key):
    member_key, balance_key, action_key = jax.random.split(key, 3)
    observations, actions = batch['observations'], batch['actions']
    judged = held(critic.apply(models['target'], observations, actions).min(axis=0))
    advantages = judged - value.apply(models['value'], observations)
    value_loss = value_losses.expectile_error(advantages, expectile=expectile).mean()
    critic_loss = regression_on_values(critic, value, models, batch, discount=discount)

    given = jax.random.uniform(member_key, (*advantages.shape, 1), minval=-1.0, maxval=1.0)
    logprobs, _ = members.score(models['members'], told(observations, given), actions)
    sharpness = coefficient(given, lowest=lowest, highest=highest)
    weights = value_losses.exponential_weights(advantages * sharpness, sharpness=1.0, weight_max=weight_max)
    members_loss = -jnp.mean(weights * logprobs)

    alpha = temperature.apply(models['temperature'])
    picked, surprise = balance.sample(models['balance'], observations, balance_key)
    tried, _ = members.sample(held(models['members']), told(observations, picked), action_key)
    worth = value_losses.lowest(critic.apply(held(models['critic']), observations, tried), axis=0)
    balance_loss = jnp.mean(held(alpha) * surprise - worth)
    temperature_loss = -jnp.log(alpha) * held(jnp.mean(surprise) + target_entropy)
    metrics = {
        'loss/value': value_loss,
        'loss/critic': critic_loss,
        'loss/policy': members_loss,
        'loss/balance': balance_loss,
        'critic/mean': judged.mean(),
        'policy/sharpness': coefficient(picked, lowest=lowest, highest=highest).mean(),
        'policy/temperature': alpha,
    }
    return value_loss + critic_loss + members_loss + balance_loss + temperature_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=tracking.polyak({'target': 'critic'}, rate=target_rate))


def coefficient(balance: jax.Array, *, lowest: float, highest: float) -> jax.Array:
  """[...] β of balances [..., 1] in [-1, 1]."""
  return lowest + (balance[..., 0] + 1) / 2 * (highest - lowest)
