"""AWAC: an actor-critic whose policy imitates the data with the weights of its own advantages.

    y = r + γ (1 - terminated) min_i Q̄_i(s', a'),   L_Q = Σ_i mean (Q_i(s, a) - y)²
    L_π = -mean min(exp(A / λ), w) log π(a | s),   A = min_i Q_i(s, a) - min_i Q_i(s, ã)

with a' and ã drawn from the policy. The policy is never asked for the gradient of the critic, so it stays
among the actions of the data, offline and online alike.

Source: Nair et al., 2020, https://arxiv.org/abs/2006.09359, eqs. 8 and 13. The bound w is ours; the authors'
code normalises the weights over the batch instead, which depends on how the batch is split.
"""

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.losses.actor_critic import bootstrapped, ensemble_error
from rlx.losses.value import exponential_weights
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def awac(
    rollout: Rollout, policy: Policy, critic: Network, *, discount: float, target_rate: float,
    sharpness: float, weight_max: float,
) -> Algorithm:
  """Advantage-weighted actor-critic; trains `policy` and `critic`, and `slow['target']` follows `critic`.

  Args:
    rollout: yields transitions, offline or online.
    policy: a distribution of actions.
    critic: an ensemble of Q(s, a).
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    sharpness: 1 / λ, one over the units of returns.
    weight_max: w, the largest weight of an action.
  """
  lowest = lambda params, *inputs: critic.apply(params, *inputs).min(axis=0)

  def loss(models: Models, batch: Batch, key: Key):
    next_key, key = jax.random.split(key)
    observations, following = batch['observations'], batch['next_observations']
    next_actions, _ = policy.sample(models['policy'], following, next_key)
    bootstrap = lowest(models['target'], following, next_actions)
    values = critic.apply(models['critic'], observations, batch['actions'])
    critic_loss = ensemble_error(values, bootstrapped(batch, bootstrap, discount=discount))

    own, _ = policy.sample(models['policy'], observations, key)
    advantages = values.min(axis=0) - lowest(models['critic'], observations, own)
    weights = exponential_weights(advantages, sharpness=sharpness, weight_max=weight_max)
    logprobs, _ = policy.score(models['policy'], observations, batch['actions'])
    policy_loss = -jnp.mean(weights * logprobs)
    metrics = {
        'loss/critic': critic_loss,
        'loss/policy': policy_loss,
        'critic/mean': values.mean(),
        'policy/weight': weights.mean(),
    }
    return critic_loss + policy_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=tracking.polyak({'target': 'critic'}, rate=target_rate))
